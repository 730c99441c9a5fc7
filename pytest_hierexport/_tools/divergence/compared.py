"""Holds the values that were compared, before the added errors are known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from pytest_hierexport._proof.owners import Graph
from pytest_hierexport._tools.divergence.arrays import Arrays
from pytest_hierexport._tools.divergence.boundaries import Boundary
from pytest_hierexport._tools.divergence.pairs import Pair

KeyT = TypeVar("KeyT")


@dataclass(frozen=True)
class Row(Generic[KeyT]):
    """A value that leaves the own nodes of some calls."""

    boundary: Boundary
    calls: tuple[str, ...]
    """The calls to which the value counts."""
    pair: Pair[KeyT] | None
    """What it was compared with; None where nothing fits."""
    other: str | None
    """A name of what it was compared with."""
    reason: str = ""
    """Why nothing fits."""
    includes: tuple[str, ...] = ()
    """Other calls whose values, from which this one is computed, are unknown."""


def with_includes(graph: Graph, rows: Sequence[Row[KeyT]]) -> list[Row[KeyT]]:
    """Add to each value the calls of the unknown values between it and the known ones that it is computed from."""
    unknown = {row.boundary.name: row for row in rows if row.pair is None}
    known = {row.boundary.name for row in rows} - unknown.keys()

    def behind(row: Row[KeyT]) -> Iterator[str]:
        pending, seen = [row.boundary.position], set[int]()
        while unknown and pending:
            position = pending.pop()
            if position in seen:
                continue
            seen.add(position)
            for value in graph.nodes[position].inputs:
                yield from unknown[value].calls if value in unknown else ()
                pending += [graph.producer[value]] if value in graph.producer and value not in known else []

    return [replace(row, includes=tuple(dict.fromkeys(behind(row)))) if row.pair else row for row in rows]


@dataclass(frozen=True)
class Compared(Generic[KeyT]):
    """A comparison."""

    graph: Graph
    """The graph whose tags tell the calls."""
    depth: int | None
    rows: Sequence[Row[KeyT]]
    arrays: Arrays[KeyT]
    """The values of the reference."""
