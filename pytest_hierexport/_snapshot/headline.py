"""Tells the difference of two snapshots in the few words that a line of pytest's summary has room for.

~ …/Layer.{0..2}: Mul 0 → 1          the only change
+1 ~2, + …/BertPooler: Gemm 1        how many there are of each kind, and the first
"""

from __future__ import annotations

from collections import Counter

from pytest_hierexport._snapshot.diff import Change, Difference
from pytest_hierexport._snapshot.renames import Move, Rename

__all__ = ["headline"]

_ORDER = "+-~>="
"""The signs in the order in which they are counted."""


def headline(difference: Difference) -> str:
    """Return how many changes there are of each kind, and the first, its module by the last segment of its tag."""
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
