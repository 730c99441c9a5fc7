"""Matching: the calls of an eager run by their names in the graph, where branches and loops run or not."""

from __future__ import annotations

from typing import cast

from pytest_hierexport._calls.hierarchy import Call, Hierarchy
from pytest_hierexport._calls.names import split_call_name
from pytest_hierexport._proof.call_values import EagerCall
from pytest_hierexport._proof.matching import match
from pytest_hierexport._proof.owners import Graph

# `a` is called, then by a branch, then once more.
HIERARCHY = Hierarchy(
    [Call("", 0, "R", None), Call("a", 0, "A", ""), Call("a", 1, "A", ""), Call("a", 2, "A", ""), Call("b", 0, "B", "")]
)


class Bodies:
    """The part of a graph that matching reads."""

    def __init__(self, in_bodies: str = "", entered: str = "") -> None:
        self.has_loops = in_bodies != entered
        self.hierarchy = HIERARCHY
        self.in_bodies = {name: name in entered.split() for name in in_bodies.split()}


def matched(graph: Bodies, *names: str) -> dict[str, str]:
    """Match calls that began in this order; those with an asterisk were made in a body."""
    calls = []
    for start, name in enumerate(names):
        path, index = split_call_name(name.rstrip("*"))
        call = Call(path, index, "A", None if not path else "")
        calls.append(EagerCall(call, start, name.endswith("*"), {}, {}, frozenset()))
    found = match(cast("Graph", graph), list(reversed(calls)))
    return {seen.call.name: name for name, seen in found.items()}


TAKEN = Bodies("a@1", "a@1")


def test_without_bodies_equal_names_are_equal_calls() -> None:
    assert matched(Bodies(), "", "a", "a@1") == {"": "", "a": "a", "a@1": "a@1"}


def test_without_bodies_a_call_may_be_made_by_another() -> None:
    inner = EagerCall(Call("a", 0, "A", "b"), 0, False, {}, {}, frozenset())
    assert match(cast("Graph", Bodies()), [inner]) == {"a": inner}


def test_call_through_an_unknown_call_of_a_branch_is_matched() -> None:
    calls = [Call("", 0, "R", None), Call("b", 0, "B", ""), Call("a", 0, "A", "b")]
    seen = [EagerCall(call, start, start > 0, {}, {}, frozenset()) for start, call in enumerate(calls)]
    assert list(match(cast("Graph", TAKEN), seen)) == ["", "b@1", "a@1"]


def test_calls_of_taken_branch_and_others_are_matched_apart() -> None:
    assert matched(TAKEN, "", "a", "a@1*", "a@2") == {"": "", "a": "a", "a@1": "a@1", "a@2": "a@2"}


def test_call_after_branch_that_was_not_taken_keeps_its_place() -> None:
    assert matched(Bodies("a@1"), "", "a", "a@1") == {"": "", "a": "a", "a@1": "a@2"}


def test_iterations_of_a_loop_are_left_out() -> None:
    found = matched(Bodies("a@1"), "", "a", "a@1*", "a@2*", "a@3*", "a@4")
    assert found == {"": "", "a": "a", "a@4": "a@2"}


def test_unknown_call_is_left_out_only_inside_a_loop() -> None:
    assert matched(TAKEN, "", "b*") == {"": "", "b": "b@1"}
    assert matched(Bodies("a@1"), "", "b", "b@1", "b@2*") == {"": "", "b": "b", "b@1": "b@1"}


def test_call_unknown_to_the_graph_gets_an_unused_name() -> None:
    found = matched(TAKEN, "", "b", "b@1", "a")
    assert found["b@1"] == "b@1"
    assert found["a"] == "a"
