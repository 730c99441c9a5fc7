"""Compares the outputs of a graph with those of the reference: by name, else by place, and never by nearness.

Example: `other` lacks the last layer, so its output is the right result of another call.

    reference                         other                             own pair    outputs
    h = Add(x, a)  layer.0            h = Add(x, a)  layer.0, output    h, h        y, h: the root's result parts
    y = Add(h, b)  layer.1, output

The value `h` equals its counterpart and does not part; it is no right output for that. This is told of the root where
the reference is the model, and of `layer.1` where it is a graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from pytest_hierexport._calls.hierarchy import ROOT
from pytest_hierexport._grouping import grouped
from pytest_hierexport._tools.divergence.boundaries import Boundaries, Boundary
from pytest_hierexport._tools.divergence.compared import Row, with_includes
from pytest_hierexport._tools.divergence.pairs import Pair
from pytest_hierexport._tools.divergence.results import ValueGap


def worst_by_name(pairs: Iterable[tuple[str, Pair]]) -> dict[str, Pair]:
    """Return the pair of each output; of one that is stated several times, that which lies farthest apart."""
    same = grouped(pairs, lambda each: each[0])
    return {name: max((pair for _, pair in each), key=lambda pair: pair.gap.distance) for name, each in same.items()}


def compared_rows(
    boundaries: Boundaries,
    found: Mapping[str, Pair],
    outputs: Mapping[str, Pair],
    row: Callable[[Boundary, Pair | None], Row],
    lacking: str,
) -> list[Row]:
    """Return the rows of the values that leave a call, and of the outputs that none of these compares.

    The pair of an output as such counts, unless the value is another call's that is right. A row of its own has an
    output that is an input, a constant, or a right result in the wrong place.

    Args:
        boundaries: The values of the graph whose tags tell the calls.
        found: The pairs of its values, by name.
        outputs: The pairs of its outputs with those of the reference, by name.
        row: Returns the row of a value with its pair.
        lacking: Why an output has no such pair.
    """
    graph, pairs = boundaries.graph, {**found}
    for name, pair in outputs.items():
        own, boundary = found.get(name), boundaries.values.get(name)
        if own is None or own.gap.parted or boundary is None or ROOT in boundary.calls:
            pairs[name] = pair
    rows = with_includes(boundaries, [row(each, pairs.get(name)) for name, each in boundaries.values.items()])
    for name in dict.fromkeys(graph.outputs):
        output, position = outputs.get(name), graph.producer.get(name, len(graph.nodes))
        if output is None and name not in boundaries.values:
            rows.append(Row(ValueGap(name, position, reason=lacking, is_output=True), (ROOT,), None))
        elif output is not None and (
            name not in boundaries.values or (pairs[name] is not output and output.gap.parted)
        ):
            other = output.value if output.key == name else str(output.key)
            rows.append(Row(ValueGap(name, position, other, output.gap, is_output=True), (ROOT,), output))
    return rows
