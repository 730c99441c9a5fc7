"""Groups parts by a key."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import TypeVar

PartT = TypeVar("PartT")
KeyT = TypeVar("KeyT")


def grouped(parts: Iterable[PartT], group: Callable[[PartT], KeyT]) -> dict[KeyT, list[PartT]]:
    """Return the parts by what `group` returns for them, in order."""
    groups: dict[KeyT, list[PartT]] = defaultdict(list)
    for part in parts:
        groups[group(part)].append(part)
    return groups
