"""Matches values of a graph with the arguments and the result of a module call, by their elements.

example inputs    state_0 and state_1 equal the arguments hidden and memory, all zeros
other inputs      state_0 equals memory, state_1 equals hidden
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx_ir as ir

    from pytest_hierexport._proof.both_runs import BothRuns

Place = tuple[str, str]
"""`input` or `output`, and the place among the arguments or in the result."""


@dataclass(frozen=True)
class Match:
    """The arguments, or the parts of the result, that equal a value of the graph."""

    places: tuple[Place, ...]
    contents: frozenset[bytes]
    """The digests of their elements."""
    constant: bool
    """Whether all elements are equal, so that many values would match."""


Matches = Mapping["ir.Value", Match]


def find_matches(runs: BothRuns, call: str, values: Mapping[str, Sequence[ir.Value]]) -> dict[ir.Value, Match]:
    """Return the matches of inputs and outputs of a call; none for a value that equals nothing there."""
    eager = runs.calls.get(call)
    if eager is None:
        return {}
    places = {"input": eager.places, "output": eager.returned_places}
    found: dict[ir.Value, Match] = {}
    for kind, listed in values.items():
        for value in listed:
            numbers = frozenset(runs.numbers(str(value.name)))
            equal = {place: own & numbers for place, own in places[kind].items() if own & numbers}
            if equal:
                prints = [runs.values[number] for number in frozenset().union(*equal.values())]
                contents = frozenset(each.digest() for each in prints)
                constant = any(each.constant for each in prints)
                found[value] = Match(tuple((kind, place) for place in equal), contents, constant)
    return found


def is_certain(value: ir.Value, matches: Matches) -> bool:
    """Whether a value matches one place, which no other value matches, with elements that are not all equal."""
    return _is_only(value, matches) and not matches[value].constant


def certain(first: Matches, second: Matches | None) -> dict[ir.Value, Match]:
    """Return the matches that are certain by the runs on the example's inputs and on others, if it runs on these."""
    if second is None:
        return {value: match for value, match in first.items() if _is_only(value, first)}
    both: dict[ir.Value, Match] = {}
    for value, match in first.items():
        again = second[value].places if value in second else ()
        places = tuple(place for place in match.places if place in again or is_certain(value, first))
        if places:
            both[value] = replace(match, places=places)

    def is_equal(value: ir.Value) -> bool:
        """Whether a value equals all its places on both inputs, which differ, and no other one needs one of them."""
        sharing = [match.places for match in both.values() if not set(match.places).isdisjoint(both[value].places)]
        is_clear = len(sharing) == 1 or all(len(places) == 1 for places in sharing)
        return is_clear and value in second and first[value].contents.isdisjoint(second[value].contents)

    return {value: match for value, match in both.items() if _is_only(value, both) or is_equal(value)}


def _is_only(value: ir.Value, matches: Matches) -> bool:
    places = matches[value].places
    others = (match.places for other, match in matches.items() if other is not value)
    return len(places) == 1 and not any(places[0] in other for other in others)
