"""MUST-008: exports repeat.

A second process under another hash seed exports the same bytes.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import onnx
import pytest
import torch
from torch import nn

import plain_models
import toy_models
from pytest_hierexport._cases import Case, Example
from pytest_hierexport._cases.exporting import export_case
from pytest_hierexport._errors import NoVerdictError, UsageError
from pytest_hierexport._rules import must_008
from pytest_hierexport._rules.base import ExportedCase
from toys import breaks, case_of, damaged

NAMES = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


class Sum(nn.Module):
    """Adds up activations in an order of its own."""

    def __init__(self, *names: str) -> None:
        super().__init__()
        self.parts = nn.ModuleDict({name: nn.ReLU() for name in names})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total = x
        for i, part in enumerate(self.parts.values()):
            total = total * i + part(x)
        return total


class Chooses(nn.Module):
    """Calls one module for each element of a set, as transformers' gemma3 does for its kinds of attention."""

    def __init__(self) -> None:
        super().__init__()
        self.part = nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = {name: self.part(x * len(name) + i) for i, name in enumerate(set(NAMES))}
        return torch.stack([parts[name] for name in NAMES])


def that_runs_in_the_order_of_a_set() -> object:
    return Chooses(), (torch.ones(2),)


def in_the_order_of_a_set() -> object:
    return Sum(*set(NAMES)), (torch.ones(2),)


def in_the_order_of_a_sorted_set() -> object:
    return Sum(*sorted(set(NAMES))), (torch.ones(2),)


def scaled(factor: float) -> object:
    model = nn.Sequential(nn.Linear(2, 2), Sum("one"))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(factor)
    return model, (torch.ones(1, 2),)


def with_weights_that_depend_on_a_hash() -> object:
    return scaled(float(hash("a") % 1000))


def with_weights_that_depend_on_a_length() -> object:
    return scaled(float(len("a")))


def at_random_without_a_seed() -> object:
    return scaled(float.fromhex(os.urandom(2).hex()))


def at_random_with_the_cases_seed() -> object:
    return scaled(float(torch.rand(1)))


def at_the_time_of_day() -> object:
    return Sum(f"at{time.time_ns()}"), (torch.ones(2),)


def dying_elsewhere() -> object:
    if os.environ.get("PYTHONHASHSEED") in {"1", "2"}:
        os._exit(7)
    return toy_models.build()


