"""Verdicts: what a call's nodes must read and make for its tags to be proven."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import onnx
import pytest

from pytest_hierexport._calls.attribution import Attribution, Evidence, Origin, Origins
from pytest_hierexport._calls.hierarchy import Call, Hierarchy
from pytest_hierexport._proof.both_runs import BothRuns
from pytest_hierexport._proof.call_values import EagerCall
from pytest_hierexport._proof.fingerprints import fingerprint
from pytest_hierexport._proof.inlining import inlined
from pytest_hierexport._proof.owners import Graph
from pytest_hierexport._proof.values import Values
from pytest_hierexport._proof.verdict import Verdict, VerdictKind, contaminated, judge

# The root calls `a` and `b`, and `a` calls `a.in`.
HIERARCHY = Hierarchy(
    [Call("", 0, "m.Root", None), Call("a", 0, "m.A", ""), Call("a.in", 0, "m.In", "a"), Call("b", 0, "m.B", "")]
)
CHAIN = "g (float[2] x) => (float[2] z) { y = Relu(x) z = Neg(y) }"


class World:
    """Values by name: what is called `y` in the graph is what is called `y` in the eager run."""

    def __init__(self) -> None:
        self.values = Values()
        self.known: dict[str, int] = {}

    def number(self, name: str) -> int:
        if name not in self.known:
            constant = name.startswith("zero")
            array = np.zeros(len(self.known) + 2) if constant else np.random.default_rng(len(self.known)).random(2)
            found = replace(fingerprint(array), quantized=name.startswith("quantized"))
            self.known[name] = self.values.add(found)
        return self.known[name]

    def call(self, name: str, inputs: str, outputs: str, effects: str = "") -> EagerCall:
        taken = {self.number(value): f"[0][{i}]" for i, value in enumerate(inputs.split())}
        given = {self.number(value): f"[{i}]" for i, value in enumerate(outputs.split())}
        left = frozenset(self.number(value) for value in effects.split())
        return EagerCall(HIERARCHY[name], 0, False, taken, given, left)


def origins(text: str) -> Origins:
    """Read `a b`, `a+b` (fused) or nothing; `/` is the root."""
    evidence = Evidence.FUSED if "+" in text else Evidence.TRACED
    return tuple(Origin(name.strip("/"), evidence) for name in text.replace("+", " ").split())


def runs_of(
    text: str,
    tags: Mapping[str, str],
    calls: Mapping[str, tuple[str, ...]],
    vanished: Sequence[str] = (),
    sequences: Mapping[str, str] | None = None,
) -> BothRuns:
    """Return the runs of a graph.

    Args:
        text: The graph.
        tags: The origins of its nodes.
        calls: The inputs, outputs and effects of every call, by the names of values in the graph.
        vanished: Values that the graph computes with other elements than the eager run.
        sequences: The tensors of each value that is a sequence.
    """
    proto: onnx.ModelProto = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 20]> {text}')
    attribution = Attribution(HIERARCHY, {key: origins(names) for key, names in tags.items()})
    graph = Graph(inlined(proto, {})[0], attribution)
    world = World()
    eager = {name.strip("/"): world.call(name.strip("/"), *parts) for name, parts in calls.items()}
    shown = {}
    for value in (*graph.inputs, *graph.initializers, *graph.producer):
        parts = (sequences or {}).get(value, value).split()
        found = (frozenset([world.known[part]]) if part in world.known else frozenset() for part in parts)
        shown[value] = tuple(frozenset[int]() if value in vanished else numbers for numbers in found)
    return BothRuns(graph, eager, world.values, shown)


def verdict(call: str, *args: object, **kwargs: object) -> Verdict:
    found = judge(runs_of(*args, **kwargs), call)  # type: ignore[arg-type]  # passed through
    assert found is not None
    return found


CALLS = {"a": ("x", "y"), "b": ("y", "z"), "/": ("x", "z")}


def test_nodes_from_inputs_to_outputs_prove_call() -> None:
    for call in ("a", "b", ""):
        assert verdict(call, CHAIN, {"y": "a", "z": "b"}, CALLS) == Verdict(VerdictKind.PROVEN)


def test_others_may_read_the_shape_of_any_value() -> None:
    text = "g (float[2] x) => (float[2] z) { t = Exp(x) y = Neg(t) s = Shape(t) z = Expand(y, s) }"
    tags = {"t": "a", "y": "a", "s": "b", "z": "b"}
    assert verdict("a", text, tags, CALLS).kind is VerdictKind.PROVEN
    assert verdict("a", text.replace("Shape", "Cast<to=7>"), tags, CALLS).kind is VerdictKind.UNPROVEN


def test_value_read_for_its_shape_alone_shows_its_owner() -> None:
    text = "g (float[2] x) => (float[2] z) { t = Exp(x) s = Shape(t) y = Neg(x) z = Expand(y, s) }"
    calls, tags = {**CALLS, "b": ("x y", "z")}, {"s": "b", "y": "a", "z": "b"}
    kinds = {owner: verdict("a", text, {**tags, "t": owner}, calls).kind for owner in "ab"}
    assert kinds == {"a": VerdictKind.UNPROVEN, "b": VerdictKind.PROVEN}


@pytest.mark.parametrize(("owner", "kind"), [("a", VerdictKind.PROVEN), ("b", VerdictKind.UNPROVEN)])
def test_copy_of_what_a_call_gave_may_enter_it_again(owner: str, kind: VerdictKind) -> None:
    text = "g (float[2] x) => (float[2] z) { y = Exp(x) copy = Identity(y) t = Sin(copy) z = Neg(t) }"
    tags = {"y": owner, "copy": "/", "t": "a b", "z": "b"}
    assert verdict("a", text, tags, CALLS, sequences={"copy": "y"}).kind is kind


def test_copy_from_before_what_a_call_gave_is_not_given() -> None:
    text = "g (float[2] x) => (float[2] z) { copy = Exp(x) y = Identity(copy) z = Neg(y) }"
    found = verdict("a", text, {"copy": "/", "y": "a", "z": "b"}, CALLS, sequences={"copy": "y"})
    assert (found.kind, found.value) == (VerdictKind.UNPROVEN, "copy")


def test_quantized_value_that_the_graph_rounds_otherwise_gives_no_verdict() -> None:
    text = "g (float[2] x) => (float[2] z) { quantized = Relu(x) y = Neg(quantized) z = Abs(y) }"
    calls = {"a": ("x", "quantized"), "b": ("quantized", "y"), "/": ("x", "z")}
    given = (text, {"quantized": "a", "y": "b", "z": "/"}, calls)
    assert [judge(runs_of(*given, vanished=["quantized"]), call) for call in ("a", "b")] == [None, None]
    assert verdict("", *given, vanished=["quantized"]).kind is VerdictKind.PROVEN
    assert {verdict(call, *given).kind for call in calls if call != "/"} == {VerdictKind.PROVEN}


def test_other_values_prove_calls_where_the_graph_rounds_otherwise() -> None:
    text = "g (float[2] x) => (float[2] z) { y = Relu(x) quantized = Abs(y) z = Neg(quantized) }"
    calls = {"a": ("x", "y"), "b": ("y", "quantized"), "/": ("x", "z")}
    tags = {"y": "a", "quantized": "b", "z": "/"}
    assert verdict("a", text, tags, calls, vanished=["quantized"]).kind is VerdictKind.PROVEN
    wrong = verdict("a", text, {**tags, "y": "b"}, calls, vanished=["quantized"])
    assert wrong.kind is VerdictKind.UNPROVEN


STORED = "g (float[2] x) => (float[2] z) <float[2] p = {1.0, 2.0}> { t = Add(x, p) z = Neg(t) }"


@pytest.mark.parametrize("tags", ["b", "a+b"])
def test_stored_output_proves_no_call_whose_result_vanished(tags: str) -> None:
    calls = {"a": ("x", "gone p"), "b": ("gone p", "z"), "/": ("x", "z")}
    assert verdict("a", STORED, {"t": tags, "z": "b"}, calls).kind is VerdictKind.DISSOLVED


def test_stored_output_proves_no_call_that_returned_a_constant() -> None:
    text = "g (float[2] x) => (float[2] z) <float[2] p = {1, 2}> { zero = Sub(x, x) t = Add(x, p) z = Add(t, zero) }"
    calls = {"a": ("x", "zero p"), "b": ("x zero p", "z"), "/": ("x", "z")}
    assert verdict("a", text, {"zero": "a", "t": "b", "z": "b"}, calls).kind is VerdictKind.AMBIGUOUS


def test_call_owns_nodes_of_calls_below_it() -> None:
    assert verdict("a", CHAIN, {"y": "a.in", "z": "b"}, CALLS).kind is VerdictKind.PROVEN


def test_output_of_another_call_is_unproven_and_named_with_tag() -> None:
    found = verdict("a", CHAIN, {"y": "b", "z": "b"}, CALLS)
    assert (found.kind, found.value, found.tag) == (VerdictKind.UNPROVEN, "y", "/Root/B")
    assert "none of its nodes produces" in found.reason


def test_value_that_call_was_not_given_must_not_enter() -> None:
    found = verdict("b", CHAIN, {"y": "b", "z": "b"}, {**CALLS, "b": ("y", "z")})
    assert (found.kind, found.value) == (VerdictKind.UNPROVEN, "x")
    assert "was not given" in found.reason


def test_value_that_call_did_not_give_must_not_leave() -> None:
    text = "g (float[2] x) => (float[2] z) { h = Abs(x) y = Relu(h) w = Neg(h) z = Add(w, y) }"
    calls = {"a": ("x", "y"), "b": ("y h", "z"), "/": ("x", "z")}
    found = verdict("a", text, {"h": "a", "y": "a", "w": "b", "z": "b"}, calls)
    assert (found.kind, found.value, found.tag) == (VerdictKind.UNPROVEN, "h", "/Root/A")
    assert "did not give" in found.reason


def test_value_that_call_did_not_give_is_no_graph_output() -> None:
    text = "g (float[2] x) => (float[2] z, float[2] h) { h = Abs(x) z = Neg(h) }"
    found = verdict("a", text, {"h": "a", "z": "a"}, {"a": ("x", "z"), "/": ("x", "z h")})
    assert (found.kind, found.value) == (VerdictKind.UNPROVEN, "h")


def test_graph_output_that_a_tool_added_leaves_no_call() -> None:
    text = "g (float[2] x) => (float[2] h) { y = Relu(x) h = Abs(y) }"
    calls = {"a.in": ("x", "y"), "a": ("x", "y z"), "/": ("x", "z")}
    assert verdict("a", text, {"y": "a.in", "h": "a"}, calls).kind is VerdictKind.PROVEN


def test_kept_value_that_is_constant_or_missing_needs_no_node() -> None:
    text = "g (float[2] x) => (float[2] z) { zero = Sub(x, x) y = Relu(x) z = Add(y, zero) }"
    calls = {"a": ("x", "y", "gone zero"), "b": ("x y", "z"), "/": ("x", "z")}
    runs = runs_of(text, {"zero": "b", "y": "a", "z": "b"}, calls)
    keeping = replace(runs.calls["a"], kept=runs.calls["a"].effects)
    assert judge(replace(runs, calls={**runs.calls, "a": keeping}), "a") == Verdict(VerdictKind.PROVEN)


def test_value_left_in_cache_may_be_read_by_others() -> None:
    text = "g (float[2] x) => (float[2] z) { h = Abs(x) y = Relu(h) z = Add(h, y) }"
    calls = {"a": ("x", "y", "h"), "b": ("h y", "z"), "/": ("x", "z")}
    assert verdict("a", text, {"h": "a", "y": "a", "z": "b"}, calls).kind is VerdictKind.PROVEN


MERGED = "g (float[2] x) => (float[2] z) { m = Abs(x) y = Relu(m) w = Add(m, y) z = Neg(w) }"
MERGED_CALLS = {"a": ("x", "y"), "b": ("x y", "w"), "/": ("x", "z")}


def test_value_may_leave_to_co_owner_of_its_producer() -> None:
    tags = {"m": "a b", "y": "a", "w": "b", "z": "/"}
    for call in ("a", "b", ""):
        assert verdict(call, MERGED, tags, MERGED_CALLS).kind is VerdictKind.PROVEN


@pytest.mark.parametrize("owner", ["a", "b"])
def test_missing_co_owner_is_unproven(owner: str) -> None:
    tags = {"m": owner, "y": "a", "w": "b", "z": "/"}
    kinds = {call: verdict(call, MERGED, tags, MERGED_CALLS).kind for call in ("a", "b")}
    assert kinds == {"a": VerdictKind.UNPROVEN, "b": VerdictKind.UNPROVEN}


def test_co_owners_may_not_give_internal_value_to_third_call() -> None:
    text = "g (float[2] x) => (float[2] z) { m = Abs(x) y = Relu(m) w = Neg(m) v = Add(y, w) z = Add(v, m) }"
    tags = {"m": "a b", "y": "a", "w": "b", "v": "/", "z": "/"}
    calls = {"a": ("x", "y"), "b": ("x", "w"), "/": ("x", "z")}
    assert verdict("a", text, tags, calls).kind is VerdictKind.UNPROVEN
    assert verdict("b", text, tags, calls).kind is VerdictKind.UNPROVEN
    gave = {**calls, "b": ("x", "w m")}
    assert verdict("a", text, tags, gave).kind is VerdictKind.PROVEN


def test_co_owner_in_a_loop_may_have_given_anything() -> None:
    calls = {call: MERGED_CALLS[call] for call in ("a", "/")}
    assert verdict("a", MERGED, {"m": "a b", "y": "a", "w": "/", "z": "/"}, calls).kind is VerdictKind.PROVEN


def test_sizes_may_come_from_any_call() -> None:
    text = """g (float[2] x) => (float[2] z) {
      s = Shape(x) t = Neg(s) c = CastLike(t, x) y = Relu(x) z = Add(y, c)
    }"""
    tags = {"s": "/", "t": "a", "c": "a", "y": "a", "z": "b"}
    calls = {"a": ("x", "y"), "b": ("y", "z"), "/": ("x", "z")}
    for call in ("a", "b"):
        assert verdict(call, text, tags, calls).kind is VerdictKind.PROVEN


def test_call_that_returns_its_input_is_pass_through() -> None:
    assert verdict("a", CHAIN, {"y": "b", "z": "b"}, {**CALLS, "a": ("x", "x")}).kind is VerdictKind.PASS_THROUGH


def test_call_without_output_has_no_verdict() -> None:
    assert judge(runs_of(CHAIN, {"y": "a", "z": "b"}, {**CALLS, "a": ("x", "")}), "a") is None


def test_model_that_returned_nothing_must_give_the_outputs_otherwise() -> None:
    calls = {"a": ("x", ""), "b": ("y", "z"), "/": ("x", "")}
    nothing = runs_of(CHAIN, {"y": "a", "z": "b"}, calls)
    found = judge(nothing, "")
    assert found is not None
    assert (found.kind, found.value, judge(nothing, "a")) == (VerdictKind.UNPROVEN, "z", None)
    assert judge(runs_of(CHAIN, {"y": "a", "z": "b"}, {**calls, "/": ("x", "", "z")}), "") is None


def test_outputs_stored_as_constants_are_folded() -> None:
    text = "g (float[2] x) => (float[2] z) <float[2] y = {1.0, 2.0}> { z = Add(x, y) }"
    assert verdict("a", text, {"z": "b"}, {**CALLS, "a": ("", "y")}).kind is VerdictKind.FOLDED


@pytest.mark.parametrize(("stored", "kind"), [("y", VerdictKind.UNPROVEN), ("zero", VerdictKind.FOLDED)])
def test_folded_call_owns_no_work_of_others(stored: str, kind: VerdictKind) -> None:
    text = f"g (float[2] x) => (float[2] z) <float[2] {stored} = {{1.0, 2.0}}> {{ z = Add(x, {stored}) }}"
    assert verdict("a", text, {"z": "a"}, {**CALLS, "a": ("", stored)}).kind is kind


def test_stored_output_of_a_call_with_nodes_is_judged() -> None:
    text = "g (float[2] x) => (float[2] z) <float[2] c = {1.0, 2.0}> { y = Relu(x) w = Add(y, c) z = Neg(w) }"
    found = verdict("a", text, {"y": "b", "w": "a", "z": "b"}, CALLS, sequences={"c": "y"})
    assert (found.kind, found.value) == (VerdictKind.UNPROVEN, "y")


def test_output_that_is_stored_may_be_computed_elsewhere() -> None:
    text = "g (float[2] x) => (float[2] z) <float[2] c = {1.0, 2.0}> { y = Relu(x) w = Add(x, c) z = Add(w, y) }"
    calls = {"a": ("x", "y w"), "b": ("x", "y"), "/": ("x", "z")}
    found = verdict("a", text, {"y": "b", "w": "a", "z": "/"}, calls, sequences={"c": "y"})
    assert found.kind is VerdictKind.PROVEN


def test_vanished_output_is_dissolved_and_named() -> None:
    found = verdict("a", CHAIN, {"y": "a", "z": "b"}, CALLS, vanished=["y"])
    assert (found.kind, found.value, found.tag) == (VerdictKind.DISSOLVED, "output[0]", "/Root/A")


ONE = "g (float[2] x) => (float[2] z) { z = Neg(x) }"


def test_call_fused_with_giver_of_input_is_dissolved() -> None:
    found = verdict("b", ONE, {"z": "a+b"}, CALLS)
    assert (found.kind, found.value, found.tag) == (VerdictKind.DISSOLVED, "[0][0]", "/Root/A")


def test_rearranged_value_may_leave_a_call_and_enter_another() -> None:
    text = "g (float[2] x) => (float[2] z, float[2] w) { w = Abs(x) y = Relu(w) z = Neg(y) }"
    calls = {"a": ("x", "w y"), "b": ("y", "z"), "/": ("x", "z w")}
    runs = runs_of(text, {"w": "a", "y": "a", "z": "b"}, calls)
    moved = replace(runs, candidates={**runs.candidates, "y": (frozenset(),)}, rearranged={"y": runs.candidates["y"]})
    assert [judge(moved, call) for call in ("a", "b")] == [Verdict(VerdictKind.PROVEN)] * 2
    found = judge(replace(moved, rearranged={"y": runs.candidates["x"]}), "b")
    assert found is not None
    assert (found.kind, found.value) == (VerdictKind.UNPROVEN, "y")


def test_wrong_tag_counts_more_than_a_fusion() -> None:
    text = "g (float[2] x) => (float[2] z) { z = Neg(x) p = Abs(z) q = Relu(p) }"
    found = verdict("b", text, {"z": "a+b", "p": "b", "q": "a"}, CALLS)
    assert (found.kind, found.value) == (VerdictKind.UNPROVEN, "p")


SKIP = "g (float[2] x) => (float[2] w, float[2] z) { u = Exp(x) w = Abs(u) p = Relu(w) z = Add(p, x) }"


@pytest.mark.parametrize(
    ("tags", "kind"), [("a.in+a", VerdictKind.DISSOLVED), ("a.in a", VerdictKind.UNPROVEN)], ids=["fused", "traced"]
)
def test_call_fused_with_taker_of_output_is_dissolved(tags: str, kind: VerdictKind) -> None:
    calls = {"a.in": ("u", "w y"), "a": ("u x", "w z"), "b": ("", "u"), "/": ("x", "w z")}
    found = verdict("a.in", SKIP, {"u": "b", "w": "a.in", "p": "a.in", "z": tags}, calls)
    assert (found.kind, found.value) == (kind, "output[1]" if kind is VerdictKind.DISSOLVED else "x")


def test_fused_input_that_others_read_is_dissolved_too() -> None:
    text = "g (float[2] x) => (float[2] y, float[2] z) { y = Relu(x) z = Neg(x) }"
    found = verdict("b", text, {"y": "a", "z": "a+b"}, {**CALLS, "/": ("x", "y z")})
    assert (found.kind, found.value, found.tag) == (VerdictKind.DISSOLVED, "[0][0]", "/Root/A")
    assert "is not read there any more" in found.reason


@pytest.mark.parametrize(
    ("tags", "inputs"),
    [
        pytest.param("a b", "y", id="without a fusion"),
        pytest.param("b", "y", id="without the giver"),
        pytest.param("a+b", "x", id="with an input that is there"),
    ],
)
def test_foreign_value_without_fusion_is_unproven(tags: str, inputs: str) -> None:
    text = "g (float[2] x, float[2] o) => (float[2] z) { z = Add(x, o) }"
    assert (
        verdict("b", text, {"z": tags}, {**CALLS, "b": (inputs, "z"), "/": ("x o", "z")}).kind is VerdictKind.UNPROVEN
    )


def test_constant_valued_output_is_ambiguous() -> None:
    text = "g (float[2] x) => (float[2] zero) { zero = Sub(x, x) }"
    assert verdict("a", text, {"zero": "a"}, {"a": ("x", "zero"), "/": ("x", "zero")}).kind is VerdictKind.AMBIGUOUS


def test_output_that_may_be_an_input_is_ambiguous() -> None:
    runs = runs_of(CHAIN, {"y": "a", "z": "b"}, CALLS)
    near = {"x": runs.candidates["x"], "y": (runs.candidates["x"][0] | runs.candidates["y"][0],)}
    runs = replace(runs, candidates={**runs.candidates, **near})
    found = {call: judge(runs, call) for call in ("a", "b")}
    assert {call: each and each.kind for call, each in found.items()} == {
        "a": VerdictKind.AMBIGUOUS,
        "b": VerdictKind.PROVEN,
    }


def test_sequence_is_judged_tensor_by_tensor() -> None:
    text = """g (float[2] x) => (float[1] z) {
      i = Constant<value = int64 {0}>() s = SplitToSequence<axis=0>(x) z = SequenceAt(s, i)
    }"""
    parts = {"s": "p q"}
    tags = {"i": "b", "s": "a", "z": "b"}
    calls = {"a": ("x", "p q"), "b": ("p q", "z"), "/": ("x", "z")}
    for call in ("a", "b"):
        assert verdict(call, text, tags, calls, sequences=parts).kind is VerdictKind.PROVEN
    assert verdict("b", text, tags, {**calls, "b": ("p", "z")}, sequences=parts).kind is VerdictKind.UNPROVEN


def test_node_that_produces_value_of_other_call_is_contaminated() -> None:
    assert contaminated(runs_of(CHAIN, {"y": "a", "z": "b"}, CALLS)) == {}
    assert contaminated(runs_of(CHAIN, {"y": "b", "z": "b"}, CALLS)) == {"y": ("a",)}


def test_value_that_its_own_call_produces_too_is_not_contaminated() -> None:
    text = "g (float[2] x) => (float[2] z) { y = Relu(x) twin = Relu(x) z = Add(y, twin) }"
    tags = {"y": "a", "twin": "b", "z": "b"}
    assert contaminated(runs_of(text, tags, CALLS, sequences={"twin": "y"})) == {}


def test_constant_value_of_another_call_does_not_contaminate() -> None:
    text = "g (float[2] x) => (float[2] z) { zero = Sub(x, x) z = Add(x, zero) }"
    assert contaminated(runs_of(text, {"zero": "b", "z": "b"}, {"a": ("x", "zero"), "b": ("x", "z")})) == {}


@pytest.mark.parametrize(
    ("found", "shown"),
    [
        (Verdict(VerdictKind.PROVEN), "<proven>"),
        (Verdict(VerdictKind.AMBIGUOUS, "all equal"), "<ambiguous: all equal>"),
        (Verdict(VerdictKind.UNPROVEN, "strange", "x"), "<unproven: strange, x>"),
        (Verdict(VerdictKind.UNPROVEN, "strange", "y", "/Root/A"), "<unproven: strange, y of /Root/A>"),
    ],
)
def test_verdict_is_shown_with_what_explains_it(found: Verdict, shown: str) -> None:
    assert repr(found) == shown
