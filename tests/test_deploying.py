"""A step on an exported file: its input is safe, and tags, sidecar and external data come with its result."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import onnx
import pytest
import torch

from pytest_hierexport import export, prove, read
from pytest_hierexport._cases import Example
from pytest_hierexport._cases.deploying import deploy
from pytest_hierexport._errors import ExportError


class Gate(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.linear(x)) * x


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gates = torch.nn.ModuleList(Gate() for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for gate in self.gates:
            x = gate(x)
        return x


@pytest.fixture
def example() -> Example:
    torch.manual_seed(0)
    return Example(Net().eval(), (torch.randn(3, 64),))


@pytest.mark.parametrize("external", [False, True])
def test_optimized_file_has_tags_sidecar_and_data(tmp_path: Path, example: Example, external: bool) -> None:
    export(example.model, example.args, path=tmp_path / "in.onnx", external_data=external)
    (tmp_path / "out").mkdir()
    deploy("onnxruntime:extended", tmp_path / "in.onnx", tmp_path / "out" / "model.onnx")
    made = tmp_path / "out" / "model.onnx"
    attribution = read(made)
    assert attribution == read(made, "sidecar")
    assert {evidence: count for evidence, count in attribution.coverage().items() if count} == {"traced": 2, "fused": 2}
    assert not prove(example, made, attribution).unproven


def test_data_under_another_name_comes_with_the_export(tmp_path: Path, example: Example) -> None:
    exported = tmp_path / "in" / "model.onnx"
    exported.parent.mkdir()
    export(example.model, example.args, path=exported)
    sidecar = exported.with_name("model.hierarchy.json")
    before = sha256(exported.read_bytes()).hexdigest()
    model = onnx.load(exported)
    onnx.save_model(model, exported, save_as_external_data=True, location="weights", size_threshold=0)
    after = sha256(exported.read_bytes()).hexdigest()
    sidecar.write_text(sidecar.read_text(encoding="utf-8").replace(before, after), encoding="utf-8")
    made = tmp_path / "model.onnx"
    deploy("onnxruntime:extended", exported, made)
    assert not prove(example, made, read(made)).unproven


def inspect_and_spoil(source: Path, target: Path) -> None:
    """Stand for a tool that writes over its input."""
    target.write_bytes(source.read_bytes())
    source.write_bytes(b"")


def test_step_gets_a_copy_of_the_export(tmp_path: Path, example: Example) -> None:
    exported = tmp_path / "in.onnx"
    export(example.model, example.args, path=exported)
    before = exported.read_bytes()
    deploy(f"{__name__}:inspect_and_spoil", exported, tmp_path / "out.onnx")
    assert exported.read_bytes() == before
    assert read(tmp_path / "out.onnx") == read(exported)


def write_text(source: Path, target: Path) -> None:
    """Stand for a tool that writes something else than ONNX."""
    target.write_text(f"made of {source}")


def test_step_that_writes_no_onnx_is_an_error(tmp_path: Path, example: Example) -> None:
    export(example.model, example.args, path=tmp_path / "in.onnx")
    with pytest.raises(ExportError, match=r"the step test_deploying:write_text to write an ONNX file"):
        deploy(f"{__name__}:write_text", tmp_path / "in.onnx", tmp_path / "out.onnx")
    assert not (tmp_path / "out.onnx").exists()
