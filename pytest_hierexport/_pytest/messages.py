"""Words the failures of items, from what a check found to the command that repeats it: a message, no traceback.

bert: could not be exported
  expected  ...
  found     ...
  to do     ...
  kept      .hierexport/bert/model.onnx
  repeat    pytest --hierexport-models=bert .::bert::test_snapshot
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import pytest

from pytest_hierexport._errors import CrashError, HangError, HierexportError
from pytest_hierexport._pytest.kept_files import keep_files
from pytest_hierexport._report.failures import Failure, Finding
from pytest_hierexport._report.results import item_name
from pytest_hierexport._rules.messages import aligned, broken
from pytest_hierexport._text import one_line, printable

if TYPE_CHECKING:
    from pytest_hierexport._cases import Case
    from pytest_hierexport._cases.case import KnownFailure
    from pytest_hierexport._pytest.crashes import Crash
    from pytest_hierexport._pytest.plan import Plan, Run
    from pytest_hierexport._rules.base import Rule, Violation

__all__ = [
    "CheckFailed",
    "Ends",
    "Message",
    "RuleBroken",
    "crash_error",
    "error_message",
    "known_failure_message",
    "repeat_command",
    "rule_message",
    "update_command",
]


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


def repeat_command(plan: Plan, case: Case, test: str, *more: str) -> str:
    """Return the command that runs one item again, with more options, from the folder that pytest was started in."""
    item = plan.item_id(case, test, plan.config.invocation_params.dir)
    return shlex.join(["pytest", *more, *_options(plan, [case.source]), item])


def update_command(plan: Plan) -> str:
    """Return the command that updates all models' snapshots, removes orphans and keeps other tests' snapshots."""
    return shlex.join(["pytest", *_options(plan, plan.settings.selectors), "-m", "hierexport", "--snapshot-update"])


def _options(plan: Plan, selectors: Sequence[str]) -> list[str]:
    file, root = plan.config.getoption("inifilename"), plan.config.getoption("rootdir")
    own = [*(["-c", str(file)] if file else []), *([f"--rootdir={root}"] if root else [])]
    return [*own, *plan.settings.arguments(selectors)]


@dataclass(frozen=True)
class Ends:
    """The ends of every message: the files that are kept and the command that repeats the item."""

    kept: str
    repeat: str

    @classmethod
    def of(cls, run: Run, case: Case, test: str) -> Ends:
        """Keep the case's files, and return the ends of the message of one of its items."""
        return cls(keep_files(run, case), repeat_command(run.plan, case, test))

    def block(self, parts: Sequence[tuple[str, str]]) -> list[str]:
        """Return the labelled lines of a message."""
        return aligned([*parts, ("kept", self.kept), ("repeat", self.repeat)])


def error_message(run: Run, case: Case, test: str, title: str, error: HierexportError) -> Message:
    """Return the message of an item whose check could not run."""
    parts = [("expected", error.expected), ("found", error.found), ("to do", error.do)]
    shown, ends = [(label, one_line(text)) for label, text in parts], Ends.of(run, case, test)
    text = "\n".join([one_line(f"{case.name}: {title}"), *ends.block(shown)])
    failure = Failure.of([Finding(error.expected, error.found, error.do)], ends.kept, ends.repeat)
    return Message(text, failure, f"{title}: {error.found}")


def crash_error(run: Run, case: Case, crash: Crash) -> CrashError:
    """Return the error of the tests of a model that ended a process, or did not finish in time."""
    found = f"{crash.process} {crash.ending} in {crash.test}"
    if crash.hung:
        return HangError(
            f"each test of {crash.model} to finish in its time",
            found=found,
            do="find what it waits for; where it needs longer, give it more time with --hierexport-timeout, or timeout "
            "in a manifest",
        )
    repeat = repeat_command(run.plan, case, crash.test, "-n0")
    return CrashError(
        f"{crash.model} to run without ending its process",
        found=found,
        do=f"run that test without workers, where all that it prints is seen: {repeat}",
    )


def rule_message(run: Run, case: Case, rule: Rule, violations: Sequence[Violation]) -> Message:
    """Return the message of an item whose rule is broken."""
    lines = [broken(rule, case.name, violations), ""]
    known = case.known_failure(rule.id)
    if known is not None and known.expired:
        lines.append(f"  the known failure ({known.reason}) expired on {known.until}")
    ends = Ends.of(run, case, item_name(rule.id))
    findings = [Finding(**asdict(violation)) for violation in violations]
    failure = Failure.of(findings, ends.kept, ends.repeat)
    return Message("\n".join([*lines, *ends.block([])]), failure, _headline(findings))


def _headline(findings: Sequence[Finding]) -> str:
    first = findings[0]
    places = f"{len(findings)} places, " if len(findings) > 1 else ""
    return f"{places}{first.where}: {first.found}" if first.where else f"{places}{first.found}"


def known_failure_message(plan: Plan, case: Case, known: KnownFailure) -> str:
    """Return the message of an item whose rule passes although it is known to fail."""
    parts = [
        ("expected", f"{known.rule} to fail, as is known until {known.until}: {known.reason}"),
        ("found", "it holds"),
        ("to do", f"remove the known failure from {case.manifest}"),
        ("repeat", repeat_command(plan, case, item_name(known.rule))),
    ]
    return "\n".join([one_line(f"{case.name}: the known failure of {known.rule} is over"), *aligned(parts)])
