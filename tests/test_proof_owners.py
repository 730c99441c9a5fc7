"""Owners: the calls that own each node of an inlined graph."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import pytest

from pytest_hierexport._calls.attribution import Attribution, Evidence, Origin
from pytest_hierexport._calls.hierarchy import Call, Hierarchy
from pytest_hierexport._proof.inlining import inlined
from pytest_hierexport._proof.owners import Graph

HIERARCHY = Hierarchy(
    [
        Call("", 0, "m.Root", None),
        Call("a", 0, "m.A", ""),
        Call("a.in", 0, "m.In", "a"),
        Call("b", 0, "m.B", ""),
        Call("a", 1, "m.A", ""),
        Call("a.in", 1, "m.In", "a@1"),
    ]
)
LOOP = """g (float[2] x) => (float[2] y) {
  n = Constant<value = int64 {2}>()
  y = Loop (n, , x) <body = b (int64 i, bool going, float[2] v) => (bool on, float[2] w) {
    on = Identity(going)
    t = Neg(v)
    w = Add(t, v)
  }>
}"""
FUNCTION = """g (float[2] x) => (float[2] z) { y = my.twice(x) z = my.twice(y) }
<domain: "my", opset_import: ["" : 20]> twice (v) => (w) { t = Neg(v) w = Add(t, v) }"""
TWICE = {"t": "my::twice:://t", "w": "my::twice:://w"}


def traced(names: str) -> tuple[Origin, ...]:
    return tuple(Origin(name.strip("/"), Evidence.TRACED) for name in names.split())


def graph_of(text: str, tags: Mapping[str, str]) -> Graph:
    proto: onnx.ModelProto = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 20, "my" : 1]> {text}')
    attribution = Attribution(HIERARCHY, {key: traced(names) for key, names in tags.items()})
    x = np.ones(2, np.float32)
    model, _ = inlined(proto, {"x": x})
    return Graph(model, attribution)


def calls(graph: Graph, value: str) -> set[str]:
    return set(graph.nodes[graph.producer[value]].calls)


def test_node_belongs_to_its_calls_and_those_above() -> None:
    graph = graph_of("g (float[2] x) => (float[2] y) { y = Neg(x) }", {"y": "a.in b"})
    assert calls(graph, "y") == {"", "a", "a.in", "b"}


def test_node_without_origins_has_no_owner() -> None:
    assert calls(graph_of("g (float[2] x) => (float[2] y) { y = Neg(x) }", {}), "y") == set()


def test_loop_is_owned_by_all_calls_inside_it() -> None:
    graph = graph_of(LOOP, {"y": "b", "y/body/t": "a.in", "y/body/w": "b"})
    assert calls(graph, "y") == {"", "a", "a.in", "b"}
    assert graph.in_bodies == {"a": False, "a.in": False}


def test_function_in_loop_belongs_to_calls_of_the_loop() -> None:
    text = """g (float[2] x) => (float[2] z) {
      n = Constant<value = int64 {2}>()
      y = my.twice(x)
      z = Loop (n, , y) <body = b (int64 i, bool going, float[2] v) => (bool on, float[2] r) {
        on = Identity(going)
        r = my.twice(v)
      }>
    }"""
    tags = {"y": "a", "z": "/", "z/body/r": "a@1", TWICE["t"]: "a.in a.in@1", TWICE["w"]: "a a@1"}
    graph = graph_of(text + FUNCTION.partition("}")[2], tags)
    assert (calls(graph, "y"), calls(graph, "z")) == ({"", "a"}, {"", "a@1", "a.in@1"})


def test_calls_of_both_branches_are_in_bodies_one_entered() -> None:
    text = """g (float[2] x) => (float[2] y) {
      c = Constant<value = bool {0}>()
      y = If (c) <then_branch = p () => (float[2] r) { r = Neg(x) }, else_branch = q () => (float[2] s) { s = Abs(x) }>
    }"""
    tags = {"c": "/", "y": "/", "y/then_branch/r": "a.in", "y/else_branch/s": "b"}
    assert graph_of(text, tags).in_bodies == {"a": False, "a.in": False, "b": True}
    tags = {"y/else_branch/s": "b", "y/then_branch/r": "b"}
    assert graph_of(text, tags).in_bodies == {"b": True}


def test_calls_inside_a_function_of_a_branch_are_in_bodies() -> None:
    text = """g (float[2] x) => (float[2] y) {
      c = Constant<value = bool {0}>()
      y = If (c) <
        then_branch = p () => (float[2] r) { r = my.twice(x) },
        else_branch = q () => (float[2] s) { s = my.twice(x) }>
    }"""
    tags = {"c": "/", "y": "/", "y/then_branch/r": "a", "y/else_branch/s": "a@1"}
    graph = graph_of(text + FUNCTION.partition("\n")[2], {**tags, TWICE["t"]: "a.in a.in@1", TWICE["w"]: "a a@1"})
    assert graph.in_bodies == {"a": False, "a.in": False, "a@1": True, "a.in@1": True}


def test_if_reads_values_that_its_branch_returns() -> None:
    text = """g (float[2] x) => (float[2] y) {
      c = Constant<value = bool {1}>()
      y = If (c) <then_branch = p () => (float[2] r) { r = Neg(x) }, else_branch = q () => (float[2] s) { s = Abs(x) }>
    }"""
    graph = graph_of(text, {})
    assert graph.nodes[graph.producer["y"]].inputs == ("y/then_branch/r",)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param("a", "a@1", id="different callers"),
        pytest.param("/", "/", id="one caller of both"),
    ],
)
def test_function_node_belongs_to_calls_below_its_caller(first: str, second: str) -> None:
    tags = {"y": first, "z": second, TWICE["t"]: "a.in a.in@1", TWICE["w"]: "a a@1"}
    graph = graph_of(FUNCTION, tags)
    assert [node.calls for node in graph.nodes if node.operator == "Neg"] == [{"", "a", "a.in"}, {"", "a@1", "a.in@1"}]
    assert calls(graph, "z") == {"", "a@1"}
    assert graph.in_bodies == {}


def test_origins_that_calls_cannot_share_belong_to_each() -> None:
    graph = graph_of(FUNCTION, {"y": "/", "z": "/", TWICE["t"]: "a.in a.in@1 b", TWICE["w"]: "/"})
    owners = {"", "a", "a.in", "a@1", "a.in@1", "b"}
    assert [node.calls for node in graph.nodes if node.operator == "Neg"] == [owners, owners]


def test_input_with_a_default_is_a_constant() -> None:
    graph = graph_of(
        "g (float[2] x, float[2] w) => (float[2] y) <float[2] w = {1, 2}> { t = Neg(w) y = Add(x, t) }", {}
    )
    assert graph.by_elements == {"x", "y"}


def test_random_numbers_are_elements_that_a_call_must_be_given() -> None:
    graph = graph_of(
        "g (float[2] x) => (float[2] y) { s = Shape(x) noise = RandomUniformLike(x) t = Neg(noise) y = Add(x, t) }", {}
    )
    assert graph.by_elements == {"x", "noise", "t", "y"}


def test_constants_that_folding_left_are_known() -> None:
    origins = {name: (Origin("a", evidence),) for name, evidence in (("w", Evidence.FOLDED), ("v", Evidence.TRACED))}
    assert Graph(graph_of(LOOP, {}).model, Attribution(HIERARCHY, {}, origins)).folded_initializers == {"w"}


def test_function_node_of_caller_belongs_to_it_every_time() -> None:
    graph = graph_of(FUNCTION, {"y": "a b", "z": "a b", TWICE["t"]: "a b", TWICE["w"]: "a b"})
    assert calls(graph, "y") == calls(graph, "z") == {"", "a", "b"}


def test_function_of_module_and_parent_belongs_to_each_caller() -> None:
    graph = graph_of(FUNCTION, {"y": "/", "z": "a", TWICE["t"]: "/ a", TWICE["w"]: "/ a.in"})
    assert [node.calls for node in graph.nodes if node.operator == "Neg"] == [{""}, {"", "a"}]
    assert calls(graph, "y") == {""}
    assert calls(graph, "z") == {"", "a", "a.in"}


def test_merged_function_node_keeps_calls_that_no_caller_explains() -> None:
    graph = graph_of(FUNCTION, {"y": "/", "z": "b", TWICE["t"]: "/ a b", TWICE["w"]: "/ b"})
    assert [node.calls for node in graph.nodes if node.operator == "Neg"] == [{"", "a"}, {"", "b"}]


def test_input_that_function_returns_belongs_to_its_caller() -> None:
    text = """g (float[2] x) => (float[2] z, float[2] s) { y, same = my.outer(x) z = Add(y, same) r, s = my.outer(z) }
    <domain: "my", opset_import: ["" : 20, "my" : 1]> outer (v) => (u, v) { w, t = my.both(v) u = Mul(w, t) }
    <domain: "my", opset_import: ["" : 20]> both (v) => (w, v) { w = Neg(v) }"""
    graph = graph_of(text, {"y": "a", "z": "b", "r": "a@1", "my::outer:://w": "a.in a.in@1"})
    assert calls(graph, "same") == {"", "a"}
    product, _ = (node for node in graph.nodes if node.operator == "Mul")
    assert calls(graph, product.inputs[1]) == {"", "a", "a.in"}


def test_origins_without_counterparts_own_the_nodes_of_each_call() -> None:
    graph = graph_of(FUNCTION, {"y": "b", "z": "a@1", TWICE["t"]: "a.in a.in@1", TWICE["w"]: "a a@1"})
    first, second = (node.calls for node in graph.nodes if node.operator == "Neg")
    assert first == {"", "a", "a.in", "b"}
    assert second == {"", "a", "a.in", "a@1", "a.in@1"}


def test_function_without_origins_gives_its_caller_nothing() -> None:
    graph = graph_of(FUNCTION, {"y": "b", "z": "a"})
    assert calls(graph, "y") == calls(graph, "z") == set()


def test_function_called_by_untagged_node_keeps_its_calls() -> None:
    graph = graph_of(FUNCTION, {TWICE["t"]: "a.in", TWICE["w"]: "b"})
    assert [node.calls for node in graph.nodes if node.operator == "Neg"] == [{"", "a", "a.in"}] * 2
    assert calls(graph, "y") == calls(graph, "z") == {"", "b"}


def test_only_call_of_a_function_keeps_the_primary_first() -> None:
    graph = graph_of(FUNCTION.replace("z = my.twice(y)", "z = Neg(y)"), {"y": "/", TWICE["t"]: "b a.in"})
    assert [owner.origin.call for owner in graph.nodes[0].owners] == ["b", "a.in"]


def test_closed_function_has_origins_of_all_nodes_inside() -> None:
    text = FUNCTION.replace('["" : 20]> twice', '["" : 19]> twice')
    graph = graph_of(text, {"y": "/", "z": "/", TWICE["t"]: "a.in", TWICE["w"]: "b"})
    assert calls(graph, "y") == {"", "a", "a.in", "b"}
