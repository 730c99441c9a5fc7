"""Renders a divergence as one self-contained page of HTML: a plot of the errors in execution order, and a table."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Sequence

from pytest_hierexport._files.ownership import GENERATOR
from pytest_hierexport._text import one_line
from pytest_hierexport._tools.divergence.results import CallGap, Divergence
from pytest_hierexport._tools.divergence.text import call_label, decibels, no_parting, number, ratio

_HEIGHT = 360
_MARGIN = 48
_STEP = 14
"""The pixels between two calls."""
_RANGE = (-20.0, 140.0)
"""The ratios in dB at the bottom and the top; what lies beyond is drawn on the edge."""
_LEGEND = """Ratio of signal to noise in dB by execution order: blue the accumulated error, orange the one that the call
adds; the higher, the smaller the error. Grey bars show the depth of the calls."""
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem; color: #1c2024; background: #fff; }
table { border-collapse: collapse; } th, td { border: 1px solid #d4d8dd; padding: .2rem .5rem; text-align: right; }
th:first-child, td:first-child { text-align: left; } tr.first { background: #fde3e3; }
div { overflow-x: auto; } svg text { font-size: 11px; fill: #4b5563; } .grid { stroke: #e5e7eb; }
.accumulated { fill: #2563eb; } .added { fill: #d97706; } .depth { fill: #d1d5db; }
polyline { fill: none; stroke: #2563eb; }
"""


def as_page(divergence: Divergence, title: str) -> str:
    """Return a page that needs no other file."""
    first = divergence.first
    found = no_parting(divergence) if first is None else f"first parting: {call_label(first)}"
    rows = "\n".join(_row(call, is_first=call is first) for call in divergence.calls)
    head = "".join(f"<th>{name}</th>" for name in ("module call", "accumulated dB", "added dB", "output dB", "cosine"))
    parts = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><meta name="generator" content="{GENERATOR}">',
        f"<title>{_escape(title)}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{_escape(title)}</h1><p>{_escape(found)}</p>",
        f"<p>{_LEGEND}</p>",
        f"<div>{_plot(divergence.calls)}</div>",
        f"<table><thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table>",
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def _plot(calls: Sequence[CallGap]) -> str:
    width = 2 * _MARGIN + _STEP * len(calls)
    lines = [
        f'<line class="grid" x1="{_MARGIN}" x2="{width}" y1="{_y(at)}" y2="{_y(at)}"/>'
        f'<text x="4" y="{_y(at) + 4}">{at} dB</text>'
        for at in range(int(_RANGE[0]), int(_RANGE[1]) + 1, 20)
    ]
    points = " ".join(f"{_x(i)},{_y(call.accumulated.sqnr)}" for i, call in enumerate(calls) if call.accumulated)
    marks = [mark for i, call in enumerate(calls) for mark in _marks(i, call)]
    size = f'width="{width}" height="{_HEIGHT + _MARGIN}"'
    return "\n".join([f'<svg {size} role="img">', *lines, f'<polyline points="{points}"/>', *marks, "</svg>"])


def _marks(i: int, call: CallGap) -> Iterator[str]:
    """Yield a call's depth as a bar, and its errors as dots that show the numbers."""
    bar = 4 * call.depth
    yield f'<rect class="depth" x="{_x(i) - 3}" y="{_HEIGHT + _MARGIN - bar}" width="6" height="{bar}"/>'
    for kind, gap in (("added", call.added), ("accumulated", call.accumulated)):
        if gap is not None:
            label = _escape(f"{call_label(call)}: {kind} {ratio(gap.sqnr)} dB")
            yield f'<circle class="{kind}" cx="{_x(i)}" cy="{_y(gap.sqnr)}" r="4"><title>{label}</title></circle>'


def _x(i: int) -> int:
    return _MARGIN + _STEP // 2 + _STEP * i


def _y(decibels: float) -> int:
    low, high = _RANGE
    within = min(max(decibels, low), high) if not math.isnan(decibels) else low
    return round((_HEIGHT - 20) * (high - within) / (high - low)) + 10


def _row(call: CallGap, *, is_first: bool) -> str:
    cosine = "unknown" if call.accumulated is None else number(call.accumulated.cosine)
    cells = "".join(f"<td>{_escape(cell)}</td>" for cell in (call_label(call), *decibels(call), cosine))
    return f"<tr{' class=first' if is_first else ''}>{cells}</tr>"


def _escape(text: str) -> str:
    return html.escape(one_line(text))
