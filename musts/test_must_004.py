"""MUST-004: the ONNX checker passes.

`onnx.checker` with full check and strict shape inference takes the file, and ONNX Runtime loads it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import onnx
import onnxruntime as ort
import pytest
from onnx import helper

from pytest_hierexport._rules.base import ExportedCase
from toys import breaks, damaged, exported


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> ExportedCase:
    return exported(tmp_path_factory.mktemp("whole"))


def missing_input(proto: onnx.ModelProto) -> None:
    proto.graph.node[3].input[0] = "no_node_gives_this"


def wrong_type(proto: onnx.ModelProto) -> None:
    proto.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.INT64


def wrong_shape(proto: onnx.ModelProto) -> None:
    proto.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 7


def unknown_operator(proto: onnx.ModelProto) -> None:
    proto.graph.node[3].op_type = "Softmin"


def two_producers(proto: onnx.ModelProto) -> None:
    proto.graph.node[3].output[0] = proto.graph.node[2].output[0]


def wrong_order(proto: onnx.ModelProto) -> None:
    nodes = list(proto.graph.node)
    del proto.graph.node[:]
    proto.graph.node.extend(reversed(nodes))


def unknown_domain(proto: onnx.ModelProto) -> None:
    proto.graph.node[3].domain = "unknown.domain"
    proto.opset_import.add(domain="unknown.domain", version=1)


def newest_format(proto: onnx.ModelProto) -> None:
    proto.ir_version = onnx.IR_VERSION + 1


DAMAGE = [
    missing_input,
    wrong_type,
    wrong_shape,
    unknown_operator,
    two_producers,
    wrong_order,
    unknown_domain,
    newest_format,
]


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
def test_an_ill_made_graph_is_found(
    damage: Callable[[onnx.ModelProto], None], whole: ExportedCase, tmp_path: Path
) -> None:
    violations = breaks("MUST-004", damaged(whole, tmp_path, damage))
    assert violations
    assert all(violation.found for violation in violations)


def test_the_same_graph_as_it_was_made_passes(whole: ExportedCase, tmp_path: Path) -> None:
    assert not breaks("MUST-004", damaged(whole, tmp_path, lambda proto: None))


def test_node_named_by_the_checker_is_shown_with_its_tag(whole: ExportedCase, tmp_path: Path) -> None:
    violations = breaks("MUST-004", damaged(whole, tmp_path, unknown_operator))
    key = whole.proto.graph.node[3].output[0]
    assert whole.node(key) in {violation.where for violation in violations}


def test_data_that_lies_outside_is_found_by_path(whole: ExportedCase, tmp_path: Path) -> None:
    def outside(proto: onnx.ModelProto) -> None:
        onnx.external_data_helper.convert_model_to_external_data(proto, location="model.data", size_threshold=0)
        onnx.external_data_helper.write_external_data_tensors(proto, str(tmp_path))

    case = damaged(whole, tmp_path, outside)
    assert not breaks("MUST-004", case)
    (tmp_path / "model.data").unlink()
    assert breaks("MUST-004", ExportedCase(case.case, case.path))


def many_sizes_unknown(count: int) -> onnx.ModelProto:
    """Return a graph with as many buffers of unknown size, each free before the next is needed."""
    nodes = []
    for i in range(count):
        nodes += [helper.make_node("NonZero", ["x"], [f"found_{i}"])]
        nodes += [helper.make_node("Shape", [f"found_{i}"], [f"size_{i}"])]
    nodes += [helper.make_node("Concat", [f"size_{i}" for i in range(count)], ["sizes"], axis=0)]
    given = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2, 2])
    sizes = helper.make_tensor_value_info("sizes", onnx.TensorProto.INT64, [2 * count])
    graph = helper.make_graph(nodes, "many", [given], [sizes])
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 20)])


def test_a_large_graph_takes_no_quadratic_time(whole: ExportedCase, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(many_sizes_unknown(1500), path)
    start = time.process_time()
    assert not breaks("MUST-004", ExportedCase(whole.case, path))
    checked = time.process_time()
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    # As it is by default, ONNX Runtime takes some ten times as long.
    assert checked - start < (time.process_time() - checked) / 2
