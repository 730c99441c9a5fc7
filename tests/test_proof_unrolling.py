"""Functions, branches and loops entered: every value inside them has a name and can be fetched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import pytest

from pytest_hierexport._calls.attribution import Attribution, Evidence, Origin
from pytest_hierexport._calls.hierarchy import Call, Hierarchy
from pytest_hierexport._onnx.graph import walk_proto
from pytest_hierexport._proof import unrolling
from pytest_hierexport._proof.session import run_graph
from pytest_hierexport._proof.unrolling import Unrolling

X = np.array([1.0, -2.0], np.float32)
HEAD = '<ir_version: 10, opset_import: ["" : 20, "my" : 1]>'

IF = """g (float[2] x, bool c) => (float[2] y) {
  t = Neg(x)
  y = If (c) <then_branch = a () => (float[2] p) { p = Relu(t) },
              else_branch = b () => (float[2] q) { h = Abs(t) q = Add(h, x) }>
}"""
LOOP = """g (float[2] x) => (float[2] y, float[N,2] s) {
  n = Constant<value = int64 {3}>()
  y, s = Loop (n, , x) <body = b (int64 i, bool going, float[2] v) => (bool on, float[2] w, float[2] u) {
    on = Identity(going)
    w = Add(v, x)
    u = Neg(w)
  }>
}"""
WHILE = """g (float[2] x) => (float[2] y) {
  limit = Constant<value = float {6.0}>()
  yes = Constant<value = bool {1}>()
  y = Loop ( , yes, x) <body = b (int64 i, bool going, float[2] v) => (bool on, float[2] w) {
    w = Add(v, v)
    m = ReduceMax<keepdims=0>(w)
    on = Less(m, limit)
  }>
}"""
SCAN = """g (float[3,2] x, float[2] z) => (float[2] y, float[3,2] s) {
  y, s = Scan <num_scan_inputs = 1, scan_input_directions = [DIRECTION],
               body = b (float[2] c, float[2] e) => (float[2] d, float[2] o) { d = Add(c, e) o = Neg(d) }> (z, x)
}"""
NESTED = """g (float[2] x) => (float[2] y) {
  n = Constant<value = int64 {2}>()
  y = Loop (n, , x) <body = b (int64 i, bool going, float[2] v) => (bool on, float[2] w) {
    on = Identity(going)
    nought = Constant<value = int64 {0}>()
    first = Equal(i, nought)
    w = If (first) <then_branch = p () => (float[2] r) { r = Neg(v) },
                    else_branch = q () => (float[2] r2) { r2 = Add(v, v) }>
  }>
}"""
FUNCTION = """g (float[2] x) => (float[2] y) { t = my.scaled<by = 3.0>(x) y = my.scaled(t) }
<domain: "my", opset_import: ["" : 20]> scaled <by: float = 10.0> (a) => (b) {
  k = Constant<value_float = @by>()
  b = Mul(a, k)
}"""
NOTHING_DONE = """g (float[2] x) => (float[2] y) { y, same = my.both(x) }
<domain: "my", opset_import: ["" : 20]> both (a) => (b, a) { b = Neg(a) }"""
IN_FUNCTION = """g (float[2] x, bool c) => (float[2] y) { y = my.choose(x, c) }
<domain: "my", opset_import: ["" : 20, "my" : 1]> choose (a, c) => (b) {
  b = If (c) <then_branch = p () => (float[2] r) { r = my.twice(a) }, else_branch = q () => (float[2] s) { s = Neg(a) }>
}
<domain: "my", opset_import: ["" : 20]> twice (v) => (w) { w = Add(v, v) }"""


@dataclass(frozen=True)
class Unrolled:
    steps: Unrolling
    values: Mapping[str, Any]
    """The elements of every value by its name."""

    def keys(self, operator: str) -> list[str]:
        return [step.key for step in self.steps.steps if step.node.op_type == operator]


def unrolled(text: str, **feeds: Any) -> Unrolled:
    proto: onnx.ModelProto = onnx.parser.parse_model(f"{HEAD} {text}")
    hierarchy = Hierarchy([Call("", 0, "m.Root", None)])
    nodes = {key: (Origin("", Evidence.TRACED),) for key, _ in walk_proto(proto)}
    inputs = {"x": X, **feeds}
    made = Unrolling(proto, Attribution(hierarchy, nodes))
    made.follow(lambda wanted: {value.name: value.arrays[0] for value in run_graph(proto, inputs, wanted)})
    wanted = [name for step in made.steps for name in step.node.output if name]
    return Unrolled(made, {v.name: v.arrays[0].tolist() for v in run_graph(proto, inputs, wanted)})


def test_a_model_without_bodies_is_left_as_it_is() -> None:
    proto = onnx.parser.parse_model(f"{HEAD} g (float[2] x) => (float[2] y) {{ y = Neg(x) }}")
    before = proto.SerializeToString()
    made = Unrolling(proto, Attribution(Hierarchy([Call("", 0, "m.Root", None)])))
    made.follow(lambda wanted: pytest.fail(f"asked for {wanted}"))
    assert proto.SerializeToString() == before
    assert [step.key for step in made.steps] == ["y"]


def test_the_branch_that_is_taken_is_entered_and_the_other_is_not() -> None:
    taken = unrolled(IF, c=np.array(True))
    assert taken.values["y/then_branch/p"] == [0, 2]
    assert taken.keys("Add") == []
    other = unrolled(IF, c=np.array(False))
    assert other.values["y/else_branch/q"] == [2, 0]
    assert other.keys("Relu") == []


def test_a_step_in_a_branch_has_the_key_of_its_node_and_stands_before_its_holder() -> None:
    found = unrolled(IF, c=np.array(False))
    assert [step.key for step in found.steps.steps] == ["t", "y/else_branch/h", "y/else_branch/q", "y"]


def test_a_node_reads_what_its_branch_gives() -> None:
    found = unrolled(IF, c=np.array(False))
    assert found.steps.steps[-1].returned == ("y/else_branch/q",)


def test_a_loop_is_entered_once_for_each_iteration_that_hands_on_to_the_next() -> None:
    found = unrolled(LOOP)
    assert [found.values[f"y/body[{i}]/w"] for i in range(3)] == [[2, -4], [3, -6], [4, -8]]
    assert found.values["y"] == [4, -8]
    assert found.keys("Add") == ["y/body/w"] * 3


def test_a_loop_on_a_condition_is_entered_until_it_ends() -> None:
    found = unrolled(WHILE)
    assert [found.values[f"y/body[{i}]/w"] for i in range(3)] == [[2, -4], [4, -8], [8, -16]]
    assert "y/body[3]/w" not in found.values


@pytest.mark.parametrize(("direction", "sums"), [(0, [1, 3, 6]), (1, [3, 5, 6])])
def test_a_scan_is_entered_with_a_slice_for_each_iteration(direction: int, sums: list[int]) -> None:
    text = SCAN.replace("DIRECTION", str(direction))
    x = np.array([[1, 1], [2, 2], [3, 3]], np.float32)
    found = unrolled(text, x=x, z=np.zeros(2, np.float32))
    assert [found.values[f"y/body[{i}]/d"] for i in range(3)] == [[n, n] for n in sums]


def test_a_branch_in_a_loop_is_entered_as_each_iteration_takes_it() -> None:
    found = unrolled(NESTED)
    assert found.values["y/body[0]/w/then_branch/r"] == [-1, 2]
    assert found.values["y/body[1]/w/else_branch/r2"] == [-2, 4]
    assert found.keys("Neg") == ["y/body/w/then_branch/r"]


def test_the_bodies_around_a_step_are_known_with_their_iterations() -> None:
    (step,) = [step for step in unrolled(NESTED).steps.steps if step.node.op_type == "Neg"]
    assert [(body.holder.key, body.iteration) for body in step.bodies] == [("y", 0), ("y/body/w", None)]


def test_a_long_loop_is_left_early_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unrolling, "ITERATIONS", 2)
    found = unrolled(LOOP)
    assert found.steps.cut
    assert found.keys("Add") == ["y/body/w"] * 2
    assert found.values["y"] == [4, -8]


def test_when_there_are_many_steps_already_a_loop_is_entered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unrolling, "STEPS", 1)
    found = unrolled(LOOP)
    assert found.steps.cut
    assert found.keys("Add") == ["y/body/w"]


def test_a_loop_that_does_not_run_adds_nothing() -> None:
    found = unrolled(LOOP.replace("int64 {3}", "int64 {0}"))
    assert found.keys("Add") == []
    assert not found.steps.cut


def test_a_functions_body_stands_in_place_of_every_call_with_the_calls_attributes() -> None:
    found = unrolled(FUNCTION)
    assert found.values["t"] == [3, -6]
    assert found.values["y"] == [30, -60]
    assert found.keys("Mul") == ["my::scaled:://b"] * 2


def test_a_function_may_give_back_what_it_was_given() -> None:
    assert unrolled(NOTHING_DONE).values["same"] == [1, -2]


def test_functions_in_branches_of_functions_are_entered_too() -> None:
    found = unrolled(IN_FUNCTION, c=np.array(True))
    assert found.values["y"] == [2, -4]
    assert found.keys("Add") == ["my::twice:://w"]


def test_a_function_of_another_operator_version_stays_closed_and_stands_for_its_nodes() -> None:
    found = unrolled(FUNCTION.replace('["" : 20]> scaled', '["" : 19]> scaled'))
    assert found.values["y"] == [30, -60]
    (first, _) = found.steps.steps
    assert set(first.joined) == {"my::scaled:://k", "my::scaled:://b"}
