"""Formats the violations of a rule, for test items and assertions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pytest_hierexport._text import one_line

if TYPE_CHECKING:
    from pytest_hierexport._rules.base import Rule, Violation

__all__ = ["aligned", "broken"]


def broken(rule: Rule, name: str, violations: Sequence[Violation], most: int = 10) -> str:
    """Return the rule, its promise, and where the model of that name breaks it; equal findings are listed once."""
    equal: dict[tuple[str, str, str], list[str]] = {}
    for violation in violations:
        equal.setdefault((violation.expected, violation.found, violation.do), []).append(violation.where)
    places = "1 place" if len(violations) == 1 else f"{len(violations)} places"
    lines = [f"{rule.id} {rule.promise}: {one_line(name)} breaks it in {places}"]
    for (expected, found, do), wheres in list(equal.items())[:most]:
        parts = [("where", _listed(wheres)), ("expected", expected), ("found", found), ("to do", do)]
        lines += [*aligned(parts), ""]
    if len(equal) > most:
        lines += [f"  … and {sum(map(len, list(equal.values())[most:]))} more places", ""]
    return "\n".join(lines[:-1])


def aligned(parts: Sequence[tuple[str, str]]) -> list[str]:
    """Return labelled texts, the lines of each below one another."""
    lines = []
    for label, text in parts:
        first, *more = text.splitlines() or [""]
        lines.append(f"  {label:<9} {first}".rstrip())
        lines += [f"  {'':<9} {line}".rstrip() for line in more]
    return lines


def _listed(wheres: Sequence[str], most: int = 5) -> str:
    more = f"\n… and {len(wheres) - most} more" if len(wheres) > most else ""
    return "\n".join(map(one_line, wheres[:most])) + more
