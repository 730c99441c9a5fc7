"""Draws the difference of two snapshots as a tree: changed modules below the modules that call them.

     /Tower
    -  Layer.{0..2} ×3: Add 1, LayerNormalization 1
    +  Layer.{0..2} ×3: Add 1, LayerNormalization 1, Mul 1
         … 1 unchanged

Lines start with `-` where the committed snapshot alone has them, with `+` where the present model alone does, and with
`>` where both have them at different places. Renamed classes are told first; their modules have the new names.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from pytest_hierexport._snapshot.lines import tag_of
from pytest_hierexport._snapshot.renames import renamed

_MOST_SHOWN = 100
_MOST_LINES = 20_000
"""Lines of both texts together that are compared; the comparison is quadratic at worst."""


@dataclass(frozen=True)
class _Entry:
    sign: str
    """`-`, `+`, `>` or a space."""
    line: str
    tag: str

    @property
    def parent(self) -> str:
        return self.tag.rpartition("/")[0]

    @property
    def drawn(self) -> str:
        depth = max(0, self.tag.count("/") - 1)
        return f"{self.sign}{'  ' * depth}{self.line[len(self.parent) + 1 :] if depth else self.line}"


def tree_diff(old: str, new: str) -> list[str]:
    """Return the lines of the tree, each with its sign; empty where the texts are equal, or too long to compare.

    Those beyond a hundred are counted.
    """
    if old == new or old.count("\n") + new.count("\n") > _MOST_LINES:
        return []
    renames, old = renamed(old, new)
    entries = list(_with_moves(list(_entries(old.splitlines(), new.splitlines()))))
    above = _above([entry for entry in entries if entry.sign != " "])
    shown = [*map(str, renames), *_drawn(entries, above)]
    more = [f" … and {len(shown) - _MOST_SHOWN} more lines"] if len(shown) > _MOST_SHOWN else []
    return [*shown[:_MOST_SHOWN], *more]


def _entries(before: Sequence[str], after: Sequence[str]) -> Iterator[_Entry]:
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for kind, i1, i2, j1, j2 in matcher.get_opcodes():
        if kind == "equal":
            yield from (_Entry(" ", line, tag_of(line)) for line in before[i1:i2])
            continue
        yield from (_Entry("-", line, tag_of(line)) for line in before[i1:i2])
        yield from (_Entry("+", line, tag_of(line)) for line in after[j1:j2])


def _with_moves(entries: Sequence[_Entry]) -> Iterator[_Entry]:
    """Yield a line that is gone at one place and new at another as moved, at the new place alone."""
    gone, added = ({entry.line for entry in entries if entry.sign == sign} for sign in "-+")
    moved = gone & added
    for entry in entries:
        if entry.line not in moved:
            yield entry
        elif entry.sign == "+":
            yield replace(entry, sign=">")


def _above(changed: Sequence[_Entry]) -> set[str]:
    """Return the tags of all modules above the changed ones."""
    tags: set[str] = set()
    for entry in changed:
        tag = entry.parent
        while tag and tag not in tags:
            tags.add(tag)
            tag = tag.rpartition("/")[0]
    return tags


def _drawn(entries: Sequence[_Entry], above: set[str]) -> Iterator[str]:
    """Yield the lines of changed modules and of those above them; runs of others are counted."""
    for is_shown, run in groupby(entries, lambda entry: entry.sign != " " or entry.tag in above):
        lines = list(run)
        if is_shown:
            yield from (entry.drawn for entry in lines)
        else:
            depth = max(0, min(entry.tag.count("/") for entry in lines) - 1)
            yield f" {'  ' * depth}… {len(lines)} unchanged"
