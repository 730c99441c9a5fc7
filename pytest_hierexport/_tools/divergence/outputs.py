"""Compares the outputs of a graph with those of the reference: by name, else by place, and never by nearness.

Example: `other` lacks the last layer, so its output is the right result of another call.

    reference                         other                             own pair    outputs
    h = Add(x, a)  layer.0            h = Add(x, a)  layer.0, output    h, h        y, h: the root's result parts
    y = Add(h, b)  layer.1, output

The value `h` equals its counterpart and does not part; it is no right output for that. This is told of the root where
the reference is the model, and of `layer.1` where it is a graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from pytest_hierexport._calls.hierarchy import ROOT
from pytest_hierexport._tools.divergence.boundaries import Boundaries
from pytest_hierexport._tools.divergence.compared import Row
from pytest_hierexport._tools.divergence.pairs import Pair
from pytest_hierexport._tools.divergence.results import ValueGap


def matched_outputs(reference: Sequence[str], other: Sequence[str]) -> list[tuple[str, str]]:
    """Return the outputs of two graphs that correspond: those of one name, and the others in order, where as many."""
    known, given = dict.fromkeys(reference), dict.fromkeys(other)
    same = [(name, name) for name in known if name in given]
    lost = [name for name in reference if name not in given]
    new = [name for name in other if name not in known]
    return [*same, *zip(lost, new, strict=True)] if len(lost) == len(new) else same


def worst_by_name(pairs: Iterable[tuple[str, Pair]]) -> dict[str, Pair]:
    """Return the pair of each output; of one that is stated several times, that which lies farthest apart."""
    found: dict[str, Pair] = {}
    for name, pair in pairs:
        if name not in found or pair.gap.distance > found[name].gap.distance:
            found[name] = pair
    return found


def with_outputs(boundaries: Boundaries, found: Mapping[str, Pair], outputs: Mapping[str, Pair]) -> dict[str, Pair]:
    """Return the pair of each value; that of an output as such, unless the value is another call's that is right.

    Args:
        boundaries: The values of the graph whose tags tell the calls.
        found: The pairs of its values, by name.
        outputs: The pairs of its outputs with those of the reference, by name.
    """

    def is_right(name: str) -> bool:
        own, boundary = found.get(name), boundaries.values.get(name)
        return own is not None and not own.gap.parted and boundary is not None and ROOT not in boundary.calls

    return {**found, **{name: pair for name, pair in outputs.items() if not is_right(name)}}


def rows_of_root(
    boundaries: Boundaries, pairs: Mapping[str, Pair], outputs: Mapping[str, Pair], lacking: str
) -> Iterator[Row]:
    """Yield the outputs that no other row compares: right results in the wrong place, inputs and constants.

    Args:
        boundaries: The values of the graph whose tags tell the calls.
        pairs: The pairs of its values, by name.
        outputs: The pairs of its outputs with those of the reference, by name.
        lacking: Why an output has no such pair.
    """
    graph = boundaries.graph
    for name in dict.fromkeys(str(value.name) for value in graph.model.graph.outputs):
        pair, position = outputs.get(name), graph.producer.get(name, len(graph.nodes))
        if pair is None and name not in boundaries.values:
            yield Row(ValueGap(name, position, reason=lacking, is_output=True), (ROOT,), None)
        if pair is not None and (name not in boundaries.values or (pairs[name] is not pair and pair.gap.parted)):
            other = pair.value if pair.key == name else str(pair.key)
            yield Row(ValueGap(name, position, other, pair.gap, is_output=True), (ROOT,), pair)
