"""Holds the values that were compared, before the errors that calls add are known.

The outputs of a graph are compared with those of the reference, too: by name, else by place, and never by nearness.
Example: `other` lacks the last layer, so its output is the right result of another call.

    reference                         other                             own pair    outputs
    h = Add(x, a)  layer.0            h = Add(x, a)  layer.0, output    h, h        y, h: the root's result parts
    y = Add(h, b)  layer.1, output

The value `h` equals its counterpart and does not part; it is no right output for that. This is told of the root where
the reference is the model, and of `layer.1` where it is a graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from tempfile import TemporaryFile

import numpy as np

from pytest_hierexport._calls.hierarchy import ROOT
from pytest_hierexport._files.temporary import temporary_home
from pytest_hierexport._grouping import grouped
from pytest_hierexport._proof.session import BUDGET
from pytest_hierexport._proof.tolerance import Array
from pytest_hierexport._tools.divergence.boundaries import Boundaries, Boundary
from pytest_hierexport._tools.divergence.pairs import Key, Pair
from pytest_hierexport._tools.divergence.results import ValueGap


class Arrays(dict[Key, Array]):
    """Tensors by key; those beyond a budget of bytes are in files, which are mapped when read."""

    def __init__(self, budget: int = BUDGET) -> None:
        """Hold nothing yet."""
        super().__init__()
        self._left = budget

    def add(self, key: Key, array: Array) -> None:
        """Keep a copy of a tensor, unless the key has one."""
        if key in self:
            return
        self._left -= array.nbytes
        if self._left >= 0 or not array.size:
            self[key] = np.array(array)
            return
        # The file has no name; what is mapped stays until the tensor goes.
        with TemporaryFile(dir=temporary_home()) as file:
            self[key] = np.memmap(file, array.dtype, "w+", shape=array.shape or (1,)).reshape(array.shape)
        self[key][...] = array


@dataclass(frozen=True)
class Row:
    """A value that leaves the own nodes of some calls, compared with the reference."""

    value: ValueGap
    calls: tuple[str, ...]
    """The calls to which the value counts."""
    pair: Pair | None
    """Its pair with a value of the reference; None where none corresponds to it."""


@dataclass(frozen=True)
class Compared:
    """The compared values of a graph."""

    boundaries: Boundaries
    """The graph whose tags tell the calls."""
    rows: Sequence[Row]
    arrays: Arrays
    """The values of the reference."""

    @cached_property
    def by_call(self) -> Mapping[str, Sequence[Row]]:
        """The values that count to each call."""
        found: dict[str, list[Row]] = {}
        for row in self.rows:
            for call in row.calls:
                found.setdefault(call, []).append(row)
        return found


def row_of(
    boundary: Boundary, pair: Pair | None, other: str | None = None, calls: tuple[str, ...] = (), *, reason: str = ""
) -> Row:
    """Return the row of a value with what it is compared with, or with the reason why it has no pair.

    It counts to `calls`, or, where there are none, to all calls whose own node its producer is.
    """
    gap = None if pair is None else pair.gap
    value = ValueGap(boundary.name, boundary.position, other, gap, reason=reason, is_output=boundary.is_output)
    return Row(value, calls or boundary.calls, pair)


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
    rows = _with_includes(boundaries, [row(each, pairs.get(name)) for name, each in boundaries.values.items()])
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


def _with_includes(boundaries: Boundaries, rows: Sequence[Row]) -> list[Row]:
    """Add to each known value the calls whose errors it alone shows: no other known value belongs to them.

    These are the calls of the unknown values from which it is computed, back to other known ones, and the calls of the
    nodes between, where no value of the call is known: all of its values leave through a node that it shares.
    """
    graph = boundaries.graph
    unknown = {row.value.name: row for row in rows if row.pair is None}
    known = {row.value.name for row in rows} - unknown.keys()
    telling = {call for row in rows if row.pair is not None for call in row.calls}

    def included(row: Row) -> Iterator[str]:
        for node in (graph.nodes[i] for i in graph.upstream([row.value.name], known)):
            yield from (call for call in boundaries.computing(node) if call not in telling)
            for value in node.inputs:
                yield from unknown[value].calls if value in unknown else ()

    def complete(row: Row) -> Row:
        includes = tuple(dict.fromkeys(included(row)))
        return replace(row, value=replace(row.value, includes=includes))

    return [complete(row) if row.pair else row for row in rows]
