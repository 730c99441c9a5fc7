"""Renders a profile as lines of text for people, or as an object for JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pytest_hierexport._calls.hierarchy import ROOT
from pytest_hierexport._text import one_line
from pytest_hierexport._tools.analysis.rendering import coverage_line
from pytest_hierexport._tools.profiling.figures import CallProfile, Profile
from pytest_hierexport._tools.table import indented, table

_NOT_IN_JSON = frozenset({"hierarchy", "timeline"})


def as_dict(profile: Profile) -> dict[str, object]:
    """Return the profile as an object for JSON; calls are a flat list, so that parsers can read any depth."""
    lists = {"nodes", "calls", "classes"}
    return {
        "unit": "microseconds",
        **{name: value for name, value in vars(profile).items() if name not in _NOT_IN_JSON | lists},
        "unattributed": profile.unattributed,
        **{name: [vars(each) for each in getattr(profile, name)] for name in sorted(lists)},
    }


def as_lines(
    profile: Profile, *, by_class: bool = False, depth: int | None = None, width: int | None = None
) -> Iterator[str]:
    """Yield the table of classes, or of calls down to `depth` levels below the root, then the totals.

    See :func:`table` for the width.
    """
    yield from table(_rows(profile, depth, by_class=by_class), width)
    kernels = profile.run_time - profile.outside_time
    yield ""
    yield f"run: {_ms(profile.run_time)} ms, the sum of each node's median; runs: {profile.runs:,}"
    yield f"kernels: {_ms(kernels)} ms; outside of kernels: {_ms(profile.outside_time)} ms"
    yield (
        f"unattributed: {profile.unattributed:.1%} of the kernels' time"
        f" (untagged nodes {_ms(profile.untagged_time)} ms, unmatched kernels {_ms(profile.unmatched_time)} ms)"
    )
    yield (
        f"counted for the first of several calls: {_ms(profile.shared_time)} ms;"
        f" for a call guessed from neighbours: {_ms(profile.derived_time)} ms"
    )
    yield f"optimized graph: {coverage_line(profile.coverage)}"
    yield from (f"note: {note}" for note in profile.notes)


def _rows(profile: Profile, depth: int | None, *, by_class: bool) -> Iterator[tuple[str, ...]]:
    titles = _OF_CLASSES if by_class else _OF_CALLS
    named = ((one_line(each.cls), each) for each in profile.classes) if by_class else _named_calls(profile, depth)
    yield "class" if by_class else "module call", *titles
    yield from ((name, *(_CELLS[title](each) for title in titles)) for name, each in named)


def _named_calls(profile: Profile, depth: int | None) -> Iterator[tuple[str, CallProfile]]:
    """Yield the calls, indented by their levels, each after its caller, siblings in execution order."""
    hierarchy, known = profile.hierarchy, {call.call: call for call in profile.calls}
    stack = [(0, ROOT)]
    while stack:
        level, name = stack.pop()
        call = hierarchy[name]
        caller = "" if call.parent is None else hierarchy[call.parent].path
        below = name.removeprefix(f"{caller}.") if caller else name
        yield indented(level, f"{below}  {call.class_name}".strip()), known[name]
        if depth is None or level < depth:
            stack += [(level + 1, child) for child in reversed(hierarchy.children[name]) if child in known]


def _ms(microseconds: float) -> str:
    return f"{microseconds / 1000:,.3f}"


_CELLS: Mapping[str, Callable[[Any], str]] = {
    "self ms": lambda each: _ms(each.self_time),
    "total ms": lambda each: _ms(each.total_time),
    "share": lambda each: f"{each.share:.1%}",
    "calls": lambda each: f"{each.calls:,}",
    "kernels": lambda each: f"{each.kernels:,.1f}".removesuffix(".0"),
    "output KiB": lambda each: f"{each.output_bytes / 1024:,.1f}",
}
"""The cell of a call or class under each title."""
_OF_CALLS = ("total ms", "share", "self ms", "kernels", "output KiB")
_OF_CLASSES = ("self ms", "share", "total ms", "calls", "kernels", "output KiB")
