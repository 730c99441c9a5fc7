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

import pytest

from pytest_hierexport._cases import Case
from pytest_hierexport._cases.case import KnownFailure
from pytest_hierexport._errors import HierexportError
from pytest_hierexport._pytest.commands import repeat_command
from pytest_hierexport._pytest.kept_files import keep_files
from pytest_hierexport._pytest.plan import Plan
from pytest_hierexport._pytest.run import Run
from pytest_hierexport._report.failures import Failure, failure_of
from pytest_hierexport._rules.base import Rule, Violation, places
from pytest_hierexport._rules.messages import broken
from pytest_hierexport._snapshot.diff import Difference
from pytest_hierexport._text import aligned, one_line, printable


@dataclass(frozen=True)
class Message:
    """The message of a failing item."""

    text: str
    failure: Failure | None = None
    """Its parts, for reports."""
    headline: str = ""
    """What broke and where, in the few words that pytest's summary has room for; else the first line of the text."""


class CheckFailed(pytest.fail.Exception):  # type: ignore[name-defined,misc]  # an attribute pytest sets on a function
    """A check that failed; its message is complete, so no traceback is shown."""

    # As in pytest's own outcomes: other plugins show the name of the class, and have no room for our module.
    __module__ = "builtins"

    def __init__(self, message: Message) -> None:
        # Names from a model may hold any character.
        super().__init__(printable(message.text), pytrace=False)
        self.failure = message.failure
        self.headline = one_line(message.headline or message.text.partition("\n")[0])


class RuleBroken(CheckFailed):
    """A violated rule, which a known failure excuses; it does not excuse a rule that could not run."""

    __module__ = "builtins"


def item_message(
    run: Run,
    case: Case,
    test: str,
    lines: Sequence[str],
    findings: Sequence[Violation],
    *,
    headline: str,
    difference: Difference | None = None,
) -> Message:
    """Keep the files of a failing case; return the message of its item, whose lines and findings say what failed."""
    kept, repeat = keep_files(run, case), repeat_command(run.plan, case, test)
    text = "\n".join([*lines, *aligned([("kept", kept), ("repeat", repeat)])])
    return Message(text, failure_of(findings, kept, repeat, difference), headline)


def error_message(run: Run, case: Case, test: str, title: str, error: HierexportError) -> Message:
    """Return the message of an item whose check could not run."""
    parts = [("expected", error.expected), ("found", error.found), ("to do", error.do)]
    lines = [one_line(f"{case.name}: {title}"), *aligned([(label, one_line(text)) for label, text in parts])]
    finding = Violation("", error.expected, error.found, error.do)
    return item_message(run, case, test, lines, [finding], headline=f"{title}: {error.found}")


def rule_message(run: Run, case: Case, test: str, rule: Rule, violations: Sequence[Violation]) -> Message:
    """Return the message of an item whose rule is broken."""
    lines = [broken(rule, case.name, violations), ""]
    known = case.known_failure(rule.id)
    if known is not None and known.expired:
        lines.append(f"  the known failure ({known.reason}) expired on {known.until}")
    return item_message(run, case, test, lines, violations, headline=_headline(violations))


def _headline(violations: Sequence[Violation]) -> str:
    first = violations[0]
    number = f"{places(violations)}, " if len(violations) > 1 else ""
    return f"{number}{first.where}: {first.found}" if first.where else f"{number}{first.found}"


def known_failure_message(plan: Plan, case: Case, test: str, known: KnownFailure) -> str:
    """Return the message of an item whose rule passes although it is known to fail."""
    parts = [
        ("expected", f"{known.rule} to fail, as is known until {known.until}: {known.reason}"),
        ("found", "it holds"),
        ("to do", f"remove the known failure from {plan.stated_in(case)}"),
        ("repeat", repeat_command(plan, case, test)),
    ]
    return "\n".join([one_line(f"{case.name}: the known failure of {known.rule} is over"), *aligned(parts)])
