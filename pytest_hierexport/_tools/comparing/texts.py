"""Describes a difference in a bounded line."""

from __future__ import annotations

from itertools import zip_longest

NONE = "none"
_LONGEST = 100
_BEFORE_DIFFERENCE = 20


def change(where: str, before: str, after: str) -> str:
    """Return a difference as text: `opset ai.onnx: 18 → 20`."""
    return f"{where}: {arrow(before, after)}"


def arrow(before: str, after: str) -> str:
    """Return both texts with an arrow between; long ones from just before their first difference, and cut."""
    start = 0
    if max(len(before), len(after)) > _LONGEST:
        differing = (i for i, (a, b) in enumerate(zip_longest(before, after)) if a != b)
        start = max(0, next(differing, 0) - _BEFORE_DIFFERENCE)
    return f"{_cut(before, start)} → {_cut(after, start)}"


def _cut(text: str, start: int) -> str:
    shown = text[start : start + _LONGEST]
    return f"{'…' if start else ''}{shown}{'…' if start + _LONGEST < len(text) else ''}"
