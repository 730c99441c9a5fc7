"""What differs between two ONNX messages: `pytest_hierexport._onnx.difference`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from pytest_hierexport._errors import UsageError
from pytest_hierexport._onnx.difference import Difference, bare, content_of, differences


def model(*operators: str, weight: float = 1.0) -> onnx.ModelProto:
    """Return a chain of operators on one input, the first of which takes a weight."""
    values = ["x", *(f"v{i}" for i in range(len(operators)))]
    nodes = [
        helper.make_node(operator, [values[i], *(["w"] if not i else [])], [values[i + 1]], name=f"n{i}")
        for i, operator in enumerate(operators)
    ]
    tensor = numpy_helper.from_array(np.full(600, weight, np.float32), "w")
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [600]) for name in ("x", values[-1])]
    return helper.make_model(helper.make_graph(nodes, "g", ends[:1], ends[1:], [tensor]))


def diff(plain: onnx.ModelProto, found: onnx.ModelProto) -> list[Difference]:
    return list(differences(bare(plain, Path()), bare(found, Path())))


def test_equal_messages_do_not_differ() -> None:
    assert not diff(model("Add", "Neg"), model("Add", "Neg"))


def test_another_operator_is_named_by_its_output() -> None:
    assert diff(model("Add", "Neg"), model("Add", "Abs")) == [Difference("node v1 (Neg), op_type", "Neg", "Abs")]


def test_additional_node_is_the_only_difference() -> None:
    first, *rest = diff(model("Add", "Neg"), model("Add", "Abs", "Neg"))
    assert first == Difference("node 1 of 2", "v1 (Neg)", "v1 (Abs), of 3 in all")
    assert not [difference for difference in rest if difference.where.startswith("node")]


def test_a_node_too_few_at_the_end_is_named() -> None:
    assert diff(model("Add", "Neg"), model("Add"))[0] == Difference("node 1 of 2", "v1 (Neg)", "none")


def test_another_weight_is_told_by_its_digest() -> None:
    (difference,) = diff(model("Add"), model("Add", weight=2.0))
    assert difference.where == "initializer w, raw_data"
    assert difference.expected != difference.found


def test_the_place_of_a_weight_makes_no_difference(tmp_path: Path) -> None:
    outside = model("Add")
    onnx.save(outside, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    found = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    assert found.graph.initializer[0].external_data
    assert not list(differences(bare(model("Add"), Path()), bare(found, tmp_path)))


@pytest.mark.parametrize("left", [None, b"\0"], ids=["no file", "a byte"])
def test_lost_data_of_a_tensor_is_told(left: bytes | None, tmp_path: Path) -> None:
    lost = model("Add")
    onnx.save(lost, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    found = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    (tmp_path / "m.data").unlink() if left is None else (tmp_path / "m.data").write_bytes(left)
    with pytest.raises(UsageError, match="the external data of 'w' beside the model"):
        content_of(found.graph.initializer[0], tmp_path)
    with pytest.raises(UsageError, match="the external data of 'w' beside the model"):
        bare(found, tmp_path)


def test_metadata_and_documentation_of_nodes_make_no_difference() -> None:
    tagged = model("Add", "Neg")
    tagged.graph.node[0].metadata_props.add(key="k", value="v")
    tagged.graph.node[0].doc_string = "a tag"
    tagged.graph.initializer[0].metadata_props.add(key="k", value="v")
    tagged.graph.input[0].metadata_props.add(key="k", value="v")
    tagged.metadata_props.add(key="k", value="v")
    assert not diff(model("Add", "Neg"), tagged)


def test_field_that_is_stated_empty_differs_from_none() -> None:
    stated = model("Add")
    stated.graph.node[0].domain = ""
    assert diff(model("Add"), stated) == [Difference("node v0 (Add), domain", "None", "", "v0")]
