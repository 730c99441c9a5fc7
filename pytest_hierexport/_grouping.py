"""Groups parts by a key."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import TypeVar

PartT = TypeVar("PartT")
KeyT = TypeVar("KeyT")


def by_key(pairs: Iterable[tuple[KeyT, PartT]]) -> dict[KeyT, list[PartT]]:
    """Return the parts of each key, in order."""
    groups: dict[KeyT, list[PartT]] = defaultdict(list)
    for key, part in pairs:
        groups[key].append(part)
    return dict(groups)


def grouped(parts: Iterable[PartT], group: Callable[[PartT], KeyT]) -> dict[KeyT, list[PartT]]:
    """Return the parts by what `group` returns for them, in order."""
    return by_key((group(part), part) for part in parts)
