"""Holds the values that were compared, before the added errors are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from pytest_hierexport._proof.owners import Graph
from pytest_hierexport._tools.divergence.arrays import Arrays
from pytest_hierexport._tools.divergence.boundaries import Boundary
from pytest_hierexport._tools.divergence.pairs import Pair

__all__ = ["Compared", "Row"]

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


@dataclass(frozen=True)
class Compared(Generic[KeyT]):
    """A comparison."""

    graph: Graph
    """The graph whose tags tell the calls."""
    depth: int | None
    rows: Sequence[Row[KeyT]]
    arrays: Arrays[KeyT]
    """The values of the reference."""
