"""Subgraphs: the values that a node captures, and copies of nodes with other names."""

from __future__ import annotations

import onnx
import pytest
from onnx import helper

from pytest_hierexport._onnx.graph import subgraphs_proto
from pytest_hierexport._proof.subgraphs import captured, renamed

LOOP = """g (float[2] x, float[2] o, int64 n) => (float[2] y) {
  y = Loop (n, , x) <body = b (int64 i, bool going, float[2] v) => (bool on, float[2] w) {
    on = Identity(going)
    t = Add(v, o)
    w = If (on) <then_branch = p () => (float[2] r) { r = Add(t, o) }, else_branch = q () => (float[2] o) { }>
  }>
}"""


@pytest.fixture
def loop() -> onnx.NodeProto:
    node: onnx.NodeProto = onnx.parser.parse_graph(LOOP).node[0]
    return node


def test_node_captures_outer_values_read_at_any_depth(loop: onnx.NodeProto) -> None:
    assert set(captured(loop)) == {"o"}
    assert set(captured(dict(subgraphs_proto(loop))["body"].node[2])) == {"t", "o"}
    assert captured(dict(subgraphs_proto(loop))["body"].node[0]) == []


def test_outer_values_alone_are_renamed_at_any_depth(loop: onnx.NodeProto) -> None:
    copy = renamed(loop, {"x": "X", "o": "O", "y": "Y", "v": "no", "t": "no", "r": "no"})
    body = dict(subgraphs_proto(copy))["body"]
    assert (list(copy.input), list(copy.output)) == (["n", "", "X"], ["Y"])
    assert list(body.node[1].input) == ["v", "O"]
    assert list(dict(subgraphs_proto(body.node[2]))["then_branch"].node[0].input) == ["t", "O"]
    assert dict(subgraphs_proto(body.node[2]))["else_branch"].output[0].name == "O"


def test_the_node_itself_stays_as_it_was(loop: onnx.NodeProto) -> None:
    before = loop.SerializeToString()
    renamed(loop, {"x": "X", "o": "O"})
    assert loop.SerializeToString() == before


def test_attribute_references_are_resolved_or_dropped() -> None:
    node = helper.make_node("Gemm", ["a", "b"], ["c"], transA=1)
    for name in ("alpha", "beta"):
        node.attribute.add(name=name, ref_attr_name=f"given_{name}", type=onnx.AttributeProto.FLOAT)
    copy = renamed(node, {}, {"given_alpha": helper.make_attribute("given_alpha", 2.0)})
    assert {attribute.name: helper.get_attribute_value(attribute) for attribute in copy.attribute} == {
        "transA": 1,
        "alpha": 2.0,
    }


def test_references_inside_subgraphs_are_resolved_too() -> None:
    inner = helper.make_node("Constant", [], ["k"])
    inner.attribute.add(name="value_float", ref_attr_name="by", type=onnx.AttributeProto.FLOAT)
    graph = helper.make_graph([inner], "g", [], [])
    node = helper.make_node("If", ["c"], ["y"], then_branch=graph, else_branch=graph)
    copy = renamed(node, {}, {"by": helper.make_attribute("by", 3.0)})
    assert dict(subgraphs_proto(copy))["then_branch"].node[0].attribute[0].f == 3.0
