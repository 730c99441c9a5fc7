"""Compares the values of a graph with those of a reference graph.

reference                  other                          pair
h = MatMul(x, w)   proj    h_quant = MatMulInteger(…)     h, h_quant    both leave `proj` alone
y = Relu(h)        act     y = Relu(h_dequant)            y, y          matched by carry
"""

from __future__ import annotations

from pathlib import Path

from pytest_hierexport._tools.divergence.boundaries import Boundaries, Boundary
from pytest_hierexport._tools.divergence.compared import Arrays, Compared, Row, with_includes
from pytest_hierexport._tools.divergence.pairs import Matching, Pair, nearest_pair, without_false, without_rivals
from pytest_hierexport._tools.divergence.results import ValueGap
from pytest_hierexport._tools.divergence.sides import Side


def compare_with_graph(
    reference: Side, other: Side, depth: int | None, folder: Path, matching: Matching
) -> Compared[str]:
    """Compare each value that leaves the own nodes of a call of the reference.

    Values are matched as carry matches both graphs. A value that this leaves without a partner is compared with the
    nearest value that leaves the nodes of the same call in the other graph, where that has tags.

    Args:
        reference: The graph whose calls count.
        other: The graph to compare; its attribution may be empty.
        depth: The deepest level of calls.
        folder: A folder for tensors that exceed memory's bound.
        matching: Matches the values of both graphs.
    """
    boundaries = Boundaries(reference.graph, depth)
    arrays = Arrays[str](folder)
    for name, array in reference.fetch(boundaries.values):
        arrays.add(name, array)
    known: dict[str, list[str]] = {}
    for name, value in matching.same_values(reference.graph.model, other.graph.model, boundaries.values).items():
        known.setdefault(value, []).append(name)
    by_tag = _candidates(boundaries, Boundaries(other.graph, depth), known)
    pairs: list[Pair[str]] = []
    guesses: list[Pair[str]] = []
    for value, array in other.fetch([*known, *by_tag]):
        # With another number of elements, a changed shape parts. Elements in another layout are another value: an
        # optimizer moved a Transpose.
        pairs += [
            Pair(value, name, other.gap(value, arrays[name], array), array.dtype.name)
            for name in known.get(value, ())
            if name in arrays and (arrays[name].shape == array.shape or arrays[name].size != array.size)
        ]
        guess = nearest_pair(value, array, by_tag.get(value, ()), arrays, other)
        guesses += [guess] if guess else []
    pairs = without_false(reference.graph.model, [*without_rivals(guesses), *pairs])
    found = {pair.key: pair for pair in pairs}
    rows = [_row(boundary, found.get(name), arrays) for name, boundary in boundaries.values.items()]
    return Compared(boundaries, with_includes(reference.graph, rows), arrays)


def _candidates(reference: Boundaries, other: Boundaries, known: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return the values of the other graph without a partner, each with the lost ones of the calls that it leaves."""
    matched = {name for names in known.values() for name in names}
    lost = [each for name, each in reference.values.items() if name not in matched]
    found = {
        value: [each.name for each in lost if not set(each.calls).isdisjoint(boundary.calls)]
        for value, boundary in other.values.items()
        if value not in known
    }
    return {value: names for value, names in found.items() if names}


def _row(boundary: Boundary, pair: Pair[str] | None, arrays: Arrays[str]) -> Row[str]:
    reason = "the other graph lacks it" if boundary.name in arrays else "it is no tensor"
    value = ValueGap(boundary.name, boundary.position, reason=reason)
    if pair is not None:
        value = ValueGap(boundary.name, boundary.position, pair.value, pair.gap)
    return Row(value, boundary.calls, pair)
