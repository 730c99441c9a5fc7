"""Owners: which calls a node belongs to, in which iteration of which loop, for which call of a function."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import pytest

from pytest_hierexport._calls.attribution import Attribution, Evidence, Origin
from pytest_hierexport._calls.hierarchy import Call, Hierarchy
from pytest_hierexport._proof.boundary import WHOLE, Graph, Turn
from pytest_hierexport._proof.session import run_graph
from pytest_hierexport._proof.unrolling import Unrolling

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
    steps = Unrolling(proto, attribution)
    x = np.ones(2, np.float32)
    steps.follow(lambda wanted: {value.name: value.arrays[0] for value in run_graph(proto, {"x": x}, wanted)})
    return Graph(proto, steps.steps, attribution)


def turns(graph: Graph, value: str) -> set[Turn]:
    return set(graph.nodes[graph.maker[value]].turns)


def test_a_node_belongs_to_its_calls_and_to_those_above_them() -> None:
    graph = graph_of("g (float[2] x) => (float[2] y) { y = Neg(x) }", {"y": "a.in b"})
    assert turns(graph, "y") == {WHOLE, Turn("a"), Turn("a.in"), Turn("b")}


def test_a_node_without_origins_belongs_to_nobody() -> None:
    assert turns(graph_of("g (float[2] x) => (float[2] y) { y = Neg(x) }", {}), "y") == set()


def test_a_call_that_a_loop_makes_has_a_turn_in_every_iteration() -> None:
    graph = graph_of(LOOP, {"y": "b", "y/body/t": "a.in", "y/body/w": "b"})
    assert turns(graph, "y/body[0]/t") == {WHOLE, Turn("a", (("y/body", 0),)), Turn("a.in", (("y/body", 0),))}
    assert Turn("a.in", (("y/body", 1),)) in turns(graph, "y/body[1]/t")


def test_the_call_that_runs_a_loop_has_one_turn_around_it() -> None:
    graph = graph_of(LOOP, {"y": "b", "y/body/t": "a.in", "y/body/w": "b"})
    assert turns(graph, "y/body[1]/w") == turns(graph, "y") == {WHOLE, Turn("b")}
    assert graph.above[Turn("a", (("y/body", 1),))] == WHOLE
    assert graph.above[Turn("a.in", (("y/body", 1),))] == Turn("a", (("y/body", 1),))


def test_calls_in_bodies_are_known_whether_the_bodies_are_entered_or_not() -> None:
    text = """g (float[2] x) => (float[2] y) {
      c = Constant<value = bool {0}>()
      y = If (c) <then_branch = p () => (float[2] r) { r = Neg(x) }, else_branch = q () => (float[2] s) { s = Abs(x) }>
    }"""
    graph = graph_of(text, {"c": "/", "y": "/", "y/then_branch/r": "a.in", "y/else_branch/s": "b"})
    assert graph.in_bodies == {"a", "a.in", "b"}
    assert list(graph.above) == [Turn("a@1"), Turn("a.in@1"), Turn("b")]


def test_a_node_reads_what_its_bodies_read_and_give() -> None:
    graph = graph_of(LOOP.replace("Neg(v)", "Add(v, x)"), {})
    assert {"x", "y/body[1]/w"} <= set(graph.nodes[graph.maker["y"]].inputs)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param("a", "a@1", id="different callers"),
        pytest.param("/", "/", id="one caller of both"),
    ],
)
def test_the_node_of_a_function_belongs_to_the_calls_below_its_own_caller(first: str, second: str) -> None:
    tags = {"y": first, "z": second, TWICE["t"]: "a.in a.in@1", TWICE["w"]: "a a@1"}
    graph = graph_of(FUNCTION, tags)
    assert turns(graph, "y/twice/t") == {WHOLE, Turn("a"), Turn("a.in")}
    assert turns(graph, "z/twice/t") == {WHOLE, Turn("a@1"), Turn("a.in@1")}
    assert turns(graph, "z") == {WHOLE, Turn("a@1")}


def test_the_node_of_a_function_that_belongs_to_its_caller_does_so_every_time() -> None:
    graph = graph_of(FUNCTION, {"y": "a b", "z": "a b", TWICE["t"]: "a b", TWICE["w"]: "a b"})
    assert turns(graph, "y") == turns(graph, "z") == {WHOLE, Turn("a"), Turn("b")}


def test_a_function_called_by_somebody_else_belongs_to_nobody() -> None:
    graph = graph_of(FUNCTION, {"y": "b", "z": "a@1", TWICE["t"]: "a.in a.in@1", TWICE["w"]: "a a@1"})
    assert turns(graph, "y") == set()


def test_a_node_that_is_not_entered_has_the_origins_of_all_that_runs_inside_it() -> None:
    text = FUNCTION.replace('["" : 20]> twice', '["" : 19]> twice')
    graph = graph_of(text, {"y": "/", "z": "/", TWICE["t"]: "a.in", TWICE["w"]: "b"})
    assert turns(graph, "y") == {WHOLE, Turn("a"), Turn("a.in"), Turn("b")}
