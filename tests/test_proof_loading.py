"""Models for the proof: from a file, from memory, and from memory by way of a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from pytest_hierexport._errors import UsageError
from pytest_hierexport._proof import loading
from pytest_hierexport._proof.loading import loaded
from pytest_hierexport._proof.session import run_graph

X = np.ones(3, np.float32)


def doubled() -> ir.Model:
    """Return a model that multiplies by an initializer."""
    weight = ir.Value(name="w", const_value=ir.tensor(np.full(3, 2, np.float32), name="w"))
    x = ir.Value(name="x", shape=ir.Shape([3]), type=ir.TensorType(ir.DataType.FLOAT))
    node = ir.node("Mul", [x, weight])
    node.outputs[0].name = "y"
    graph = ir.Graph([x], list(node.outputs), nodes=[node], initializers=[weight], opset_imports={"": 20})
    return ir.Model(graph, ir_version=10)


@pytest.mark.parametrize("large", [1, 1 << 29])
def test_a_model_in_memory_runs_however_large_its_weights_are(large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "LARGE", large)
    with loaded(doubled()) as (proto, folder):
        (value,) = run_graph(proto, {"x": X}, ["y"], folder)
    assert value.arrays[0].tolist() == [2, 2, 2]
    assert (folder is not None) == (large == 1)


def test_a_large_model_in_memory_keeps_its_weights_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "LARGE", 1)
    model = doubled()
    with loaded(model):
        pass
    (weight,) = model.graph.initializers.values()
    assert weight.const_value is not None
    assert weight.const_value.numpy().tolist() == [2, 2, 2]


def test_a_file_is_read_without_its_external_data(tmp_path: Path) -> None:
    ir.save(doubled(), tmp_path / "m.onnx", external_data="m.data")
    (tmp_path / "m.data").unlink()
    with loaded(tmp_path / "m.onnx") as (proto, folder):
        assert folder == tmp_path
        assert [node.op_type for node in proto.graph.node] == ["Mul"]


def test_a_file_that_is_not_there_is_an_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.onnx"), loaded(tmp_path / "none.onnx"):
        pass
