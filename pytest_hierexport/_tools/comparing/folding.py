"""Folds equal differences of repeated layers into one line.

    + mul Mul: /Net/Layer.0
    + mul_1 Mul: /Net/Layer.1       + mul, mul_{1..11} Mul: /Net/Layer.{0..11}
    …
    + mul_11 Mul: /Net/Layer.11

Two differences are equal if they differ only in the numbers of names; nodes may have any names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pytest_hierexport._grouping import grouped

# The number of an item, of a call, or of a name that torch used before. A number within a word is none: `Conv1d`.
_RUNNING = re.compile(r"((?<=[._@])[0-9]{1,18}(?!\w))")
# The same with what stands before it. A figure is none: `0.5`, `axis 1`.
_NUMBER = re.compile(r"_[0-9]+(?!\w)|(?<=[^\W\d])(?:\.[0-9]+)+(?!\w)|@[0-9]+")
_MOST_NAMES = 3
_Parts: TypeAlias = "tuple[str, ...]"
"""A name, split before and after its numbers."""


@dataclass(frozen=True)
class ShownChange:
    """A difference, or several equal ones: its sign, names from the files, and a text about it."""

    sign: str
    name: str
    operator: str = ""
    tag: str = ""
    """Of a node; changes about others have neither operator nor tag, and once folded, no change has."""
    text: str = ""
    count: int = 1


def fold(changes: Iterable[ShownChange]) -> list[ShownChange]:
    """Return one change for each group of equal ones, in the order of the first ones, whose text it has."""

    def without_numbers(each: ShownChange) -> tuple[str, ...]:
        return each.sign, *(_NUMBER.sub("", part) for part in (each.operator or each.name, each.tag, each.text))

    return [_as_one(group) for group in grouped(changes, without_numbers).values()]


def _as_one(group: Sequence[ShownChange]) -> ShownChange:
    first, tags = group[0], some([each.tag for each in group if each.tag])
    names = " ".join(filter(None, (some([each.name for each in group]), first.operator)))
    return ShownChange(first.sign, names, text="; ".join(filter(None, (tags, first.text))), count=len(group))


def some(names: Iterable[str]) -> str:
    """Return the first names, their runs folded, and how many more there are."""
    runs = list(_runs(names).items())
    shown, more = runs[:_MOST_NAMES], sum(count for _, count in runs[_MOST_NAMES:])
    return ", ".join(name for name, _ in shown) + (f" and {more:,} more" if more else "")


def _runs(names: Iterable[str]) -> dict[str, int]:
    """Return names with runs of numbers folded, the last number first, each with its count: `Layer.{0..11}`, 12."""
    split = {tuple(_RUNNING.split(name)): 1 for name in names}
    for place in range(max(map(len, split), default=1) - 2, 0, -2):
        split = _runs_at(split, place)
    return {"".join(parts): count for parts, count in split.items()}


def _runs_at(names: Mapping[_Parts, int], place: int) -> dict[_Parts, int]:
    """Fold the names that differ in the number at a place alone, where it rises by one."""
    groups: dict[tuple[_Parts, _Parts], list[tuple[str, str, int]]] = {}
    for parts, count in names.items():
        number = "".join(parts[place : place + 1])
        runs = groups.setdefault((parts[:place], parts[place + 1 :]), [])
        if runs and number and int(number) == int(runs[-1][1]) + 1:
            first, _, members = runs.pop()
            runs.append((first, number, members + count))
        else:
            runs.append((number, number, count))
    return {
        (*before, first if first == last else f"{{{first}..{last}}}", *after): count
        for (before, after), runs in groups.items()
        for first, last, count in runs
    }
