"""Inputs and outputs that a fusion removed: what excuses a value that a call was not given, and what does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_hierexport._proof.verdict import VerdictKind, judge
from test_proof_verdict import CALLS, ONE, SKIP, runs_of, verdict


def test_input_that_is_still_read_is_not_lost() -> None:
    text = "g (float[2] x) => (float[2] z) { y = Relu(x) z = Add(y, x) }"
    found = verdict("b", text, {"y": "a", "z": "a+b"}, CALLS)
    assert (found.kind, found.value) == (VerdictKind.UNPROVEN, "x")


@pytest.mark.parametrize(
    ("given", "kind"), [("y", VerdictKind.DISSOLVED), ("p", VerdictKind.UNPROVEN)], ids=["passed on", "not passed on"]
)
def test_input_that_a_call_below_lost_is_lost(given: str, kind: VerdictKind) -> None:
    text = "g (float[2] x) => (float[2] z) { u = Exp(x) p = Relu(u) y = Abs(p) w = Neg(p) z = Add(w, y) }"
    tags = {"u": "b", "p": "b+a.in", "y": "b", "w": "a.in", "z": "a"}
    calls = {"b": ("x", "y"), "a.in": ("y", "w"), "a": (given, "z"), "/": ("x", "z")}
    assert verdict("a", text, tags, calls).kind is kind


@pytest.mark.parametrize(
    ("outputs", "returned", "kind"),
    [
        ("y, n", "z", VerdictKind.DISSOLVED),
        ("y", "z", VerdictKind.UNPROVEN),
        ("y", "z y", VerdictKind.DISSOLVED),
    ],
    ids=["computes more", "computes the input alone", "computes what the call returned"],
)
def test_input_that_the_fused_node_computes_is_lost(outputs: str, returned: str, kind: VerdictKind) -> None:
    text = f"g (float[2] x) => (float[2] z) {{ {outputs} = Relu(x) z = Neg(y) }}"
    assert verdict("b", text, {"y": "a+b", "z": "b"}, {**CALLS, "b": ("y", returned)}).kind is kind


@pytest.mark.parametrize(("outputs", "kind"), [("y", VerdictKind.UNPROVEN), ("y, n", VerdictKind.PROVEN)])
def test_node_that_gives_only_the_input_reads_no_other_form(outputs: str, kind: VerdictKind) -> None:
    text = f"g (float[2] x) => (float[2] z) {{ u = Exp(x) {outputs} = Transpose(u) z = Neg(y) }}"
    runs = runs_of(text, {"u": "a", "y": "a+b", "z": "b"}, CALLS)
    found = judge(replace(runs, rearranged={"u": runs.candidates["y"]}), "b")
    assert found is not None
    assert found.kind is kind


def test_constant_output_does_not_show_where_a_fused_node_ends() -> None:
    text = "g (float[2] x) => (float[2] z) { zero = Sub(x, x) z = Neg(zero) }"
    calls = {"a": ("x", "zero"), "b": ("zero", "z"), "/": ("x", "z")}
    assert verdict("b", text, {"zero": "a+b", "z": "b"}, calls).kind is VerdictKind.DISSOLVED


def test_giver_may_produce_what_the_fused_node_reads() -> None:
    text = "g (float[2] x) => (float[2] z) { t = Exp(x) z = Neg(t) }"
    assert verdict("b", text, {"t": "a", "z": "a+b"}, CALLS).kind is VerdictKind.DISSOLVED


@pytest.mark.parametrize(
    ("tags", "kind"), [("a.in+/", VerdictKind.DISSOLVED), ("a.in+b", VerdictKind.UNPROVEN)], ids=["fused", "not fused"]
)
def test_nearest_call_above_without_the_input_is_its_giver(tags: str, kind: VerdictKind) -> None:
    calls = {"a.in": ("h", "z"), "/": ("x", "z")}  # `a` of the graph did not run: the model is captured otherwise
    assert verdict("a.in", ONE, {"z": tags}, calls).kind is kind


def test_giver_may_have_lost_its_own_input() -> None:
    calls = {"a": ("x", "h"), "a.in": ("h", "k"), "b": ("k", "z"), "/": ("x", "z")}
    found = verdict("b", ONE, {"z": "a+a.in+b"}, calls)
    assert (found.kind, found.value, found.tag) == (VerdictKind.DISSOLVED, "[0][0]", "/Root/A/In")


def test_givers_in_a_circle_excuse_nothing() -> None:
    calls = {"a": ("g", "v"), "a.in": ("h", "k g"), "b": ("k", "z"), "/": ("x", "z")}
    assert verdict("b", ONE, {"z": "a+a.in+b"}, calls).kind is VerdictKind.UNPROVEN


@pytest.mark.parametrize(("taken", "kind"), [("y x", VerdictKind.DISSOLVED), ("x", VerdictKind.UNPROVEN)])
def test_taker_of_a_lost_output_was_given_it(taken: str, kind: VerdictKind) -> None:
    calls = {"a.in": ("u", "w y"), "b": (taken, "z"), "/": ("x", "w z")}
    found = verdict("a.in", SKIP, {"u": "/", "w": "a.in", "p": "a.in", "z": "a.in+b"}, calls)
    assert (found.kind, found.value) == (kind, "output[1]" if kind is VerdictKind.DISSOLVED else "x")


def test_call_above_gives_only_in_a_fusion_with_it() -> None:
    calls = {"a": ("x", "h z"), "a.in": ("h", "z"), "/": ("x", "z")}
    assert verdict("a.in", ONE, {"z": "a.in+b"}, calls).kind is VerdictKind.UNPROVEN
    assert verdict("a.in", ONE, {"z": "a.in+a"}, calls).kind is VerdictKind.DISSOLVED


@pytest.mark.parametrize("giver", ["a", "/"])
def test_call_above_that_raised_may_give_or_pass_on(giver: str) -> None:
    text, calls = "g (float[2] x) => (float[2] z) { t = Exp(x) z = Neg(t) }", {"a.in": ("h", "z"), "/": ("x", "z")}
    found = verdict("a.in", text, {"t": giver, "z": f"a.in+{giver}"}, calls)
    assert found.kind is VerdictKind.DISSOLVED


FORM = "g (float[2] x) => (float[2] z) { t = Exp(x) u = Neg(t) z = Abs(u) }"
LOST = {"a": ("x", "h"), "b": ("h", "z"), "/": ("x", "z")}


@pytest.mark.parametrize(("owner", "kind"), [("a", VerdictKind.PROVEN), ("b", VerdictKind.UNPROVEN)])
def test_lost_output_in_another_form_shows_its_call(owner: str, kind: VerdictKind) -> None:
    runs = runs_of(FORM, {"t": "a", "u": owner, "z": "b"}, LOST)
    assert judge(runs, "a").kind is VerdictKind.DISSOLVED  # type: ignore[union-attr]  # a call that returned a tensor
    found = judge(replace(runs, rearranged={"u": (frozenset(runs.calls["a"].returned),)}), "a")
    assert found is not None
    assert found.kind is kind
    assert found.value == (None if owner == "a" else "u")


def test_output_in_another_form_is_not_lost() -> None:
    calls = {"a.in": ("u", "w y"), "b": ("y x", "z"), "/": ("x", "w z")}
    runs = runs_of(SKIP, {"u": "/", "w": "a.in", "p": "a.in", "z": "a.in+b"}, calls)
    gone = max(runs.calls["a.in"].returned)
    kinds = [judge(each, "a.in") for each in (runs, replace(runs, rearranged={"p": (frozenset([gone]),)}))]
    assert [each and each.kind for each in kinds] == [VerdictKind.DISSOLVED, VerdictKind.UNPROVEN]


@pytest.mark.parametrize("tags", ["a+b", "/+b"], ids=["fused with the next call", "without a node"])
def test_call_that_only_rearranged_its_input_is_dissolved(tags: str) -> None:
    text = "g (float[2] x) => (float[2] z) { y = Exp(x) z = Gemm(y, y) }"
    runs = runs_of(text, {"y": "/", "z": tags}, {"a": ("y", "h"), "b": ("h", "z"), "/": ("x", "z")})
    found = judge(replace(runs, rearranged={"y": (frozenset(runs.calls["a"].returned),)}), "a")
    assert found is not None
    assert found.kind is VerdictKind.DISSOLVED
