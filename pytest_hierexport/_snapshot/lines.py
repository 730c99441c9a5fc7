"""Reads the lines of a snapshot: the tag, how often it stands for a module, the modules of a folded run."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

LINE = re.compile(r"(?P<tag>.*?)(?: ×(?P<times>\d+))?(?:: (?P<operators>\S+ \d{1,18}(?:, \S+ \d{1,18})*))?")
"""A line: its `tag`, how many `times` it stands for, its `operators`."""
_RUN = re.compile(r"(@?)\{(\d{1,18})\.\.(\d{1,18})\}")


@lru_cache(maxsize=1 << 16)
def tag_of(line: str) -> str:
    """Return the tag of a line."""
    match = LINE.fullmatch(line)
    return match["tag"] if match else line


def parts_of(line: str) -> tuple[str, dict[str, int]]:
    """Return the tag of a line, and the count of each of its operators."""
    match = LINE.fullmatch(line)
    assert match is not None, "the pattern takes any line"  # noqa: S101
    pairs = (each.rpartition(" ") for each in (match["operators"] or "").split(", ") if each)
    return match["tag"], {operator: int(count) for operator, _, count in pairs}


def count_members(tag: str) -> int:
    """Count the tags of a folded one."""
    size = 1
    for run in _RUN.finditer(tag):
        size *= max(0, int(run[3]) - int(run[2]) + 1)
    return size


def members(tag: str) -> Iterator[str]:
    """Yield the tags of a folded one: `Layer.{0..1}` gives `Layer.0`, `Layer.1`; `Layer.{08..10}` keeps its zeros."""
    pieces: list[list[str]] = []
    end = 0
    for run in _RUN.finditer(tag):
        pieces.append([tag[end : run.start()]])
        numbers = range(int(run[2]), int(run[3]) + 1)
        width = len(run[2])
        pieces.append([(f"@{i}" if i else "") if run[1] else str(i).zfill(width) for i in numbers])
        end = run.end()
    for parts in itertools.product(*pieces, [tag[end:]]):
        yield "".join(parts)


def relative(tags: Iterable[str]) -> dict[str, str]:
    """Map tags to ones whose `@k` count the calls below one call: `/Net/Loop@3/Cell@3` to `/Net/Loop@3/Cell`."""
    found: dict[str, str] = {}
    counted: dict[tuple[str, str], int] = {}
    for tag in tags:
        above, slash, segment = tag.rpartition("/")
        own, _, call = segment.partition("@")
        ends = [int(number) for number in re.findall(r"\d+", call)] or [0]
        # A folded run holds calls of each of its items, which may run again on lines of their own.
        items = [(above, item) for item in members(own)]
        first = max((counted.get(item, 0) for item in items), default=0)
        last = first + max(0, ends[-1] - ends[0])
        counted |= dict.fromkeys(items, last + 1)
        numbers = f"@{{{first}..{last}}}" if last > first else f"@{first}" if first else ""
        found[tag] = f"{found.get(above, above)}{slash}{own}{numbers}"
    return found
