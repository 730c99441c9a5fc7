"""Inlining: every value of functions and taken branches has a name and can be computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from pytest_hierexport._errors import UsageError
from pytest_hierexport._proof import inlining
from pytest_hierexport._proof.inlining import captured, inlined, key, name_of, nodes_inside
from pytest_hierexport._proof.session import run_graph

if TYPE_CHECKING:
    import onnx_ir as ir

X = np.array([1.0, -2.0], np.float32)
HEAD = '<ir_version: 10, opset_import: ["" : 20, "my" : 1]>'

IF = """g (float[2] x, bool c) => (float[2] y) {
  t = Neg(x)
  y = If (c) <then_branch = a () => (float[2] p) { p = Relu(t) },
              else_branch = b () => (float[2] q) { h = Abs(t) q = Add(h, x) }>
}"""
NESTED = """g (float[2] x, bool c, bool d) => (float[2] y) {
  y = If (c) <then_branch = a () => (float[2] p) {
                p = If (d) <then_branch = e () => (float[2] r) { r = Neg(x) },
                            else_branch = f () => (float[2] s) { s = Add(x, x) }>
              },
              else_branch = b () => (float[2] q) { q = Abs(x) }>
}"""
LOOP = """g (float[2] x) => (float[2] y) {
  n = Constant<value = int64 {3}>()
  y = Loop (n, , x) <body = b (int64 i, bool going, float[2] v) => (bool on, float[2] w) {
    on = Identity(going)
    w = Add(v, x)
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
class Inlined:
    model: ir.Model
    values: Mapping[str, Any]
    """The elements of every value by its name."""

    def keys(self, operator: str) -> list[str]:
        return [key(node) for node in self.model.graph if node.op_type == operator]


def made(text: str, **feeds: Any) -> Inlined:
    proto: onnx.ModelProto = onnx.parser.parse_model(f"{HEAD} {text}")
    inputs = {"x": X, **feeds}
    model, flat = inlined(proto, inputs)
    wanted = [value for node in flat.graph.node for value in node.output if value]
    return Inlined(model, {v.name: v.arrays[0].tolist() for v in run_graph(flat, inputs, wanted)})


@pytest.fixture
def never_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail a test that runs the model: there is no branch to choose."""
    monkeypatch.setattr(inlining, "run_graph", lambda *call: pytest.fail(f"asked for {call[2]}"))


@pytest.mark.usefixtures("never_run")
def test_model_without_bodies_is_unchanged() -> None:
    proto = onnx.parser.parse_model(f"{HEAD} g (float[2] x) => (float[2] y) {{ y = Neg(x) }}")
    before = proto.SerializeToString()
    model, flat = inlined(proto, {})
    assert flat.SerializeToString() == proto.SerializeToString() == before
    assert [key(node) for node in model.graph] == ["y"]


def test_cycle_raises_usage_error() -> None:
    with pytest.raises(UsageError, match="a graph without a cycle"):
        made("g (float[2] x) => (float[2] y) { y = Add(x, z) z = Neg(y) }")


def test_taken_branch_alone_is_inlined() -> None:
    taken = made(IF, c=np.array(True))
    assert taken.values["y/then_branch/p"] == [0, 2]
    assert taken.keys("Add") == []
    other = made(IF, c=np.array(False))
    assert other.values["y/else_branch/q"] == [2, 0]
    assert other.keys("Relu") == []


def test_branch_nodes_keep_keys_and_precede_their_results() -> None:
    found = made(IF, c=np.array(False))
    assert [key(node) for node in found.model.graph] == ["t", "y/else_branch/h", "y/else_branch/q", "y"]


def test_if_reads_values_that_its_branch_returned() -> None:
    found = made(IF, c=np.array(False))
    assert list(map(name_of, found.model.graph[-1].inputs)) == ["y/else_branch/q"]


def test_branch_of_if_without_named_outputs_is_inlined() -> None:
    # Only the reference evaluator runs such an `If`; it runs this one for want of a kernel.
    proto: onnx.ModelProto = onnx.parser.parse_model(f"{HEAD} {IF.replace('float', 'bfloat16')}")
    proto.graph.node[1].output[0] = ""
    proto.graph.output[0].name = "t"
    feeds = {"x": X.astype(ml_dtypes.bfloat16), "c": np.array(True)}
    model, _ = inlined(proto, feeds)
    assert [key(node) for node in model.graph] == ["t", "@1/then_branch/p", "@1"]


def test_weights_of_branch_move_with_it() -> None:
    weighted = IF.replace("(float[2] p) { p = Relu(t) }", "(float[2] p) <float[2] w = {1.0, 2.0}> { p = Add(t, w) }")
    found = made(weighted, c=np.array(True))
    assert found.values["y"] == found.values["y/then_branch/p"] == [0, 4]


def test_branch_inside_branch_is_inlined_too() -> None:
    found = made(NESTED, c=np.array(True), d=np.array(False))
    assert found.values["y/then_branch/p/else_branch/s"] == [2, -4]
    (node,) = [node for node in found.model.graph if node.op_type == "Add"]
    assert key(node) == "y/then_branch/p/else_branch/s"


def test_loop_stays_closed_with_keys_of_its_nodes() -> None:
    found = made(LOOP)
    assert found.values["y"] == [4, -8]
    (node,) = [node for node in found.model.graph if node.op_type == "Loop"]
    assert [*map(key, nodes_inside(node, found.model))] == ["y/body/on", "y/body/w"]
    assert set(captured(node)) >= {"x"}


def test_function_is_inlined_at_each_call_with_its_attributes() -> None:
    found = made(FUNCTION)
    assert found.values["t"] == [3, -6]
    assert found.values["y"] == [30, -60]
    assert found.keys("Mul") == ["my::scaled:://b"] * 2


def test_sparse_initializers_are_kept_beside_functions() -> None:
    model = onnx.parser.parse_model(f"{HEAD}{FUNCTION.replace('y = my.scaled(t)', 'u = Add(t, w) y = my.scaled(u)')}")
    values, indices = (numpy_helper.from_array(np.array(each), "w") for each in (np.array([7], np.float32), [1]))
    model.graph.sparse_initializer.append(onnx.helper.make_sparse_tensor(values, indices, [2]))
    _, flat = inlined(model, {"x": X})
    (found,) = run_graph(flat, {"x": X}, ["y"])
    assert found.arrays[0].tolist() == [30, 10]


def test_function_may_return_its_input() -> None:
    assert made(NOTHING_DONE).values["same"] == [1, -2]


@pytest.mark.usefixtures("never_run")
def test_result_that_no_call_takes_is_computed() -> None:
    proto: onnx.ModelProto = onnx.parser.parse_model(f"{HEAD} {NOTHING_DONE.replace('(b, a)', '(a, b)')}")
    proto.graph.node[0].output[1] = ""
    _, flat = inlined(proto, {})
    onnx.checker.check_model(flat)


@pytest.mark.parametrize(
    "damaged",
    [FUNCTION.replace("(t) }", "(t, t) }"), IN_FUNCTION.replace("w = Add(v, v)", "w = my.choose(v, v)")],
    ids=["inputs", "recursion"],
)
def test_function_that_cannot_be_inlined_is_a_usage_error(damaged: str) -> None:
    with pytest.raises(UsageError, match="functions that can be inlined"):
        made(damaged.replace('"" : 20]> twice', '"" : 20, "my" : 1]> twice'), c=np.array(True))


def test_function_in_branch_of_function_is_inlined_too() -> None:
    found = made(IN_FUNCTION, c=np.array(True))
    assert found.values["y"] == [2, -4]
    assert found.keys("Add") == ["my::twice:://w"]


def test_function_of_other_opset_stays_closed_with_its_keys() -> None:
    found = made(FUNCTION.replace('["" : 20]> scaled', '["" : 19]> scaled'))
    assert found.values["y"] == [30, -60]
    first, _ = found.model.graph
    assert [*map(key, nodes_inside(first, found.model))] == ["my::scaled:://k", "my::scaled:://b"]
