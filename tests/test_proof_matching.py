"""Matching: which call of an eager run is which of the graph's, where bodies run more or less often than they stand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from pytest_hierexport._calls.hierarchy import Call, Hierarchy, split_call_name
from pytest_hierexport._proof.boundary import WHOLE, Graph, Turn
from pytest_hierexport._proof.eager import EagerCall
from pytest_hierexport._proof.matching import match

# `a` is called, then by a loop, then once more.
HIERARCHY = Hierarchy(
    [Call("", 0, "R", None), Call("a", 0, "A", ""), Call("a", 1, "A", ""), Call("a", 2, "A", ""), Call("b", 0, "B", "")]
)


class Bodies:
    """What matching asks of a graph."""

    def __init__(self, *inner: Turn) -> None:
        self.hierarchy = HIERARCHY
        self.in_bodies = frozenset(turn.call for turn in inner)
        outer = [Turn(name) for name in HIERARCHY if name and name not in self.in_bodies]
        self.above = dict.fromkeys([*outer, *inner], WHOLE)


def matched(graph: Bodies, names: Sequence[str], *, cut: bool = False) -> dict[str, Turn]:
    """Match calls that began in this order; those with an asterisk were made in a body."""
    calls = []
    for start, name in enumerate(names):
        path, index = split_call_name(name.rstrip("*"))
        call = Call(path, index, "A", None if not path else "")
        calls.append(EagerCall(call, start, name.endswith("*"), {}, {}, frozenset()))
    found = match(cast("Graph", graph), list(reversed(calls)), cut=cut)
    return {seen.call.name: turn for turn, seen in found.items()}


def in_turn(name: str, iteration: int) -> Turn:
    return Turn(name, (("loop", iteration),))


LOOP = Bodies(in_turn("a@1", 0), in_turn("a@1", 1))


def test_without_bodies_equal_names_are_equal_calls() -> None:
    assert matched(Bodies(), ["", "a", "a@1"]) == {"": WHOLE, "a": Turn("a"), "a@1": Turn("a@1")}


def test_the_runs_of_a_loop_take_its_turns_and_leave_the_names_of_others_alone() -> None:
    found = matched(LOOP, ["", "a", "a@1*", "a@2*", "a@3"])
    assert found == {
        "": WHOLE,
        "a": Turn("a"),
        "a@1": in_turn("a@1", 0),
        "a@2": in_turn("a@1", 1),
        "a@3": Turn("a@2"),
    }


def test_a_call_in_a_body_that_the_graph_does_not_have_keeps_a_name_of_its_own() -> None:
    found = matched(LOOP, ["", "a", "a@1*", "a@2*", "a@3*", "a@4"])
    assert found["a@4"] == Turn("a@2")
    assert found["a@3"] == Turn("a@3")


def test_after_a_loop_that_was_left_early_it_is_left_out() -> None:
    assert "a@3" not in matched(LOOP, ["", "a", "a@1*", "a@2*", "a@3*"], cut=True)


def test_a_call_that_the_graph_does_not_know_never_takes_the_name_of_one_that_it_does() -> None:
    found = matched(LOOP, ["", "b", "b@1", "a"])
    assert found["b@1"] == Turn("b@1")
    assert found["a"] == Turn("a")
