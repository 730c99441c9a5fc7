"""From pytest's reports to the results, and from the results to everything that is printed and written."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_hierexport._calls.names import one_line
from pytest_hierexport._cases.factories import line_of
from pytest_hierexport._pytest.annotations import error_commands
from pytest_hierexport._pytest.outputs import write_output
from pytest_hierexport._report.results import SNAPSHOT, Check, Model, Results, RuleText, Verdict, warnings_of

if TYPE_CHECKING:
    import pytest

    from pytest_hierexport._cases import Case
    from pytest_hierexport._pytest.run import Run

__all__ = ["Recording", "message_of"]

_MARK = "hierexport"


@dataclass
class Recording:
    """What the checks of a run came to, gathered in the process that reports."""

    run: Run
    checks: dict[str, dict[str, Check]] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)
    written: list[Path] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    """What the run could not do beside its checks."""
    orphans: list[Path] = field(default_factory=list)
    """The snapshots of models that are gone and were not removed."""

    def mark(self, report: pytest.TestReport, case: Case, check: str, message: str) -> None:
        """Write on a report which check of which model it is of; it goes from worker to controller with it."""
        setattr(report, _MARK, [case.name, check, message])

    def add(self, report: pytest.TestReport) -> None:
        """Note a report; of a check's phases the worst counts."""
        mark: list[str] | None = getattr(report, _MARK, None)
        if mark is None or (report.when != "call" and report.passed):
            return
        model, check, message = mark
        known = self.checks.setdefault(model, {}).get(check)
        if known is None or known.verdict is not Verdict.FAILED:
            self.checks[model][check] = Check(_verdict(report), message, report.duration)

    def results(self) -> Results:
        """Return the results so far."""
        rules = tuple(RuleText(rule.id, rule.promise, rule.cardinal) for rule in self.run.rules)
        orphans = tuple(_relative(file, self.run.config.rootpath) for file in self.orphans)
        return Results(rules, tuple(self._model(case) for case in self.run.cases), orphans)

    def finish(self) -> None:
        """Look for orphaned snapshots and write what was asked for; nothing where no check ran."""
        if not self.results().began:
            return
        self._settle_snapshots(self.results())
        results = self.results()
        from pytest_hierexport._report import as_html, as_json, as_markdown

        for path in self.run.settings.reports:
            self._write(path, as_html(results) if path.suffix == ".html" else as_json(results))
        if self.run.settings.summary is not None:
            self._write(self.run.settings.summary, as_markdown(results))

    @property
    def fails(self) -> bool:
        """Whether the run fails though no check did: a snapshot is required to have a model."""
        return bool(self.orphans) and self.run.settings.require_snapshots

    def print(self, reporter: pytest.TerminalReporter) -> None:
        """Print the table, what must be said, and the annotations of a pull request."""
        results = self.results()
        if not results.began:
            return
        from pytest_hierexport._report import as_lines

        reporter.write_sep("=", "hierexport")
        for line in as_lines(results):
            reporter.write_line(one_line(line))
        for line in warnings_of(results):
            reporter.write_line(one_line(line), red=True, bold=True)
        for line in self._orphan_lines():
            reporter.write_line(one_line(line), red=self.fails)
        for line in self._outcome_lines(results):
            reporter.write_line(one_line(line))
        for warning in self.warnings:
            reporter.write_line(one_line(f"warning: {warning}"), yellow=True)
        if os.environ.get("GITHUB_ACTIONS") == "true":
            for line in error_commands(results):
                reporter.write_line(one_line(line))

    def _outcome_lines(self, results: Results) -> list[str]:
        skipped = {
            check.message
            for model in results.models
            for name, check in model.checks.items()
            if name == SNAPSHOT and check.verdict is Verdict.SKIPPED
        }
        removed = f"removed snapshots of models that are no longer selected: {', '.join(self.removed)}"
        written = (f"written: {path}" for path in self.written)
        return [*sorted(skipped), *([removed] if self.removed else []), *written]

    def _write(self, path: Path, text: str) -> None:
        try:
            write_output(path, text)
        except OSError as error:
            self.warnings.append(f"{path} was not written: {error.strerror or error}")
        else:
            self.written.append(path)

    def _orphan_lines(self) -> list[str]:
        if not self.orphans:
            return []
        from pytest_hierexport._pytest.snapshots import update_all

        return [f"  to do  where they are gone for good, remove their snapshots: {update_all(self.run)}"]

    def _settle_snapshots(self, results: Results) -> None:
        """Update the lists of snapshots; find those whose models are gone, and remove them in an update."""
        from pytest_hierexport._pytest.snapshot_lists import find_orphans, update_lists
        from pytest_hierexport._pytest.stale import is_complete, removes_orphans

        complete = is_complete(self.run, results)
        removes = complete and removes_orphans(self.run, results)
        try:
            self.removed = update_lists(self.run, results, complete=removes)
            self.orphans = find_orphans(self.run) if complete else []
        except OSError as error:
            self.warnings.append(f"the list of snapshots was not written: {error}")

    def _model(self, case: Case) -> Model:
        root, anchor = self.run.config.rootpath, self.run.anchor(case)
        file = case.anchor if case.anchor is not None and case.anchor.is_relative_to(root) else anchor
        shown = file if file.is_file() else root
        checks = self.checks.get(case.name, {})
        known: dict[str, Any] = {}
        entry = self.run.store.known(case) if checks else None
        if entry is not None:
            known = {
                "exporter": entry.exporter,
                "notes": entry.notes,
                "warnings": entry.warnings,
                "coverage": dict(entry.coverage),
                "hierarchy": entry.hierarchy,
            }
        return Model(
            name=case.name,
            source=case.source,
            anchor=_relative(anchor, root),
            file=_relative(shown, Path(os.environ.get("GITHUB_WORKSPACE", root))),
            line=line_of(shown, case.source.rpartition(":")[2]) if shown.suffix == ".py" else 1,
            checks=checks,
            **known,
        )


def _relative(path: Path, root: Path) -> str:
    return Path(os.path.relpath(path, root)).as_posix()


def _verdict(report: pytest.TestReport) -> Verdict:
    if report.passed:
        return Verdict.PASSED
    if report.failed:
        return Verdict.FAILED
    return Verdict.KNOWN if hasattr(report, "wasxfail") else Verdict.SKIPPED


def message_of(report: pytest.TestReport, error: BaseException | None) -> str:
    """Return what a report shows of a failure, or of a reason to skip; the empty text where it passed."""
    if report.passed:
        return ""
    message = getattr(error, "msg", None)
    return message if isinstance(message, str) else report.longreprtext
