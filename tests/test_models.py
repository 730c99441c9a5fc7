"""Models from a file, from a message, from memory, and from memory by way of a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper, numpy_helper

from pytest_hierexport._errors import UsageError
from pytest_hierexport._onnx import models
from pytest_hierexport._onnx.graph import inventory_ir, inventory_proto
from pytest_hierexport._onnx.models import as_ir, as_proto
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
    monkeypatch.setattr(models, "_LARGE", large)
    with as_proto(doubled()) as (proto, folder):
        (value,) = run_graph(proto, {"x": X}, ["y"], folder)
    assert value.arrays[0].tolist() == [2, 2, 2]
    assert (folder is not None) == (large == 1)


def test_a_large_model_in_memory_keeps_its_weights_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "_LARGE", 1)
    model = doubled()
    with as_proto(model):
        pass
    (weight,) = model.graph.initializers.values()
    assert weight.const_value is not None
    assert weight.const_value.numpy().tolist() == [2, 2, 2]


def test_a_file_is_read_without_its_external_data(tmp_path: Path) -> None:
    ir.save(doubled(), tmp_path / "m.onnx", external_data="m.data")
    (tmp_path / "m.data").unlink()
    with as_proto(tmp_path / "m.onnx") as (proto, folder):
        assert folder == tmp_path
        assert [node.op_type for node in proto.graph.node] == ["Mul"]


def test_missing_file_raises_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.onnx"), as_proto(tmp_path / "none.onnx"):
        pass


def test_external_data_of_a_file_is_found_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ir.save(doubled(), tmp_path / "m.onnx", external_data="m.data")
    model = as_ir(tmp_path / "m.onnx")
    monkeypatch.chdir(tmp_path.parent)
    (weight,) = model.graph.initializers.values()
    assert weight.const_value is not None
    assert weight.const_value.numpy().tolist() == [2, 2, 2]


def test_a_message_is_copied_before_it_may_be_changed() -> None:
    message = ir.to_proto(doubled())
    with as_proto(message) as (proto, folder):
        proto.graph.node[0].op_type = "Add"
    assert folder is None
    assert message.graph.node[0].op_type == "Mul"


def test_every_form_of_a_model_gives_the_same_graph(tmp_path: Path) -> None:
    ir.save(doubled(), tmp_path / "m.onnx")
    forms = (str(tmp_path / "m.onnx"), tmp_path / "m.onnx", ir.to_proto(doubled()), doubled())
    assert {tuple(node.op_type for node in as_ir(form).graph) for form in forms} == {("Mul",)}


@pytest.mark.parametrize("wrong", [object(), ("model", "inputs")])
def test_something_else_than_a_model_is_refused(wrong: Any) -> None:
    with pytest.raises(UsageError, match=f"an exported model: .*; found an object of the class {type(wrong).__name__}"):
        as_ir(wrong)
    with pytest.raises(UsageError, match="of an export, pass its `model`"), as_proto(wrong):
        pass


def test_external_data_of_a_model_in_memory_is_found(tmp_path: Path) -> None:
    ir.save(doubled(), tmp_path / "model.onnx", external_data="model.data", size_threshold_bytes=0)
    with as_proto(ir.load(tmp_path / "model.onnx")) as (proto, folder):
        (value,) = run_graph(proto, {"x": X}, ["y"], folder)
    assert value.arrays[0].tolist() == [2, 2, 2]


@pytest.mark.parametrize("places", [[1, 5], [[0, 1], [1, 2]]])
def test_sparse_initializers_are_kept(places: list[Any]) -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 20]> g (float[2,3] x) => (float[2,3] y) {y = Add(x, w)}'
    )
    values, indices = (numpy_helper.from_array(each, "w") for each in (np.array([2, 3], np.float32), np.array(places)))
    proto.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [2, 3]))
    (found,) = run_graph(ir.to_proto(as_ir(proto)), {"x": np.ones((2, 3), np.float32)}, ["y"])
    assert found.arrays[0].tolist() == [[1, 3, 1], [1, 1, 4]]
    assert len(proto.graph.sparse_initializer) == 1
    keys = [key for key, _ in inventory_ir(as_ir(proto)).initializers]
    assert [key for key, _ in inventory_proto(proto).initializers] == keys == ["w"]


def test_sparse_initializers_of_branches_are_kept() -> None:
    proto = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 20]> g (bool c, float[2] x) => (float[2] y) {
          y = If (c) <then_branch = a () => (float[2] p) { p = Add(x, w) },
                      else_branch = b () => (float[2] q) { q = Neg(x) }>
        }"""
    )
    values, indices = (numpy_helper.from_array(np.array(each), "w") for each in (np.array([7], np.float32), [1]))
    branch = next(each.g for each in proto.graph.node[0].attribute if each.name == "then_branch")
    branch.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [2]))
    feeds = {"c": np.array(True), "x": np.ones(2, np.float32)}
    (found,) = run_graph(ir.to_proto(as_ir(proto)), feeds, ["y"])
    assert found.arrays[0].tolist() == [1, 8]


def test_other_name_of_the_standard_domain_is_replaced() -> None:
    message = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["ai.onnx" : 20, "my" : 1]> g (float[2] x) => (float[2] y) { y = my.f(x) }
        <domain: "my", opset_import: ["ai.onnx" : 20]> f (a) => (b) { b = Gelu(a) }"""
    )
    model = as_ir(message)
    (function,) = model.functions.values()
    assert (model.opset_imports, function.opset_imports) == ({"": 20, "my": 1}, {"": 20})
