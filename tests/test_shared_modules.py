"""Commands and functions know a module that a model holds under several paths by each of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from pytest_hierexport import UsageError, export, extract, select_nodes
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
