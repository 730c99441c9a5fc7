"""Compares the values of a graph with those of a reference graph.

reference                  other                          pair
h = MatMul(x, w)   proj    h_quant = MatMulInteger(…)     h, h_quant    both leave `proj` alone
y = Relu(h)        act     y = Relu(h_dequant)            y, y          matched by carry
z = Relu(y)        act     z = Identity(y)                z, z_clip     the nearer of `z` and what it alone became
                           z_clip = Clip(z, 0, 9)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from itertools import takewhile
from typing import TYPE_CHECKING

import numpy as np

from pytest_hierexport._grouping import grouped
from pytest_hierexport._proof.tolerance import Array
from pytest_hierexport._tools.divergence.boundaries import Boundaries, Boundary
from pytest_hierexport._tools.divergence.compared import Arrays, Compared, Row, compared_rows, row_of, worst_by_name
from pytest_hierexport._tools.divergence.gaps import gap
from pytest_hierexport._tools.divergence.pairs import (
    Matched,
    Pair,
    chosen_pairs,
    measured_pair,
    possible_pairs,
    same_values,
    without_false,
)
from pytest_hierexport._tools.divergence.sides import Side, matched_names

if TYPE_CHECKING:
    from pytest_hierexport._proof.owners import Graph

_LACKING = "the other graph lacks it"


def compare_with_graph(reference: Side, other: Side, depth: int | None, matched: Matched) -> Compared:
    """Compare each value that leaves the own nodes of a call of the reference.

    Values are matched as carry matches both graphs. A value that this leaves without a partner is compared with the
    nearest value that leaves the nodes of the same call in the other graph, where that has tags. The outputs are
    compared with those of the other graph, too.

    The calls are those of the reference, down to `depth`. `matched` has what was found of both graphs on other inputs.
    """
    boundaries = Boundaries(reference.graph, depth)
    arrays = Arrays()
    for name, array in reference.fetch([*boundaries.values, *reference.graph.outputs]):
        arrays.add(name, array)
    all_same = same_values(reference.graph.model, other.graph.model, matched)
    same = {name: all_same[name] for name in boundaries.values if name in all_same}
    known = grouped(same, same.__getitem__)
    results = grouped(matched_names(reference.graph.outputs, other.graph.outputs), lambda pair: pair[1])
    forms = _forms(reference.graph, other.graph, same)
    by_tag = _candidates(boundaries, Boundaries(other.graph, depth), {**forms, **known}, {*all_same.values()})
    pairs: list[Pair] = []
    outputs: list[Pair] = []
    guesses: list[list[Pair]] = []
    for value, array in other.fetch([*known, *forms, *by_tag, *results]):
        names = [name for name in known.get(value, ()) if name in arrays and _is_same_layout(arrays[name], array)]
        names += [name for name in forms.get(value, ()) if name in arrays and _is_same_kind(arrays[name], array)]
        pairs += [measured_pair(value, array, name, arrays, other) for name in names]
        names = [name for name, _ in results.get(value, ()) if name in arrays]
        outputs += [measured_pair(value, array, name, arrays, other) for name in names]
        names = [name for name in by_tag.get(value, ()) if name in arrays and not _is_rearranged(arrays[name], array)]
        guesses.append(possible_pairs(value, array, dict.fromkeys(names, 1), arrays, other))
    pairs = without_false(reference.graph, [*chosen_pairs(guesses), *_nearest(pairs)])
    compared = worst_by_name((str(pair.key), pair) for pair in outputs)

    def row(boundary: Boundary, pair: Pair | None) -> Row:
        if pair is not None:
            return row_of(boundary, pair, pair.value)
        return row_of(boundary, None, reason=_LACKING if boundary.name in arrays else "it is no tensor")

    found = {str(pair.key): pair for pair in pairs}
    return Compared(boundaries, compared_rows(boundaries, found, compared, row, _LACKING), arrays)


def _forms(reference: Graph, other: Graph, same: Mapping[str, str]) -> dict[str, list[str]]:
    """Map values that the other graph computes from one value alone to that value's names in the reference.

    They are forms of a value that another operator computes now. A quantizer drops a `Relu` where the range of its
    integers clips, and gives the name to the value before it.
    """
    matched = {*same.values()}
    found: dict[str, list[str]] = {}
    for name, other_name in same.items():
        if _operator(other, other_name) not in {None, _operator(reference, name)}:
            for form in takewhile(lambda form: form not in matched, _made_of(other, other_name)):
                found.setdefault(form, []).append(name)
    return found


def _operator(graph: Graph, value: str) -> str | None:
    """Return the operator that computes a value; None for an input or a stored value."""
    return graph.nodes[graph.producer[value]].operator if value in graph.producer else None


def _made_of(graph: Graph, value: str) -> Iterator[str]:
    """Yield the values that are computed from a value and constants, while nothing else takes them."""
    while len(consumers := graph.consumers.get(value, [])) == 1 and value not in graph.outputs:
        node = graph.nodes[consumers[0]]
        if len(node.outputs) != 1 or not {*node.inputs} - {value} <= graph.constants:
            break
        value = node.outputs[0]
        yield value


def _nearest(pairs: list[Pair]) -> list[Pair]:
    """Return of the pairs of each value of the reference the nearest, of equal ones the first."""
    return [max(same, key=lambda pair: pair.gap.sqnr) for same in grouped(pairs, lambda pair: pair.key).values()]


def _is_same_kind(reference: Array, other: Array) -> bool:
    return reference.shape == other.shape and reference.dtype == other.dtype


def _is_same_layout(reference: Array, other: Array) -> bool:
    """Whether tensors can be compared as one value.

    With as many elements in another shape they are other values: an optimizer moved a Transpose. With more or fewer
    elements, the value itself has changed its shape, and parts by that.
    """
    return reference.shape == other.shape or reference.size != other.size


def _is_rearranged(reference: Array, other: Array) -> bool:
    """Whether a tensor has the numbers of another one in another order: an optimizer changed the layout of channels."""
    if not _is_same_kind(reference, other) or reference.dtype.kind != "f":
        return False
    return gap(reference, other).parted and not gap(np.sort(reference, axis=None), np.sort(other, axis=None)).parted


def _candidates(
    reference: Boundaries, other: Boundaries, known: dict[str, list[str]], same: AbstractSet[str]
) -> dict[str, list[str]]:
    """Return the values of the other graph without a partner, each with the lost ones of the calls that it leaves.

    One of `same` has a partner that leaves no call: the MatMul of which a fusion took the bias away.
    """
    matched = {name for names in known.values() for name in names}
    lost = [each for name, each in reference.values.items() if name not in matched]
    found = {
        value: [each.name for each in lost if not set(each.calls).isdisjoint(boundary.calls)]
        for value, boundary in other.values.items()
        if value not in known and value not in same
    }
    return {value: names for value, names in found.items() if names}
