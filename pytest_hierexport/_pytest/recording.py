"""Collects pytest's reports, from all processes of a run, into the results."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_hierexport._cases.factories import line_of
from pytest_hierexport._report.results import Check, Model, Results, RuleText, Status

if TYPE_CHECKING:
    import pytest

    from pytest_hierexport._cases import Case
    from pytest_hierexport._pytest.run import Run

__all__ = ["Recording", "mark", "message_of", "relative"]

_MARK = "hierexport"


def mark(report: pytest.TestReport, case: Case, check: str, message: str) -> None:
    """Write the check of a report on it, which a worker sends to the controller."""
    setattr(report, _MARK, [case.name, check, message])


@dataclass
class Recording:
    """The results of a run's checks so far, in the process that reports."""

    run: Run
    checks: dict[str, dict[str, Check]] = field(default_factory=dict)
    """By model and check."""

    def add(self, report: pytest.TestReport) -> None:
        """Record a report; the worst phase of a check counts."""
        marked: list[str] | None = getattr(report, _MARK, None)
        if marked is None or (report.when != "call" and report.passed):
            return
        model, check, message = marked
        known = self.checks.setdefault(model, {}).get(check)
        if known is None or known.status is not Status.FAILED:
            self.checks[model][check] = Check(_status(report), message, report.duration)

    def results(self, orphans: list[Path] | None = None) -> Results:
        """Return the results so far, with the snapshots of models that are gone."""
        plan = self.run.plan
        rules = tuple(RuleText(rule.id, rule.promise, rule.cardinal) for rule in plan.rules)
        shown = tuple(relative(file, plan.config.rootpath) for file in orphans or ())
        return Results(rules, tuple(self._model(case) for case in plan.cases), shown)

    def _model(self, case: Case) -> Model:
        root, anchor = self.run.plan.config.rootpath, self.run.plan.anchor(case)
        file = case.anchor if case.anchor is not None and case.anchor.is_relative_to(root) else anchor
        shown = file if file.is_file() else root
        checks = self.checks.get(case.name, {})
        known: dict[str, Any] = {}
        outcome = self.run.store.known_outcome(case) if checks else None
        if outcome is not None:
            known = outcome.fields()
        return Model(
            name=case.name,
            source=case.source,
            anchor=relative(anchor, root),
            file=relative(shown, Path(os.environ.get("GITHUB_WORKSPACE", root))),
            line=line_of(shown, case.source.rpartition(":")[2]) if shown.suffix == ".py" else 1,
            checks=checks,
            **known,
        )


def relative(path: Path, root: Path) -> str:
    """Return a path from a folder, with `/` on every system."""
    return Path(os.path.relpath(path, root)).as_posix()


def _status(report: pytest.TestReport) -> Status:
    if report.passed:
        return Status.PASSED
    if report.failed:
        return Status.FAILED
    return Status.KNOWN if hasattr(report, "wasxfail") else Status.SKIPPED


def message_of(report: pytest.TestReport, error: BaseException | None) -> str:
    """Return the text that a report shows of a failure, or of a reason to skip; empty where it passed."""
    if report.passed:
        return ""
    message = getattr(error, "msg", None)
    return message if isinstance(message, str) else report.longreprtext
