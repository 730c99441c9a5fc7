"""Folds runs of equal sibling modules into one: twelve equal layers become `BertLayer.{0..11} ×12`.

A layer that runs twelve times becomes `AlbertLayer.0@{0..11} ×12`. Below a folded run, `@k` counts within one of its
members.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pytest_hierexport._calls.names import call_name

_LONGEST_NUMBER = 18
"""The most digits that `lines` reads in a folded run."""


@dataclass(frozen=True)
class Branch:
    """A call with a segment, or a run of equal ones."""

    name: str
    """The segment without its `@k`; of a run of list items with all their numbers: `Layer.{0..11}`."""
    index: int
    """The index of the call; of a run of calls, the first one's."""
    path: str
    """The instance's path, which repeated calls share."""
    operators: tuple[tuple[str, int], ...]
    children: tuple[Branch, ...]
    times: int = 1
    is_repeated: bool = False
    """Whether it is a run of calls under one name."""

    @property
    def segment(self) -> str:
        if self.is_repeated:
            return f"{self.name}@{{{self.index}..{self.index + self.times - 1}}}"
        return call_name(self.name, self.index)


def fold(branch: Branch) -> Branch:
    """Fold the runs of equal siblings below a branch, the innermost first."""
    children = [fold(child) for child in branch.children]
    folded: list[Branch] = []
    at = 0
    while at < len(children):
        run = _run(children, at)
        folded.append(_as_one(run) if len(run) > 1 else run[0])
        at += len(run)
    return replace(branch, children=tuple(folded))


def _run(siblings: list[Branch], at: int) -> list[Branch]:
    """Return the sibling at a position and those after it that equal it except for a number, which rises by one."""
    pair = siblings[at : at + 2]
    follows = next((rule for rule in (_is_next_item, _is_next_call) if pair[1:] and rule(*pair)), None)
    if follows is None:
        return pair[:1]
    content, end = _content(pair[0]), at + 1
    while end < len(siblings) and follows(*siblings[end - 1 : end + 1]) and _content(siblings[end]) == content:
        end += 1
    return siblings[at:end]


def _is_next_call(last: Branch, sibling: Branch) -> bool:
    return last.name == sibling.name and sibling.index == last.index + 1


def _is_next_item(last: Branch, sibling: Branch) -> bool:
    (stem, number), (other, following) = _numbered(last), _numbered(sibling)
    # Zeros before a number are part of a name: after `09` comes `10`, after `1` no `02`.
    after = str(int(number) + 1).zfill(len(number)) if number else ""
    return stem is not None and (stem, after, last.index) == (other, following, sibling.index)


def _numbered(branch: Branch) -> tuple[str | None, str]:
    """Split the number of a list's item off its segment."""
    stem, dot, number = branch.name.rpartition(".")
    is_number = number.isdecimal() and number.isascii() and len(number) <= _LONGEST_NUMBER
    return (stem, number) if dot and is_number else (None, "")


def _as_one(run: list[Branch]) -> Branch:
    first, last = run[0], run[-1]
    children = tuple(_relative(child, _lowest(first)) for child in first.children)
    if first.name == last.name:
        return replace(first, times=len(run), is_repeated=True, children=children)
    (stem, number), (_, end) = _numbered(first), _numbered(last)
    return replace(first, name=f"{stem}.{{{number}..{end}}}", times=len(run), children=children)


def _content(branch: Branch) -> tuple[object, ...]:
    """Return the content that equal siblings share: operators and children, call indices relative to the first."""
    lowest = _lowest(branch)
    return (branch.operators, tuple(_shape(_relative(child, lowest)) for child in branch.children))


def _shape(branch: Branch) -> tuple[object, ...]:
    return (branch.segment, branch.times, branch.operators, tuple(_shape(child) for child in branch.children))


def _lowest(branch: Branch) -> dict[str, int]:
    """Return the lowest call index under every path below a branch."""
    lowest: dict[str, int] = {}
    below = list(branch.children)
    while below:
        child = below.pop()
        lowest[child.path] = min(child.index, lowest.get(child.path, child.index))
        below += child.children
    return lowest


def _relative(branch: Branch, lowest: Mapping[str, int]) -> Branch:
    """Count the call indices of a branch and of all below it from the lowest of their paths."""
    children = tuple(_relative(child, lowest) for child in branch.children)
    return replace(branch, index=branch.index - lowest.get(branch.path, 0), children=children)
