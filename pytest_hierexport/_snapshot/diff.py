"""Compares two snapshots, module by module."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pytest_hierexport._snapshot.lines import count_members, members, parts_of, relative
from pytest_hierexport._snapshot.renames import Move, Rename, interleaved, moves, renamed

_MOST_MODULES = 50_000
_ORDER = "+-~>="
"""The signs of changes in the order in which they are counted."""

_Modules = Mapping[str, Mapping[str, int]]
"""The operators of modules by tag."""


@dataclass(frozen=True)
class Change:
    """A module that differs between two snapshots, or a folded run of equal ones."""

    tag: str
    before: Mapping[str, int] | None
    """Its operators in the committed snapshot; None where it is new."""
    after: Mapping[str, int] | None
    """Its operators in the present model; None where it is gone."""

    def __str__(self) -> str:
        """Return the change as a line: `-` gone, `+` new, `~` other operators."""
        if self.before is not None and self.after is not None:
            return f"~ {self.tag}: {changed_counts(self.before, self.after)}"
        sign, operators = ("-", self.before) if self.after is None else ("+", self.after)
        listed = ", ".join(f"{operator} {count}" for operator, count in sorted((operators or {}).items()))
        return f"{sign} {self.tag}: {listed}" if listed else f"{sign} {self.tag}"


@dataclass(frozen=True)
class Difference:
    """What differs between two snapshots."""

    renames: tuple[Rename, ...] = ()
    changes: tuple[Change, ...] = ()
    """The modules that differ although renamed classes have their new names."""
    moves: tuple[Move, ...] = ()

    def __iter__(self) -> Iterator[Rename | Change | Move]:
        """Yield what differs in the order in which it is told."""
        yield from self.renames
        yield from self.changes
        yield from self.moves


def compare(old: str, new: str) -> Difference:
    """Return what differs between the text of the committed snapshot and that of the present model.

    A run that is folded on one side alone is compared member by member, so one changed layer of twelve is one change.
    """
    if old == new:
        return Difference()
    renames, old = renamed(old, new)
    before, after = _different(old.splitlines(), new.splitlines())
    return Difference(tuple(renames), tuple(_changes(before, after)), tuple(moves(before, after)))


def diff(old: str, new: str, limit: int = 20) -> list[str]:
    """Return the lines of the difference between the committed snapshot's text and the present model's."""
    return lines_of(compare(old, new), limit)


def lines_of(difference: Difference, limit: int = 20) -> list[str]:
    """Return the changes, one line per module: `-` gone, `+` new, `~` other operators, `>` moved, `=` renamed.

    Those beyond the limit are counted.
    """
    lines = list(map(str, difference))
    shown = lines[:limit]
    if len(lines) > limit:
        shown.append(f"… and {len(lines) - limit} more changes")
    return shown


def headline(difference: Difference) -> str:
    """Return how many changes there are of each kind, and the first, its module by the last segment of its tag.

    It is for the line of pytest's summary, which has room for few words:

        ~ …/Layer.{0..2}: Mul 0 → 1          the only change
        +1 ~2, + …/BertPooler: Gemm 1        how many there are of each kind, and the first
    """
    every = list(difference)
    if not every:
        return ""
    signs = Counter(str(each)[0] for each in every)
    counts = " ".join(f"{sign}{count}" for sign, count in sorted(signs.items(), key=lambda each: _ORDER.index(each[0])))
    first = _short(every[0])
    return first if len(every) == 1 else f"{counts}, {first}"


def _short(each: Rename | Change | Move) -> str:
    if isinstance(each, Rename):
        return f"= {each.before} → {each.after}"
    line = str(each).replace(each.tag, _end(each.tag), 1)
    return line.replace(each.neighbour, _end(each.neighbour)) if isinstance(each, Move) else line


def _end(tag: str) -> str:
    above, _, segment = tag.rpartition("/")
    return f"…/{segment}" if above else tag


def _different(old: list[str], new: list[str]) -> tuple[_Modules, _Modules]:
    """Return the modules of each side; runs that differ from the other side's are unfolded."""
    before, after = dict(map(parts_of, old)), dict(map(parts_of, new))
    if sum(map(count_members, (*before, *after))) > _MOST_MODULES:
        return before, after
    # One call more of an instance moves the numbers of all its later calls, wherever they are.
    of_old, of_new = relative(before), relative(after)
    left, right = {of_old[tag]: before[tag] for tag in before}, {of_new[tag]: after[tag] for tag in after}
    known, found = dict(_unfolded(left, right)), dict(_unfolded(right, left))
    tags = _absolute(of_new, of_old, {*known, *found})
    return {tags.get(tag, tag): known[tag] for tag in known}, {tags.get(tag, tag): found[tag] for tag in found}


def _absolute(new: Mapping[str, str], old: Mapping[str, str], taken: set[str]) -> dict[str, str]:
    """Return the tags to show for relative ones: the new text's, else the old text's, each for one module alone."""
    shown: dict[str, str] = {}
    for tag, each in (*new.items(), *old.items()):
        if each not in shown and tag not in taken:
            shown[each] = tag
            taken.add(tag)
    return shown


def _unfolded(modules: _Modules, others: _Modules) -> Iterator[tuple[str, Mapping[str, int]]]:
    elsewhere = {member for tag in others if tag not in modules for member in members(tag)}
    for tag, operators in modules.items():
        each = list(members(tag))
        whole = tag in others or elsewhere.isdisjoint(each)
        yield from ((member, operators) for member in ([tag] if whole else each))


def _changes(before: _Modules, after: _Modules) -> Iterator[Change]:
    for tag in _in_order(before, after):
        change = Change(tag, before.get(tag), after.get(tag))
        if change.before != change.after:
            yield change


def _in_order(before: _Modules, after: _Modules) -> list[str]:
    """Return every tag once, in the order of both sides; a removed one keeps its position."""
    return list(dict.fromkeys(tag for _, tag in interleaved(before, after)))


def changed_counts(old: Mapping[str, int], new: Mapping[str, int]) -> str:
    """Return the operators whose number changed: `Add 2 → 3, Relu 0 → 1`."""
    pairs = ((operator, old.get(operator, 0), new.get(operator, 0)) for operator in sorted({*old, *new}))
    return ", ".join(f"{operator} {before} → {after}" for operator, before, after in pairs if before != after)
