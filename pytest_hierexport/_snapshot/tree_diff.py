"""Draws the difference of two snapshots as a tree: changed modules below the modules that call them.

     /Tower
    -  Layer.{0..2} ×3: Add 1, LayerNormalization 1
    +  Layer.{0..2} ×3: Add 1, LayerNormalization 1, Mul 1
         … 1 unchanged

Lines start with `-` where the committed snapshot alone has them, with `+` where the present model alone does, and with
`>` where both have them at different places. Renamed classes are told first; their modules have the new names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from pytest_hierexport._calls.names import upwards
from pytest_hierexport._snapshot.lines import tag_of
from pytest_hierexport._snapshot.renames import interleaved, renamed

_MOST_SHOWN = 100


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
    """Return the lines of the tree, each with its sign; empty where the texts are equal.

    Those beyond a hundred are counted.
    """
    if old == new:
        return []
    renames, old = renamed(old, new)
    both = interleaved(old.splitlines(), new.splitlines())
    entries = list(_with_moves([_Entry(sign, line, tag_of(line)) for sign, line in both]))
    above = {tag for entry in entries if entry.sign != " " for tag in upwards(entry.parent, "/")}
    shown = [*map(str, renames), *_drawn(entries, above)]
    more = [f" … and {len(shown) - _MOST_SHOWN} more lines"] if len(shown) > _MOST_SHOWN else []
    return [*shown[:_MOST_SHOWN], *more]


def _with_moves(entries: Sequence[_Entry]) -> Iterator[_Entry]:
    """Yield a line that is gone at one place and new at another as moved, at the new place alone."""
    gone, added = ({entry.line for entry in entries if entry.sign == sign} for sign in "-+")
    moved = gone & added
    for entry in entries:
        if entry.line not in moved:
            yield entry
        elif entry.sign == "+":
            yield replace(entry, sign=">")


def _drawn(entries: Sequence[_Entry], above: set[str]) -> Iterator[str]:
    """Yield the lines of changed modules and of those above them; runs of others are counted."""
    for is_shown, run in groupby(entries, lambda entry: entry.sign != " " or entry.tag in above):
        lines = list(run)
        if is_shown:
            yield from (entry.drawn for entry in lines)
        else:
            depth = max(0, min(entry.tag.count("/") for entry in lines) - 1)
            yield f" {'  ' * depth}… {len(lines)} unchanged"
