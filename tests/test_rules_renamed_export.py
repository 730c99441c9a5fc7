"""How exports under other names are compared: `pytest_hierexport._rules.renamed_export`."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from pytest_hierexport._cases import Case
from pytest_hierexport._cases.exporting import export_case
from pytest_hierexport._rules.base import ExportedCase
from pytest_hierexport._rules.renamed_export import renaming_violations

REGISTRY: dict[str, float] = {}


class Block(nn.Module):
    """One projection."""

    def __init__(self) -> None:
        super().__init__()
        self.projection = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        projected: torch.Tensor = self.projection(x)
        return projected


class Plain(nn.Module):
    """A block, called by its name."""

    def __init__(self) -> None:
        super().__init__()
        self.block = Block()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        blocked: torch.Tensor = self.block(x)
        return blocked


class FindsPartsByName(Plain):
    """A model that decides by the names of its own parts."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for name, child in self.named_children():
            x = child(x) if name == "block" else -child(x)
        return x


class Chooses(nn.Module):
    """A model whose branches torch compiles, modules and all."""

    def __init__(self) -> None:
        super().__init__()
        self.here, self.there = Block(), Block()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        chosen: torch.Tensor = torch.cond(
            x.sum() > 0, lambda x: self.here(x).sin(), lambda x: self.there(x).relu(), (x,)
        )
        return chosen


class FindsItselfByWhatItPrints(Plain):
    """A model that looks itself up in a table, as some libraries' models do."""

    def __init__(self) -> None:
        super().__init__()
        REGISTRY[str(type(self))] = 2.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) * REGISTRY.get(str(type(self)), 3.0) * REGISTRY.get(str(type(self)), 5.0)


class Final(Plain):
    """A class that forbids subclasses."""

    def __init_subclass__(cls) -> None:
        raise TypeError("this class is final")


def found(folder: Path, model: nn.Module) -> list[tuple[str, str]]:
    case = Case("model", lambda: (model, (torch.ones(1, 2),)), "tests", exporter="dynamo", randomise=False)
    example = case.load()
    export_case(case, example, folder / "model.onnx")
    exported = ExportedCase(case, folder / "model.onnx", example)
    return [(violation.where, violation.found) for violation in renaming_violations(exported)]


def test_model_without_names_shows_no_difference(tmp_path: Path) -> None:
    assert not found(tmp_path, Plain())


def test_modules_in_compiled_branches_show_no_difference(tmp_path: Path) -> None:
    assert not found(tmp_path, Chooses())


def test_model_that_finds_parts_by_name_gives_another_graph(tmp_path: Path) -> None:
    ((_, what),) = found(tmp_path, FindsPartsByName())
    assert "Neg(" in what


def test_lookup_by_the_printed_class_shows_no_difference(tmp_path: Path) -> None:
    assert not found(tmp_path, FindsItselfByWhatItPrints())


def test_model_that_cannot_be_renamed_is_a_violation(tmp_path: Path) -> None:
    ((where, what),) = found(tmp_path, Final())
    assert where == "the model under other names"
    assert "Final: TypeError: this class is final" in what
