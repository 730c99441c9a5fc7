"""Loose owners: calls that own a node without consuming it or returning it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from pytest_hierexport._calls.hierarchy import Call
from pytest_hierexport._proof.call_values import EagerCall
from pytest_hierexport._proof.loose import loose_owners, pairs
from pytest_hierexport._proof.verdict import VerdictKind, judge
from test_proof_verdict import runs_of

CHAIN = "g (float[2] x) => (float[2] z) { t = Exp(x) h = Neg(t) z = Relu(h) }"
CALLS = {"/": ("x", "z"), "a": ("x", "h"), "b": ("h", "z")}


def loose(
    tags: dict[str, str],
    text: str = CHAIN,
    calls: Mapping[str, tuple[str, ...]] = CALLS,
    vanished: Sequence[str] = (),
) -> list[tuple[str, str]]:
    return [(each.node, each.call) for each in loose_owners(runs_of(text, tags, calls, vanished))]


def test_owner_that_does_not_consume_the_node_is_loose() -> None:
    assert loose({"t": "a b", "h": "a", "z": "b"}) == [("t", "b")]


@pytest.mark.parametrize(
    ("returned", "owners", "found"),
    [("h", "a b", [("h", "b")]), ("t", "a b", []), ("h", "a+b", [])],
    ids=["h is a's", "h is no one's", "fused"],
)
def test_owner_beside_the_one_that_returned_the_value_is_loose(
    returned: str, owners: str, found: list[tuple[str, str]]
) -> None:
    text = CHAIN.replace("h = Neg(t)", "h = Neg(t) w = Abs(x)")
    calls = {"/": ("x", "z"), "a": ("x", returned), "b": ("x", "w")}
    assert loose({"t": "a", "h": owners, "w": "b", "z": "/"}, text, calls) == found


def test_owner_in_a_loop_is_not_loose() -> None:
    assert loose({"t": "a b", "h": "a", "z": "/"}, calls={"/": ("x", "z"), "a": ("x", "h")}) == []


def test_loose_owner_of_what_it_was_given_changes_no_verdict() -> None:
    text = CHAIN.replace("Relu(h)", "Mul(h, x)")
    calls, tags = {**CALLS, "b": ("h x", "z")}, {"t": "a b", "h": "a", "z": "b"}
    assert loose(tags, text, calls) == [("t", "b")]
    runs = runs_of(text, tags, calls)
    for call in runs.calls:
        verdict = judge(runs, call)
        assert verdict is not None
        assert verdict.kind is VerdictKind.PROVEN


@pytest.mark.parametrize(
    "tags",
    [
        {"t": "a", "h": "a", "z": "b"},
        {"t": "a", "h": "a b", "z": "b"},
        {"t": "a /", "h": "a", "z": "b"},
    ],
)
def test_owner_that_consumes_or_returned_it_is_not_loose(tags: dict[str, str]) -> None:
    assert loose(tags) == []


FUSED = "g (float[2] x) => (float[2] z) { p = Neg(x) t = Add(p, x) u = Exp(t) z = Relu(u) }"


def test_call_whose_result_a_fusion_computes_is_not_loose() -> None:
    # `a` returned `biased`, which the fused node `t` computes of `p`, and `b` has the rest.
    tags = {"p": "a", "t": "a+b", "u": "b", "z": "/"}
    calls = {"/": ("x", "z"), "a": ("x", "biased"), "b": ("biased", "u")}
    assert loose(tags, FUSED, calls, ["biased"]) == []


def test_call_that_returned_before_the_fused_node_is_loose() -> None:
    kept = {"/": ("x", "z"), "a": ("x", "p"), "b": ("p", "u")}
    assert loose({"p": "a", "t": "a+b", "u": "b", "z": "/"}, FUSED, kept) == [("t", "a")]
    # `b` was given what `a` returned and owns `t`, so nothing behind `t` is work of `a`.
    gone = {"/": ("x", "z"), "a": ("x", "biased"), "b": ("biased", "z")}
    assert loose({"p": "a", "t": "a+b", "u": "a+b", "z": "b"}, FUSED, gone, ["biased"]) == [("u", "a")]


def test_call_whose_results_no_other_owner_took_is_not_loose() -> None:
    calls = {"/": ("x", "z"), "a": ("x", "biased"), "b": ("other", "z")}
    assert loose({"p": "a", "t": "a+b", "u": "a+b", "z": "b"}, FUSED, calls, ["biased", "other"]) == []


BESIDE = "g (float[2] x, float[2] w) => (float[2] z) { p = Neg(x) s = Shape(x) y = Mul(w, s) z = Relu(y) }"


@pytest.mark.parametrize("given", ["x", "x s"], ids=["nothing", "its sizes alone"])
def test_call_that_a_fused_node_takes_nothing_of_is_loose(given: str) -> None:
    calls = {"/": ("x w", "z"), "a": (given, "biased"), "b": ("w", "z")}
    tags = {"p": "a", "s": "/", "y": "a+b", "z": "b"}
    assert loose(tags, BESIDE, calls, ["biased"]) == [("y", "a")]
    # The node is all that is left of the call: a bias that went into it.
    assert loose({**tags, "p": "/"}, BESIDE, calls, ["biased"]) == []


def test_call_is_not_loose_behind_its_callers_own_work() -> None:
    # `a` pads `x` for `a.in`; both went into the fused node `y`, with `b` behind.
    text = "g (float[2] x, float[2] w) => (float[2] z) { c = Cast<to = 1>(w) y = Add(x, c) z = Relu(y) }"
    calls = {"/": ("x", "z"), "a": ("x", "z"), "a.in": ("padded", "h"), "b": ("h", "y")}
    tags = {"c": "a.in+b", "y": "a+a.in+b", "z": "a"}
    assert loose(tags, text, calls, ["padded", "h"]) == []
    assert loose({**tags, "y": "a.in+b", "z": "b"}, text, calls, ["padded", "h"]) == [("y", "a.in")]


def test_call_that_returned_another_shape_is_not_loose() -> None:
    calls = {"/": ("x", "z"), "a": ("x", "u"), "b": ("u", "z")}
    runs = runs_of(FUSED, {"p": "a", "t": "a+b", "u": "b", "z": "b"}, calls)
    assert [each.call for each in loose_owners(runs)] == ["a"]
    assert list(loose_owners(replace(runs, rearranged={"t": runs.candidates["u"]}))) == []


def test_giver_that_the_graph_lacks_makes_no_owner_loose() -> None:
    text = "g (float[2] x, float[2] w) => (float[2] z) { p = Neg(x) t = Add(p, w) u = Exp(t) z = Relu(u) }"
    calls = {"/": ("x", "z", "p"), "a": ("x", "biased"), "b": ("biased", "u")}
    runs = runs_of(text, {"p": "a", "t": "a+b", "u": "b", "z": "/"}, calls, ["biased"])
    extra = EagerCall(Call("a.extra", 0, "m.E", "a"), 0, False, {}, dict.fromkeys(runs.numbers("p"), ""), frozenset())
    assert list(loose_owners(replace(runs, calls={**runs.calls, "a.extra": extra}))) == []


def test_pairs_count_each_owner_of_each_node() -> None:
    assert pairs(runs_of(CHAIN, {"t": "a b", "h": "a", "z": "b"}, CALLS)) == 4
