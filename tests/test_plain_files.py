"""Files that torch alone exported: each command reads torch's scopes, and says that they are unproven."""

from __future__ import annotations

import importlib
import warnings
from pathlib import Path

import pytest
import torch
from torch import nn

from pytest_hierexport._cases import Example
from pytest_hierexport._tools.divergence.comparing import diverge
from pytest_hierexport._tools.tagged_file import load_tagged
from pytest_hierexport.cli import main

MODEL = """
import torch
from torch import nn


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.blocks = nn.ModuleList(nn.Linear(8, 8) for _ in range(2))

    def forward(self, x):
        for block in self.blocks:
            x = torch.relu(block(x))
        return x


def build():
    return Tower().eval(), (torch.ones(2, 8),)
"""


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plain")
    (folder / "plain_tower.py").write_text(MODEL, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.syspath_prepend(folder)
        model, args = importlib.import_module("plain_tower").build()
        program = torch.onnx.export(model, args, dynamo=True, verbose=False)
    assert program is not None
    program.save(str(folder / "plain.onnx"))
    return folder / "plain.onnx"


@pytest.mark.parametrize(
    "arguments",
    [
        ["rename", "plain.onnx", "-o", "OUT"],
        ["carry", "plain.onnx", "plain.onnx", "-o", "OUT"],
        ["profile", "plain.onnx", "--runs", "1", "--optimized", "OUT"],
        ["extract", "plain.onnx", "blocks.0", "-o", "OUT"],
        ["functions", "plain.onnx", "-o", "OUT"],
    ],
)
def test_what_a_command_writes_says_that_tags_are_unproven(
    arguments: list[str],
    plain: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(plain.parent)
    out = tmp_path / "out.onnx"
    assert main([str(out) if word == "OUT" else word for word in arguments]) == 0
    assert "tags from torch's metadata, unproven" in capsys.readouterr().err
    assert load_tagged(out).tags_from == "torch"


def test_diverge_compares_a_plain_file_with_its_model(
    plain: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(plain.parent)
    assert main(["diverge", "plain.onnx", "--model", "plain_tower.py::build", "--exit-code"]) == 0
    printed = capsys.readouterr()
    assert "blocks.1" in printed.out
    assert "tags from torch's metadata, unproven" in printed.err


class Pair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encode, self.head = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        difference: torch.Tensor = self.encode(x) - self.encode(torch.tanh(y))
        result: torch.Tensor = difference + self.head(difference)
        return result


@pytest.mark.filterwarnings("ignore")
def test_plain_graph_of_module_with_two_runs_does_not_part(tmp_path: Path) -> None:
    torch.manual_seed(0)
    example = Example(Pair().eval(), (torch.randn(2, 8), torch.randn(2, 8)))
    program = torch.onnx.export(example.model, example.args, dynamo=True, verbose=False)
    assert program is not None
    program.save(str(tmp_path / "plain.onnx"))
    plain = load_tagged(tmp_path / "plain.onnx")
    assert diverge(example, plain.proto, attribution=plain.attribution).first is None
    faulty = next(node for node in plain.proto.graph.node if node.op_type == "Tanh")
    faulty.op_type = "Sin"
    first = diverge(example, plain.proto, attribution=plain.attribution).first
    assert first is not None
    assert first.call == ""
