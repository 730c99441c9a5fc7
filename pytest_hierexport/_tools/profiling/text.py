"""Renders a profile as lines of text for people, or as an object for JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, fields
from functools import partial
from typing import TYPE_CHECKING

from pytest_hierexport._text import one_line
from pytest_hierexport._tools.analysis.rendering import coverage_line
from pytest_hierexport._tools.table import indented, table

if TYPE_CHECKING:
    from pytest_hierexport._tools.profiling.figures import CallProfile, Profile

_NOT_IN_JSON = frozenset({"hierarchy", "timeline"})


def as_dict(profile: Profile) -> dict[str, object]:
    """Return the profile as an object for JSON; calls are a flat list, so that parsers can read any depth."""
    lists = {"nodes", "calls", "classes"}
    plain = {field.name: getattr(profile, field.name) for field in fields(profile)}
    return {
        "unit": "microseconds",
        **{name: value for name, value in plain.items() if name not in _NOT_IN_JSON | lists},
        "unattributed": profile.unattributed,
        **{name: [asdict(each) for each in plain[name]] for name in sorted(lists)},
    }


def as_lines(
    profile: Profile, *, by_class: bool = False, depth: int | None = None, width: int | None = None
) -> Iterator[str]:
    """Yield the table of calls or classes, then the totals.

    Args:
        profile: The profile.
        by_class: Whether a row is a class; else it is a call.
        depth: The number of levels of calls below the root; None for all.
        width: The width of the terminal; longer names are cut. None: names are not cut.
    """
    yield from table(partial(_class_rows, profile) if by_class else partial(_call_rows, profile, depth), width)
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
    yield f"optimized graph: {coverage_line(sum(profile.coverage.values()), profile.coverage)}"
    yield from (f"note: {note}" for note in profile.notes)


def _call_rows(profile: Profile, depth: int | None) -> Iterator[tuple[str, ...]]:
    yield "module call", "total ms", "share", "self ms", "kernels", "output KiB"
    for level, call in _tree(profile, depth):
        name = profile.hierarchy[call.call]
        below = name.path if call.parent is None else _below(call.call, profile.hierarchy[call.parent].path)
        yield (
            indented(level, f"{below}  {name.class_name}".strip()),
            _ms(call.total_time),
            f"{call.share:.1%}",
            _ms(call.self_time),
            _count(call.kernels),
            f"{call.output_bytes / 1024:,.1f}",
        )


def _below(call: str, caller: str) -> str:
    """Return a call's name relative to its caller's path."""
    prefix = f"{caller}."
    return call.removeprefix(prefix) if caller else call


def _tree(profile: Profile, depth: int | None) -> Iterator[tuple[int, CallProfile]]:
    """Yield the calls with their levels, each after its caller, siblings in execution order."""
    children: dict[str | None, list[CallProfile]] = {}
    for call in profile.calls:
        children.setdefault(call.parent, []).append(call)
    stack = [(0, call) for call in children.get(None, ())]
    while stack:
        level, call = stack.pop()
        yield level, call
        if depth is None or level < depth:
            stack += [(level + 1, child) for child in reversed(children.get(call.call, ()))]


def _class_rows(profile: Profile) -> Iterator[tuple[str, ...]]:
    yield "class", "self ms", "share", "total ms", "calls", "kernels", "output KiB"
    for each in profile.classes:
        yield (
            one_line(each.cls),
            _ms(each.self_time),
            f"{each.share:.1%}",
            _ms(each.total_time),
            f"{each.calls:,}",
            _count(each.kernels),
            f"{each.output_bytes / 1024:,.1f}",
        )


def _ms(microseconds: float) -> str:
    return f"{microseconds / 1000:,.3f}"


def _count(average: float) -> str:
    """Return an average number as text, without a fraction where it has none."""
    return f"{average:,.1f}".removesuffix(".0")
