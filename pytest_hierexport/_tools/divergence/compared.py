"""Holds the values that were compared, before the errors that calls add are known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from pytest_hierexport._proof.session import BUDGET
from pytest_hierexport._proof.tolerance import Array
from pytest_hierexport._tools.divergence.boundaries import Boundaries, Boundary
from pytest_hierexport._tools.divergence.pairs import Key, Pair
from pytest_hierexport._tools.divergence.results import ValueGap


class Arrays(dict[Key, Array]):
    """Tensors by key; those beyond a budget of bytes are in files of a folder, which are mapped when read."""

    def __init__(self, folder: Path, budget: int = BUDGET) -> None:
        """Hold nothing yet, and make the folder where there is none."""
        super().__init__()
        folder.mkdir(exist_ok=True)
        self._folder, self._left = folder, budget

    def add(self, key: Key, array: Array) -> None:
        """Keep a copy of a tensor, unless the key has one."""
        if key in self:
            return
        self._left -= array.nbytes
        if self._left >= 0 or not array.size:
            self[key] = np.array(array)
            return
        path = self._folder / str(len(self))
        held = np.memmap(path, array.dtype, "w+", shape=array.shape or (1,))
        held[...] = array
        self[key] = np.memmap(path, array.dtype, "r", shape=array.shape or (1,)).reshape(array.shape)


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


def known_row(boundary: Boundary, pair: Pair, other: str | None, calls: tuple[str, ...] = ()) -> Row:
    """Return the row of a value with what it is compared with.

    It counts to `calls`, or, where there are none, to all calls whose own node its producer is.
    """
    value = ValueGap(boundary.name, boundary.position, other, pair.gap, is_output=boundary.is_output)
    return Row(value, calls or boundary.calls, pair)


def unknown_row(boundary: Boundary, reason: str) -> Row:
    """Return the row of a value without a pair."""
    value = ValueGap(boundary.name, boundary.position, reason=reason, is_output=boundary.is_output)
    return Row(value, boundary.calls, None)


def with_includes(boundaries: Boundaries, rows: Sequence[Row]) -> list[Row]:
    """Add to each known value the other calls whose errors it shows: those of which it alone tells anything.

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
