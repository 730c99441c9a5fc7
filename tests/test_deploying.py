"""A step on an exported file: its input is safe, and tags, sidecar and external data come with its result."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from pytest_hierexport import export, prove, read
from pytest_hierexport._cases import Example
from pytest_hierexport._cases.deploying import deploy
from pytest_hierexport._errors import ExportError, UsageError


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


class Dense(torch.nn.Linear):
    """A class of one's own, so that it shows in tags."""


class Windows(torch.nn.Module):
    """Puts windows back as transformers' CLAP does; here there is one, so that the transposition moves nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = Dense(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        windows: torch.Tensor = self.dense(x)
        return x + windows.view(1, 1, 1, 4, 4, 8).permute(0, 1, 3, 2, 4, 5).reshape(1, 16, 8)


def fuse_with_one_reshape(source: Path, target: Path) -> None:
    """Put a `Gemm` for `MatMul` and `Add`, and one `Reshape` for that behind it and that of the caller."""
    model = onnx.load(source)
    matmul, add, view = (model.graph.node.pop(0) for _ in range(3))
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([16, 8]), "flat"))
    nodes = [
        onnx.helper.make_node("Reshape", [matmul.input[0], "flat"], ["x_flat"]),
        onnx.helper.make_node("Gemm", ["x_flat", matmul.input[1], add.input[1]], ["y_flat"]),
        onnx.helper.make_node("Reshape", ["y_flat", view.input[1]], view.output),
        *model.graph.node,
    ]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    onnx.save(model, target)


def test_output_in_another_shape_is_proven(tmp_path: Path) -> None:
    torch.manual_seed(0)
    windows = Example(Windows().eval(), (torch.randn(1, 16, 8),))
    export(windows.model, windows.args, path=tmp_path / "in.onnx")
    deploy(f"{__name__}:fuse_with_one_reshape", tmp_path / "in.onnx", tmp_path / "out.onnx")
    proof = prove(windows, tmp_path / "out.onnx", read(tmp_path / "out.onnx"))
    assert not proof.unproven
    assert proof.verdicts["dense"].kind.value == "proven"


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


def test_onnx_runtime_plans_no_reuse_of_memory_for_a_step(
    tmp_path: Path, example: Example, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = []

    class Session(onnxruntime.InferenceSession):  # type: ignore[misc]  # it has no types
        def __init__(self, path: Path, options: onnxruntime.SessionOptions, **more: Any) -> None:
            planned.append(options.enable_mem_reuse)
            super().__init__(path, options, **more)

    monkeypatch.setattr(onnxruntime, "InferenceSession", Session)
    export(example.model, example.args, path=tmp_path / "in.onnx")
    deploy("onnxruntime:basic", tmp_path / "in.onnx", tmp_path / "out.onnx")
    assert planned == [False]


def test_types_that_onnx_runtime_lacks_are_told(tmp_path: Path) -> None:
    model = torch.nn.Linear(2, 2).bfloat16().eval()
    export(model, (torch.ones(1, 2, dtype=torch.bfloat16),), path=tmp_path / "in.onnx")
    with pytest.raises(UsageError, match="a graph that ONNX Runtime can load") as raised:
        deploy("onnxruntime:basic", tmp_path / "in.onnx", tmp_path / "out.onnx")
    assert raised.value.do.startswith("convert the operators or types that it lacks")
