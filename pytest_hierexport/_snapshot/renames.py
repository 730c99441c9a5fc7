"""Finds classes that were renamed and modules that moved between two snapshots.

    before                             after
    /Net                               /Net
    /Net/Block.{0..5} ×6: Add 1        /Net/EncoderBlock.{0..5} ×6: Add 1
    /Net/Head: Gemm 1                  /Net/Pooler: Tanh 1
    /Net/Pooler: Tanh 1                /Net/Head: Gemm 1

    = renamed Block → EncoderBlock (6 instances, operators equal)
    > /Net/Pooler now before /Net/Head

The last two lines are what is said of it.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pytest_hierexport._calls.names import upwards
from pytest_hierexport._grouping import grouped
from pytest_hierexport._snapshot.lines import count_members, members, parts_of, tag_of

_MOST_CLASSES = 10
"""How many classes that are gone are compared with how many that are new: each pair takes a walk over the texts."""
_MOST_MEMBERS = 10_000
"""A folded run of more modules is compared as a whole."""
_MOST_TAGS = 100
"""How many modules of a renamed class are named."""
_CLASS = re.compile(r"(?<=/)[^/.@: ]+")


@dataclass(frozen=True)
class Rename:
    """A class that has another name in the second text."""

    before: str
    after: str
    instances: int
    """The number of its modules in the second text."""
    equal: bool
    """Whether they, and the modules that they call, have the same operators in both texts."""
    tags: tuple[str, ...]
    """The tags of the first of them in the second text, folded as they are there."""

    def __str__(self) -> str:
        """Return the rename as a line."""
        what = f"{self.instances} {'instance' if self.instances == 1 else 'instances'}"
        operators = "equal" if self.equal else "differ"
        return f"= renamed {self.before} → {self.after} ({what}, operators {operators})"


@dataclass(frozen=True)
class Move:
    """A module that runs at another place among those that its caller calls in both texts."""

    tag: str
    neighbour: str
    """The nearest module that kept its place and that the moved one has passed."""
    after: bool = False
    """Whether it now runs after the neighbour, not before it."""

    def __str__(self) -> str:
        """Return the move as a line."""
        return f"> {self.tag} now {'after' if self.after else 'before'} {self.neighbour}"


def renamed(old: str, new: str) -> tuple[list[Rename], str]:
    """Return the classes that were renamed, and the old text with the new names.

    A class that is gone was renamed to one that is new if, under the new name, its modules and those that they call
    have most of their operators where that class's modules have them.
    """
    before, after = old.splitlines(), new.splitlines()
    known, found = _classes(before), _classes(after)
    added = [name for name in found if name not in known][:_MOST_CLASSES]
    gone = [name for name in known if name not in found][:_MOST_CLASSES]
    pairs: dict[str, str] = {}
    # Once a class has its new name, the tags of those below it may agree, which did not before.
    size = -1
    while len(pairs) > size:
        size = len(pairs)
        for name in [name for name in gone if name not in pairs]:
            scored = {other: _agreement(_with_name(before, name, other), after, other) for other in added}
            best = max(scored, key=lambda other: scored[other], default="")
            if best and scored[best] > 0.5:
                added.remove(best)
                before, pairs[name] = _with_name(before, name, best), best
    renames = [_rename(before, after, name, other) for name, other in pairs.items()]
    return renames, "".join(f"{line}\n" for line in before) if renames else old


def _rename(before: Sequence[str], after: Sequence[str], name: str, other: str) -> Rename:
    """Return what is told of a class with another name, given the first text with all the new names."""
    tags = [tag_of(line) for line in _of_class(after, other)]
    equal = _agreement(before, after, other) == 1
    return Rename(name, other, sum(map(count_members, tags)), equal, tuple(tags[:_MOST_TAGS]))


def _classes(lines: Iterable[str]) -> dict[str, None]:
    """Return the names of the classes in tags, in the order in which they come."""
    return dict.fromkeys(name for line in lines for name in _CLASS.findall(tag_of(line)))


def _with_name(lines: Iterable[str], name: str, other: str) -> list[str]:
    """Return lines with another name for a class, in tags alone."""
    pattern = re.compile(rf"(?<=/){re.escape(name)}(?=[/.@]|$)")
    pairs = ((tag_of(line), line) for line in lines)
    return [f"{pattern.sub(lambda _: other, tag)}{line[len(tag) :]}" for tag, line in pairs]


def _of_class(lines: Iterable[str], name: str) -> list[str]:
    """Return the lines of the modules of a class."""
    ends = re.compile(rf"/{re.escape(name)}(?:[.@][^/]*)?$")
    return [line for line in lines if ends.search(tag_of(line))]


def _agreement(lines: Sequence[str], others: Sequence[str], name: str) -> float:
    """Return the share of the operators of a class that both texts have (Dice's coefficient, by count)."""
    mine, theirs = _operators(lines, name), _operators(others, name)
    return 2 * (mine & theirs).total() / max(1, mine.total() + theirs.total())


def _operators(lines: Sequence[str], name: str) -> Counter[tuple[str, str]]:
    """Count the operators of a class's modules by tag, and those below them without it: the tags below may be new, too.

    Modules of a folded run count one by one, so that a change in one of them is a change of this one. Modules without
    operators count once each where there are no others.
    """
    own = _of_class(lines, name)
    own_tags = {tag_of(line) for line in own}
    counted: Counter[tuple[str, str]] = Counter()
    for line in own:
        tag, listed = parts_of(line)
        tags = members(tag) if count_members(tag) <= _MOST_MEMBERS else [tag]
        counted.update({(each, operator): count for each in tags for operator, count in listed.items()})
    for line in lines if own else ():
        if not own_tags.isdisjoint(upwards(tag_of(line).rpartition("/")[0], "/")):
            tag, listed = parts_of(line)
            counted.update({("", operator): count * count_members(tag) for operator, count in listed.items()})
    return counted or Counter((tag_of(line), "") for line in own)


def moves(before: Iterable[str], after: Iterable[str]) -> Iterator[Move]:
    """Yield the modules that run at another place among those that their caller calls in both texts, given their tags.

    A run that is folded on one side alone counts member by member if both sides have it unfolded.
    """
    known, found = (grouped(tags, lambda tag: tag.rpartition("/")[0]) for tags in (before, after))
    for parent in found:
        position = {tag: i for i, tag in enumerate(known.get(parent, ()))}
        shared = [tag for tag in found[parent] if tag in position]
        for i, j in displaced([position[tag] for tag in shared]):
            yield Move(shared[i], shared[j], after=j < i)


def displaced(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the positions of the numbers outside a longest rising subsequence, each with that of a number in it.

    This is the nearest one that is out of order with it, a later one if there is one: of 2, 0, 1, the 2 is before
    the 0.
    """
    rising = set(longest_rising(numbers))
    places = [i for i, number in enumerate(numbers) if number in rising]
    for i, number in enumerate(numbers):
        if number not in rising:
            # Of the subsequence, the nearest one behind is the smallest behind, and the nearest before the largest.
            at = bisect_left(places, i)
            is_behind = at < len(places) and numbers[places[at]] < number
            yield i, places[at] if is_behind else places[at - 1]


def interleaved(before: Iterable[str], after: Iterable[str]) -> list[tuple[str, str]]:
    """Return the parts of two lists in one order, each with its sign: `-` gone, `+` new, a space where it stays."""
    place = {part: i for i, part in enumerate(dict.fromkeys(before))}
    parts = dict.fromkeys(after)
    kept = set(longest_rising([place[part] for part in parts if part in place]))
    left = iter(place)
    found: list[tuple[str, str]] = []
    added: list[tuple[str, str]] = []
    for part in parts:
        if place.get(part) in kept:
            found += [*(("-", old) for old in iter(left.__next__, part)), *added, (" ", part)]
            added = []
        else:
            added.append(("+", part))
    return [*found, *(("-", old) for old in left), *added]


def longest_rising(numbers: Sequence[int]) -> list[int]:
    """Return a longest rising subsequence of different numbers (patience sorting)."""
    tops: list[int] = []
    below: dict[int, int | None] = {}
    for number in numbers:
        pile = bisect_left(tops, number)
        below[number] = tops[pile - 1] if pile else None
        tops[pile : pile + 1] = [number]
    rising: list[int] = []
    at = tops[-1] if tops else None
    while at is not None:
        rising.append(at)
        at = below[at]
    return rising[::-1]
