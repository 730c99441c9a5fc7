"""Composes the messages of failed items, from what a check found to the command that repeats it; no traceback.

bert: could not be exported
  expected  ...
  found     ...
  to do     ...
  kept      .hierexport/bert/model.onnx
  repeat    pytest --hierexport-models=bert .::bert::test_snapshot
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import pytest

from pytest_hierexport._cases import Case
from pytest_hierexport._cases.case import KnownFailure
from pytest_hierexport._errors import HierexportError
from pytest_hierexport._pytest import locating
from pytest_hierexport._pytest.commands import repeat_command
from pytest_hierexport._pytest.kept_files import keep_files
from pytest_hierexport._pytest.run import Run
from pytest_hierexport._report.failures import Failure, failure_of
from pytest_hierexport._rules.base import Rule, Violation, places
from pytest_hierexport._rules.messages import broken
from pytest_hierexport._snapshot.diff import Difference, headline, lines_of
from pytest_hierexport._text import aligned, one_line, printable

_NONE = Difference()


class CheckFailed(pytest.fail.Exception):  # type: ignore[name-defined,misc]  # an attribute pytest sets on a function
    """A check that failed; its message is complete, so no traceback is shown."""

    # As in pytest's own outcomes: other plugins show the name of the class, and have no room for our module.
    __module__ = "builtins"

    def __init__(self, text: str, failure: Failure | None = None, headline: str = "") -> None:
        # Names from a model may hold any character.
        super().__init__(printable(text), pytrace=False)
        self.failure = failure
        """The parts of the message, for reports."""
        self.headline = one_line(headline or text.partition("\n")[0])
        """What broke and where, in the few words that pytest's summary has room for."""


class RuleBroken(CheckFailed):
    """A violated rule, which a known failure excuses; it does not excuse a rule that could not run."""

    __module__ = "builtins"


@dataclass(frozen=True)
class CheckedItem:
    """An item that checks a case; it composes the errors by which the item fails."""

    run: Run
    case: Case
    test: str
    """The name of the item."""

    @cached_property
    def repeat(self) -> str:
        """The command that repeats the item."""
        return repeat_command(self.run.plan, self.case, self.test)

    def failed(self, title: str, finding: Violation, short: str = "", difference: Difference = _NONE) -> CheckFailed:
        """Return the error of a check that found one thing, with what differs from the snapshot."""
        expected, found, to_do = map(one_line, (finding.expected, finding.found, finding.do))
        changes = [f"    {line}" for line in lines_of(difference)]
        if changes:
            where = "\n".join(locating.places(self.run, self.case, difference))
            changes += ["", *aligned([("where", where)] if where else [])]
        above = [one_line(title), *aligned([("expected", expected), ("found", found)]), *changes]
        kept = keep_files(self.run, self.case)
        text = self._text([*above, *aligned([("to do", to_do)])], kept)
        return CheckFailed(text, failure_of([finding], kept, self.repeat, difference), short or headline(difference))

    def unchecked(self, title: str, error: HierexportError) -> CheckFailed:
        """Return the error of a check that could not run."""
        finding = Violation("", error.expected, error.found, error.do)
        return self.failed(f"{self.case.name}: {title}", finding, f"{title}: {error.found}")

    def broken(self, rule: Rule, violations: Sequence[Violation]) -> RuleBroken:
        """Return the error of a rule that is broken."""
        lines = [broken(rule, self.case.name, violations), ""]
        known = self.case.known_failure(rule.id)
        if known is not None and known.expired:
            lines.append(f"  the known failure ({known.reason}) expired on {known.until}")
        kept = keep_files(self.run, self.case)
        return RuleBroken(self._text(lines, kept), failure_of(violations, kept, self.repeat), _headline(violations))

    def outlived(self, known: KnownFailure) -> str:
        """Return the message for a rule that passes although it is known to fail."""
        parts = [
            ("expected", f"{known.rule} to fail, as is known until {known.until}: {known.reason}"),
            ("found", "it holds"),
            ("to do", f"remove the known failure from {self.run.plan.stated_in(self.case)}"),
            ("repeat", self.repeat),
        ]
        title = one_line(f"{self.case.name}: the known failure of {known.rule} is over")
        return printable("\n".join([title, *aligned(parts)]))

    def _text(self, lines: Sequence[str], kept: str) -> str:
        return "\n".join([*lines, *aligned([("kept", kept), ("repeat", self.repeat)])])


def _headline(violations: Sequence[Violation]) -> str:
    first = violations[0]
    number = f"{places(violations)}, " if len(violations) > 1 else ""
    return f"{number}{first.where}: {first.found}" if first.where else f"{number}{first.found}"