COUNTEREXAMPLES: dict[Callable[[], object], str] = {
    in_the_order_of_a_set: "module ",
    at_the_time_of_day: "module parts.at",
    with_weights_that_depend_on_a_hash: "parameter 0.weight",
    at_random_without_a_seed: "parameter 0.weight",
    dying_elsewhere: "the process ended with 7",
}
REPAIRED = (
    in_the_order_of_a_sorted_set,
    with_weights_that_depend_on_a_length,
    at_random_with_the_cases_seed,
    toy_models.build,
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[Callable[[], object], ExportedCase]:
    """Export every case."""
    folder = tmp_path_factory.mktemp("whole")
    exported = {}
    for factory in (*COUNTEREXAMPLES, *REPAIRED):
        case = replace(case_of(factory), name=factory.__name__)
        path = folder / case.name / "model.onnx"
        path.parent.mkdir()
        example = case.load()
        export_case(case, example, path)
        exported[factory] = ExportedCase(case, path, example)
    return exported


Whole = dict[Callable[[], object], ExportedCase]


@pytest.mark.parametrize("factory", COUNTEREXAMPLES, ids=lambda factory: factory.__name__)
def test_export_that_differs_is_found(factory: Callable[[], object], whole: Whole) -> None:
    violations = breaks("MUST-008", whole[factory])
    assert any(COUNTEREXAMPLES[factory] in f"{v.where} {v.expected} {v.found}" for v in violations)


@pytest.mark.parametrize("factory", REPAIRED, ids=lambda factory: factory.__name__)
def test_export_that_repeats_passes(factory: Callable[[], object], whole: Whole) -> None:
    assert not breaks("MUST-008", whole[factory])


@pytest.mark.parametrize(
    ("factory", "told"),
    [
        (that_runs_in_the_order_of_a_set, "other values, first in the call part"),
        (plain_models.in_the_order_of_a_set, "the plain exporter, too, gives another graph"),
    ],
)
def test_model_that_depends_on_the_seed_has_no_verdict(
    factory: Callable[[], object], told: str, tmp_path: Path
) -> None:
    case = case_of(factory)
    path, example = tmp_path / "model.onnx", case.load()
    export_case(case, example, path)
    with pytest.raises(NoVerdictError, match=told):
        breaks("MUST-008", ExportedCase(case, path, example))


def named_by_a_hash(case: Case, example: Example, path: Path) -> None:
    """Export as an exporter of one's own that names nodes by a hash."""
    export_case(case, example, path)
    model = onnx.load(path)
    model.graph.node[0].name = f"node_{hash('a')}"
    onnx.save(model, path)


def test_exporter_that_depends_on_the_seed_is_found(whole: Whole, tmp_path: Path) -> None:
    exported = whole[toy_models.build]
    path = tmp_path / "model.onnx"
    named_by_a_hash(exported.case, exported.example, path)
    case = ExportedCase(exported.case, path, exported.example, exporter=named_by_a_hash)
    assert any("name" in violation.where for violation in breaks("MUST-008", case))


def with_data_below(case: Case, example: Example, path: Path, number: int = 0) -> None:
    """Export as an exporter of one's own that keeps data in a folder."""
    export_case(case, example, path)
    (path.parent / "data").mkdir()
    (path.parent / "data" / "scale.bin").write_bytes(f"{number or hash('a')}".encode())


@pytest.mark.parametrize(("number", "changed"), [(0, ["scale.bin, line 1"]), (1, [])])
def test_data_in_a_folder_below_counts(number: int, changed: list[str], whole: Whole, tmp_path: Path) -> None:
    exported, exporter = whole[toy_models.build], partial(with_data_below, number=number)
    exporter(exported.case, exported.example, tmp_path / "model.onnx")
    case = ExportedCase(exported.case, tmp_path / "model.onnx", exported.example, exporter=exporter)
    assert [violation.where for violation in breaks("MUST-008", case)] == changed


def test_sidecar_that_differs_is_found_by_its_line(
    whole: Whole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(must_008, "plain_repeats", lambda _: pytest.fail("the plain exporter writes no sidecar"))
    exported = whole[toy_models.build]
    shutil.copytree(exported.path.parent, tmp_path / "copy")
    case = ExportedCase(exported.case, tmp_path / "copy" / "model.onnx", exported.example)
    sidecar = case.path.with_name("model.hierarchy.json")
    sidecar.write_text(sidecar.read_text(encoding="utf-8").replace("BertPooler", "BertPuller"), encoding="utf-8")
    (violation,) = breaks("MUST-008", case)
    assert violation.where.startswith("model.hierarchy.json")


def test_model_that_no_other_process_can_make_is_an_error(whole: Whole, tmp_path: Path) -> None:
    class Local(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

    example = Example(Local().eval(), (torch.ones(2),))
    case = Case("local", lambda: example, "a test")
    with pytest.raises(UsageError, match="another process can make"):
        breaks("MUST-008", ExportedCase(case, whole[toy_models.build].path, example))


def test_model_of_a_test_is_sent_itself(whole: Whole) -> None:
    exported = whole[toy_models.build]
    case = replace(exported.case, factory=lambda: exported.example)
    assert not breaks("MUST-008", ExportedCase(case, exported.path, exported.example))


def test_changed_file_is_found_by_its_field(whole: Whole, tmp_path: Path) -> None:
    def damage(proto: onnx.ModelProto) -> None:
        proto.graph.node[0].name = "other"

    exported = whole[toy_models.build]
    path = damaged(exported, tmp_path, damage).path
    violations = breaks("MUST-008", ExportedCase(exported.case, path, exported.example))
    assert "name" in violations[0].where
    assert violations[0].where.endswith(f" of {exported.attribution.tag(next(iter(exported.attribution.nodes)))}")
