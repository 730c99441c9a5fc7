"""Formats the violations of a rule, for test items and assertions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pytest_hierexport._rules.base import Rule, Violation, left_out, places
from pytest_hierexport._text import aligned, one_line

_Finding = tuple[str, str, str]
"""What was expected, what was found, what to do."""
_MOST_FINDINGS, _MOST_PLACES = 10, 5
"""How many different findings are shown, and of each how many places."""


def broken(rule: Rule, name: str, violations: Sequence[Violation]) -> str:
    """Return the rule, its promise, and where the model of that name breaks it.

    Equal findings are listed once, and what is to be done about several findings in a row is said below the last.
    """
    equal: dict[_Finding, list[str]] = {}
    more: Counter[_Finding | None] = Counter()
    last: _Finding | None = None
    for violation in violations:
        if counted := left_out(violation):
            # They are like the last: of a finding that several places share, or each with one of its own.
            more[last if last is not None and len(equal[last]) > 1 else None] += counted
        else:
            last = violation.expected, violation.found, violation.do
            equal.setdefault(last, []).append(violation.where)
    lines = [f"{rule.id} {rule.promise}: {one_line(name)} breaks it in {places(violations)}"]
    shown = list(equal)[:_MOST_FINDINGS]
    for i, finding in enumerate(shown):
        expected, found, do = finding
        parts = [("where", _listed(equal[finding], more[finding])), ("expected", expected), ("found", found)]
        if [other[2] for other in shown[i + 1 : i + 2]] != [do]:
            parts.append(("to do", do))
        lines += [*aligned(parts), ""]
    if rest := more[None] + sum(len(equal[finding]) + more[finding] for finding in list(equal)[_MOST_FINDINGS:]):
        lines += [f"  … and {rest} more place{'' if rest == 1 else 's'}", ""]
    return "\n".join(lines[:-1])


def _listed(wheres: Sequence[str], counted: int) -> str:
    rest = counted + len(wheres[_MOST_PLACES:])
    return "\n".join([*map(one_line, wheres[:_MOST_PLACES]), *([f"… and {rest} more"] if rest else [])])
