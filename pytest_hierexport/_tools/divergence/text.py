"""Renders a divergence as lines of text for people, or as an object for JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from pytest_hierexport._text import one_line
from pytest_hierexport._tools.divergence.results import CallGap, Divergence, Gap, ValueGap

FORMAT = 1
"""The version of the JSON."""
_STATED: Mapping[type, tuple[str, ...]] = {
    CallGap: (
        *("call", "tag", "class", "depth", "nodes"),
        *("accumulated", "added", "impact", "includes", "reason", "values"),
    ),
    ValueGap: ("name", "position", "other", "accumulated", "added", "reason"),
    Gap: ("sqnr", "cosine", "max_abs", "distance", "tolerance", "parted", "reason"),
}
"""What the JSON states of each part, in its order."""
_TITLES = ("accumulated dB", "added dB", "output dB", "cosine", "max abs", "module call")


def as_lines(divergence: Divergence, count: int) -> Iterator[str]:
    """Yield a row per call in execution order, the first calls of the ranking, and the first call that parts."""
    yield from _table(divergence.calls, divergence.first)
    top = divergence.ranking[:count]
    if top:
        yield ""
        calls = "call that adds the largest error" if len(top) == 1 else f"{len(top)} calls that add the largest errors"
        yield f"the {calls}:"
        yield from _table(top, None)
    yield ""
    yield _first_line(divergence)


def _first_line(divergence: Divergence) -> str:
    unknown = sum(call.accumulated is None for call in divergence.calls)
    lacking = f"; {unknown} of {len(divergence.calls)} calls are unknown" if unknown else ""
    first = divergence.first
    if first is None or first.parting is None or (gap := first.parting.accumulated) is None:
        return f"{no_parting(divergence)}{lacking}"
    why = gap.reason or f"{number(gap.distance)} from the reference, tolerance {number(gap.tolerance)}"
    return f"first parting: {call_label(first)} at {first.parting.name} ({why}){lacking}"


def no_parting(divergence: Divergence) -> str:
    """Return the sentence where no call parts, with the outputs that could not be compared."""
    unknown = f", but outputs are unknown: {one_line(', '.join(divergence.unknown_outputs))}"
    return f"no call parts by more than the tolerance{unknown if divergence.unknown_outputs else ''}"


def call_label(call: CallGap) -> str:
    """Return the tag of a call, with its name where the tag stands for a call above it."""
    return one_line(f"{call.tag} ({call.call or 'the root'})")


def _table(calls: tuple[CallGap, ...], first: CallGap | None) -> Iterator[str]:
    rows = [_TITLES, *(_cells(call, is_first=call is first) for call in calls)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    # Names are of any length: last, they leave the figures in their columns.
    for *figures, name in rows:
        yield "  ".join([*(figure.rjust(width) for figure, width in zip(figures, widths, strict=False)), name])


def _cells(call: CallGap, *, is_first: bool) -> tuple[str, ...]:
    found = call.accumulated
    if found is None:
        return *["-"] * 5, f"{call_label(call)}  unknown: {call.reason}"
    remarks = ["parts first" if is_first else "", found.reason]
    remarks += [f"with {', '.join(name or 'the root' for name in call.includes)}"] if call.includes else []
    if call.unknown:
        remarks += [f"{len(call.unknown)} of {len(call.values)} values unknown: {call.unknown[0].reason}"]
    remark = "; ".join(filter(None, remarks))
    return *decibels(call), number(found.cosine), number(found.max_abs), f"{call_label(call)}  {remark}".rstrip()


def decibels(call: CallGap) -> tuple[str, ...]:
    """Return the accumulated error of a call, the one that it adds and that of the outputs as texts."""
    return tuple("-" if gap is None else ratio(gap.sqnr) for gap in (call.accumulated, call.added, call.impact))


def ratio(value: float) -> str:
    """Return a ratio of signal to noise with four digits; `=` for the infinite one of equal tensors."""
    return "=" if value == math.inf else number(value)


def number(value: float) -> str:
    """Return a number with four digits."""
    return f"{value:.4g}"


def as_dict(divergence: Divergence, count: int) -> dict[str, object]:
    """Return the divergence as an object for JSON; numbers that JSON lacks are the texts `inf`, `-inf` and `nan`."""
    exclusion = divergence.exclusion(count)
    return {
        "format": FORMAT,
        "first": None if divergence.first is None else divergence.first.call,
        "unknown_outputs": [*divergence.unknown_outputs],
        "ranking": [call.call for call in divergence.ranking],
        "exclusion": {"modules": [*exclusion.modules], "nodes": [*exclusion.nodes]},
        "calls": _plain(divergence.calls),
    }


def _plain(value: object) -> object:
    """Return a part of the divergence as JSON has it."""
    if (names := _STATED.get(type(value))) is not None:
        return {name: _plain(getattr(value, "cls" if name == "class" else name)) for name in names}
    if isinstance(value, tuple):
        return [*map(_plain, value)]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
