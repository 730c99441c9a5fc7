"""A counterexample and its repaired twin."""

from __future__ import annotations

from textwrap import dedent
from typing import NamedTuple

__all__ = ["Pair", "source"]


class Pair(NamedTuple):
    """Two versions of one piece of an exporter's source."""

    title: str
    hardcoded: str
    repaired: str


def source(block: str) -> str:
    """Return an indented block as a file's text."""
    return dedent(block).lstrip("\n")
