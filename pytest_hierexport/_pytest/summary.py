"""Collects the checks of a run from all its processes, and writes the reports at its end."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_hierexport._cases import Case
from pytest_hierexport._errors import HierexportError
from pytest_hierexport._files.paths import relative
from pytest_hierexport._files.versions import commit, installed_versions
from pytest_hierexport._pytest.crashes import Crash
from pytest_hierexport._pytest.messages import CheckedItem
from pytest_hierexport._pytest.orphans import Orphans, settle
from pytest_hierexport._pytest.outputs import write_output
from pytest_hierexport._pytest.run import Run
from pytest_hierexport._pytest.shards import store_durations
from pytest_hierexport._report import as_markdown, rendered
from pytest_hierexport._report.failures import Failure
from pytest_hierexport._report.results import SNAPSHOT, Check, Model, Part, Results, RuleText, Status
from pytest_hierexport._snapshot.diff import Difference

if TYPE_CHECKING:
    import pytest

_MARK = "hierexport"
_DISTRIBUTIONS = (
    *("pytest-hierexport", "torch", "transformers", "onnx", "onnx-ir", "onnxscript", "onnxruntime"),
    *("pytest", "syrupy", "numpy"),
)
"""The packages whose versions a report tells."""


def mark(
    report: pytest.TestReport,
    case: Case,
    check: str,
    message: str,
    *,
    failure: Failure | None,
    stages: Mapping[str, float] = {},
) -> None:
    """Write the check of a report on it, and the seconds of its stages, which a worker sends to the controller."""
    setattr(report, _MARK, [case.name, check, message, failure, dict(stages)])


def mark_crash(run: Run, report: pytest.TestReport, item: tuple[Case, str, str], crash: Crash) -> None:
    """Write on a report that the model of an item ended a process, or did not finish in time."""
    case, test, check = item
    error = run.crash_error(case, crash)
    failed = CheckedItem(run, case, test).unchecked(error.ended, error)
    report.longrepr = failed.msg
    mark(report, case, check, failed.msg, failure=failed.failure)


@dataclass
class Summary:
    """The checks of a run and what it comes to, in the process that reports."""

    run: Run
    warnings: list[str]
    """Failures of the run outside its checks, such as a report that was not written."""
    checks: dict[str, dict[str, Check]] = field(default_factory=dict)
    """By model and check."""
    orphans: Orphans = field(default_factory=Orphans)
    """The snapshots of models that are gone."""
    written: list[Path] = field(default_factory=list)
    durations: dict[str, float] = field(default_factory=dict)
    """The seconds of each test by its id."""
    stages: dict[str, Counter[str]] = field(default_factory=dict)
    """The seconds of each stage by model."""
    collected: set[str] = field(default_factory=set)
    """The names of the models of which at least one test was selected."""
    is_collected: bool = False
    """Whether the tests were collected; all models may be deselected."""
    started: float = field(default_factory=time.time)
    interrupted: bool = False
    """Whether Ctrl-C or SIGTERM ended the run."""

    @property
    def fails(self) -> bool:
        """Whether the run fails for orphans although every check passed."""
        return bool(self.orphans.files and self.run.plan.settings.chosen.require_snapshots)

    def note_collected(self, models: Collection[str]) -> None:
        """Record the names of models with tests, as this process or a worker collected them."""
        self.collected.update(models)
        self.is_collected = True

    def add(self, report: pytest.TestReport) -> None:
        """Record a report; the worst phase of a check counts."""
        marked: list[Any] | None = getattr(report, _MARK, None)
        if marked is None:
            return
        model, check, message, failure, stages = marked
        self.durations[report.nodeid] = self.durations.get(report.nodeid, 0.0) + report.duration
        self.stages.setdefault(model, Counter()).update(stages)
        if report.when != "call" and report.passed:
            return
        known = self.checks.setdefault(model, {}).get(check)
        if known is None or known.status is not Status.FAILED:
            self.checks[model][check] = Check(_status(report), message, report.duration, failure)

    def finish(self) -> None:
        """Settle the snapshots and write the reports; do nothing where no check was to run."""
        plan = self.run.plan
        # The report of a shard without tests tells that the shard ran; that of an interrupted run, that none did.
        is_empty = plan.settings.chosen.shard is not None and self.is_collected and not self.collected
        tells = is_empty or self.interrupted
        if not self.checks and (not tells or plan.config.option.collectonly):
            return
        try:
            self.orphans = settle(plan, self.results())
        except OSError as error:
            self.warnings.append(f"the list of snapshots was not written: {error}")
        self._store_durations()
        results, chosen = self.results().without_deselected(self.collected), plan.settings.chosen
        if chosen.report:
            reported = self._with_modules(results)
            for path in chosen.report:
                self._write(path, rendered(reported, path))
        if chosen.summary is not None:
            self._write(chosen.summary, as_markdown(results))

    def _store_durations(self) -> None:
        settings = self.run.plan.settings
        if not settings.chosen.store_durations or not self.durations:
            return
        try:
            store_durations(settings.durations, self.durations)
        except HierexportError as error:
            self.warnings.append(f"the durations were not written: {error}")
        except OSError as error:
            # Its file name may be one that is made first, and moved.
            self.warnings.append(f"the durations were not written: {settings.durations}: {error.strerror or error}")
        else:
            self.written.append(settings.durations)

    def _write(self, path: Path, text: str) -> None:
        try:
            write_output(path, text)
        except OSError as error:
            self.warnings.append(f"{path} was not written: {error.strerror or error}")
        else:
            self.written.append(path)

    def results(self) -> Results:
        """Return the results so far."""
        plan = self.run.plan
        rules = tuple(RuleText(rule.id, rule.promise, rule.cardinal) for rule in plan.rules)
        orphans = tuple(relative(file, plan.config.rootpath) for file in self.orphans.files)
        shard = plan.settings.chosen.shard
        return Results(
            rules,
            tuple(self._model(case) for case in plan.cases),
            orphans,
            versions=installed_versions(_DISTRIBUTIONS),
            started=self.started,
            ended=time.time(),
            part=None if shard is None else Part(shard.index, shard.count, tuple(case.name for case in plan.selected)),
            interrupted=self.interrupted,
        )

    def _with_modules(self, results: Results) -> Results:
        """Return the results with what reports alone show: the commit, and the modules of every model."""
        plan = self.run.plan
        known = {case.name: self.run.store.known_outcome(case) for case in plan.cases if self.checks.get(case.name)}
        models = tuple(
            model if (outcome := known.get(model.name)) is None else replace(model, modules=outcome.modules())
            for model in results.models
        )
        return replace(results, models=models, commit=commit(plan.config.rootpath))

    def _model(self, case: Case) -> Model:
        plan = self.run.plan
        root = plan.config.rootpath
        file, line = plan.place(case)
        checks = self.checks.get(case.name, {})
        outcome = self.run.store.known_outcome(case) if checks else None
        applicable = plan.applicable(case)
        return Model(
            name=case.name,
            source=case.source,
            anchor=relative(plan.anchor(case), root),
            file=relative(file, Path(os.environ.get("GITHUB_WORKSPACE", root))),
            line=line,
            checks=checks,
            committed=self._committed(case) if outcome else "",
            stages={stage: round(seconds, 3) for stage, seconds in self.stages.get(case.name, {}).items()},
            inapplicable=tuple(rule.id for rule in plan.rules if rule not in applicable),
            **({} if outcome is None else outcome.fields()),
        )

    def _committed(self, case: Case) -> str:
        """Return the text of a case's snapshot where its check found changes; an export that failed has none."""
        check = self.checks.get(case.name, {}).get(SNAPSHOT)
        failure = (check.failure if check else None) or {}
        if not any(failure.get(kind.name) for kind in fields(Difference)):
            return ""
        with suppress(OSError, ValueError):
            return self.run.plan.snapshot(case).read_text(encoding="utf-8")
        return ""


def _status(report: pytest.TestReport) -> Status:
    if report.passed:
        return Status.PASSED
    if report.failed:
        return Status.FAILED
    return Status.KNOWN if hasattr(report, "wasxfail") else Status.SKIPPED
