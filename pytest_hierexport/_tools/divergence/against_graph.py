"""Compares the values of a graph with those of a reference graph."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pytest_hierexport._proof.tolerance import Array
from pytest_hierexport._tools.divergence.arrays import Arrays
from pytest_hierexport._tools.divergence.boundaries import Boundaries, Boundary
from pytest_hierexport._tools.divergence.compared import Compared, Row, with_includes
from pytest_hierexport._tools.divergence.pairs import (
    Matching,
    Measure,
    Pair,
    nearest_pair,
    without_false,
    without_rivals,
)
from pytest_hierexport._tools.divergence.sides import Side


def compare_with_graph(
    reference: Side, other: Side, spill: Path, depth: int | None, measure: Measure, *, matching: Matching
) -> Compared[str]:
    """Compare each value that leaves the own nodes of a call of the reference.

    Values are matched as carry matches both graphs. What that leaves open is matched by tags, where the other graph has
    some: with the nearest value that leaves the nodes of the same call there.

    Args:
        reference: The graph whose calls count.
        other: The graph to compare; its attribution may be empty.
        spill: A folder for tensors that exceed memory's bound.
        depth: The deepest level of calls.
        measure: Measures how far two tensors lie apart.
        matching: Matches the values of both graphs.
    """
    wanted = Boundaries(reference.graph, depth).values
    arrays = Arrays[str](spill)
    for name, array in reference.fetch(wanted):
        arrays.add(name, array)
    known: dict[str, list[str]] = {}
    for name, value in matching.same_values(reference.graph.model, other.graph.model, wanted).items():
        known.setdefault(value, []).append(name)
    lost = wanted.keys() - {name for names in known.values() for name in names}
    by_tag = _candidates([wanted[name] for name in lost], Boundaries(other.graph, depth).values.values(), known)
    pairs: list[Pair[str]] = []
    guesses: list[Pair[str]] = []
    sizes: dict[str, int] = {}
    for value, array in other.fetch([*known, *by_tag]):
        sizes[value] = array.size
        pairs += [_pair(value, array, name, arrays, measure) for name in known.get(value, ()) if name in arrays]
        if value in by_tag:
            guess = nearest_pair(value, array, by_tag[value], arrays, measure)
            guesses += [guess] if guess else []
    # Elements in another layout are another value: an optimizer moved a Transpose.
    pairs = [pair for pair in pairs if pair.fits or arrays[pair.key].size != sizes[pair.value]]
    pairs = without_false(reference.graph.model, [*without_rivals(guesses), *pairs])
    found = {pair.key: pair for pair in pairs}
    rows = [_row(boundary, found.get(name), arrays) for name, boundary in wanted.items()]
    return Compared(reference.graph, depth, with_includes(reference.graph, rows), arrays)


def _candidates(lost: list[Boundary], offered: Iterable[Boundary], known: Iterable[str]) -> dict[str, list[str]]:
    """Return the values of the other graph without a partner, each with the lost ones of the calls that it leaves."""
    taken = set(known)
    found = {
        each.name: [name.name for name in lost if not set(each.calls).isdisjoint(name.calls)]
        for each in offered
        if each.name not in taken
    }
    return {value: names for value, names in found.items() if names}


def _pair(value: str, array: Array, name: str, arrays: Arrays[str], measure: Measure) -> Pair[str]:
    return Pair(value, name, measure(value, arrays[name], array), array.dtype.name)


def _row(boundary: Boundary, pair: Pair[str] | None, arrays: Arrays[str]) -> Row[str]:
    if pair is not None:
        return Row(boundary, boundary.calls, pair, pair.value)
    known = boundary.name in arrays
    return Row(boundary, boundary.calls, None, None, "the other graph lacks it" if known else "it is no tensor")
