"""Commands and functions know a module that a model holds under several paths by each of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from pytest_hierexport import Example, UsageError, export, extract, prove, select_nodes
from pytest_hierexport.cli import main


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.lin(x).relu()
        return found


class Held(nn.Module):
    """Holds a block under two paths and in a list that it ends with, and calls each under one."""

    def __init__(self) -> None:
        super().__init__()
        self.first = Block()
        self.blocks = nn.ModuleList([Block(), Block()])
        self.head, self.last = self.first, self.blocks[1]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in (self.head, *self.blocks):
            x = block(x)
        return x


def test_module_is_found_by_each_of_its_paths(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "held.onnx"
    exported = export(Held().eval(), (torch.ones(1, 8),), path=path)
    called = {each.path for each in exported.attribution.hierarchy.values()}
    other, named = ("head", "first") if "first" in called else ("first", "head")
    for alias, known in ((other, named), (f"{other}.lin", f"{named}.lin"), ("last", "blocks.1"), ("l*", "blocks.1")):
        assert select_nodes(path, alias) == select_nodes(path, known)
    assert select_nodes(path, "*") == select_nodes(path, [named, "last"])
    assert main(["select", str(path), other]) == 0
    assert capsys.readouterr().out.splitlines() == select_nodes(path, named)
    assert main(["analyze", str(path)]) == 0
    assert "modules of several paths: head is first, last is blocks.1" in capsys.readouterr().out
    for command in (["analyze", "--tag"], ["functions", "-o", str(tmp_path / "f.onnx"), "--json", "--module"]):
        assert main([*command, other, str(path)]) == main([*command, named, str(path)]) == 0
        told = capsys.readouterr().out
        assert told[: len(told) // 2] == told[len(told) // 2 :]
    assert extract(path, exported.attribution, "last").call == "blocks.1"
    assert main(["extract", str(path), other, "-o", str(tmp_path / "part.onnx"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["call"] == named
    path.with_suffix(".hierarchy.json").unlink()
    with pytest.raises(UsageError, match=f"{other!r}, which matches none"):
        select_nodes(path, other)


class Scale(nn.Module):
    """Equals every module that scales by the same factor, as torch's tracer takes one of these for all."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scale) and other.factor == self.factor

    def __hash__(self) -> int:
        return hash(self.factor)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x) * self.factor


class Equal(nn.Module):
    """Calls a module before one that equals it and that is declared first."""

    def __init__(self) -> None:
        super().__init__()
        self.last, self.first = Scale(2.0), Scale(2.0)
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(4, 4), Scale(2.0)) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for layer in self.layers:
            x = layer(x)
        result: torch.Tensor = self.last(x)
        return result


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
def test_modules_that_are_equal_keep_their_own_calls(exporter: str) -> None:
    example = Example(Equal().eval(), (torch.rand(2, 4),))
    exported = export(example.model, example.args, exporter=exporter)
    calls = [found[0].call for key, found in exported.attribution.nodes.items() if "Sin" in key or "sin" in key]
    assert calls == ["first", "layers.0.1", "layers.1.1", "last"]
    assert prove(example, exported.model, exported.attribution).counts()["proven"] == 9
