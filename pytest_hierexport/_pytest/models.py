"""Answers pytest's hooks in a session with models: collects their items, records their reports, ends the run."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from pytest_hierexport._cases import Case
from pytest_hierexport._child import end_all
from pytest_hierexport._files.paths import absolute
from pytest_hierexport._files.temporary import keep_temporary_files_in
from pytest_hierexport._pytest import collection
from pytest_hierexport._pytest.items import export_before
from pytest_hierexport._pytest.messages import CheckedItem, CheckFailed
from pytest_hierexport._pytest.repeated import RepeatedFailures
from pytest_hierexport._pytest.run import Run
from pytest_hierexport._pytest.session_cache import warnings
from pytest_hierexport._pytest.snapshots import unused_ignored
from pytest_hierexport._pytest.suite import case_of
from pytest_hierexport._pytest.summary import Summary, mark
from pytest_hierexport._pytest.terminal import print_summary
from pytest_hierexport._pytest.workers import is_worker
from pytest_hierexport._report.results import SNAPSHOT
from pytest_hierexport._rules.base import Rule
from pytest_hierexport._stages import listening
from pytest_hierexport._text import first_names, one_line, printable

_TITLED = 8
"""The number of models that the header names."""


class ModelsPlugin:
    """The hooks of a session that has models."""

    def __init__(self, run: Run, summary: Summary, repeated: RepeatedFailures) -> None:
        self.run, self.plan, self.summary, self.repeated = run, run.plan, summary, repeated
        self.relayed = collection.relayed(run.plan)
        self.chosen = collection.chooses(run.plan)
        self._temporary_home = keep_temporary_files_in(run.folder)

    def pytest_report_header(self) -> str:
        """Name the models."""
        return one_line(f"hierexport: {first_names([case.name for case in self.plan.cases], _TITLED)}")

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
        """Collect the models of an anchor."""
        path = absolute(file_path)
        if path == self.plan.relay:
            node = collection.Relay.from_parent(parent, name=os.curdir, path=path)
            node.anchors = self.relayed
            return node
        cases = self.plan.anchors.get(path)
        return None if cases is None or path in self.relayed else collection.cases_file(parent, path, cases)

    @pytest.hookimpl(tryfirst=True)
    def pytest_pycollect_makemodule(self, module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
        """Stop pytest from importing a factory's file as a test module because it is among our arguments."""
        if collection.replaces_module(self.plan, module_path):
            return collection.cases_file(parent, module_path, ())
        return None

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Check that every model was collected: a missing one would not be noticed."""
        if config.getoption("lf", default=False) or self.chosen:
            return
        collected = _models_of(items)
        missing = [case.name for case in self.plan.cases if case.name not in collected]
        if missing:
            raise pytest.UsageError(
                f"hierexport: expected tests of {one_line(', '.join(missing))}; found none\n"
                "to do: find the conftest or plugin that keeps pytest from collecting the file of the models"
            )

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note which models have tests; identify the session for the cache."""
        self.summary.note_collected(_models_of(session.items))
        if self.run.store.cache is not None:
            self.run.store.cache.begin()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Measure the stages of a model's test."""
        case = case_of(item)
        if case is None:
            return (yield)
        self.run.clock.model = case.name
        with listening(self.run.clock.note):
            return (yield)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Export the model, where no test has needed it yet."""
        case = case_of(item)
        if case is not None and not item.config.getoption("setupplan", default=False):
            export_before(item, self.run, case, _check_of(item))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Mark a report with its check, for the process that writes the summary."""
        report = yield
        case = case_of(item)
        if case is None:
            return report
        check, error = _check_of(item), call.excinfo.value if call.excinfo else None
        known = case.known_failure(check) if error is None else None
        if report.failed and known is not None:
            # The rule passed; pytest's own message is "[XPASS(strict)]".
            report.longrepr = CheckedItem(self.run, case, item.name).outlived(known)
        stages = self.run.clock.taken()
        failure = error.failure if isinstance(error, CheckFailed) else None
        mark(report, case, check, _message(report, error), failure=failure, stages=stages)
        if report.failed and isinstance(error, CheckFailed):
            _shorten(report, error, self.plan.config.rootpath)
            self.repeated.tell_once(report, case, error)
        if report.when != "teardown":
            # JUnit's writer takes the properties from the report of the teardown.
            item.user_properties += _properties(self.run, case, check, report, stages)
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record a report of this process or a worker."""
        self.summary.add(report)

    def pytest_keyboard_interrupt(self) -> None:
        """Note that the run did not come to its end."""
        self.summary.interrupted = True

    # Around syrupy's end of the session and inside the terminal's.
    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None]:
        """Write the reports; remove the snapshots of models that are no longer selected."""
        with unused_ignored(session.config):
            yield
        if not is_worker(session.config):
            self.summary.finish()
            if not self.plan.cases and session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
                # A shard may have no model where there are more shards than models.
                session.exitstatus = pytest.ExitCode.OK
            if self.summary.fails and session.exitstatus == pytest.ExitCode.OK:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the table of models and rules, and the cache's warnings."""
        if not is_worker(self.plan.config):
            print_summary(self.summary, terminalreporter)
            for warning in warnings(self.run.folder):
                terminalreporter.write_line(one_line(f"hierexport: {warning}"), yellow=True)

    def pytest_unconfigure(self) -> None:
        """End the processes that exported again, and restore the folder for temporary files."""
        end_all()
        keep_temporary_files_in(self._temporary_home)


def _models_of(items: Iterable[pytest.Item]) -> set[str]:
    """Return the names of the models that items of ours test."""
    return {case.name for case in map(case_of, items) if case is not None}


def _check_of(item: pytest.Item) -> str:
    """Return what an item of ours checks: the id of a rule, or the snapshot."""
    callspec = getattr(item, "callspec", None)
    # A fixture of the project, or another plugin, may give the test parameters of its own.
    rule: Rule | None = None if callspec is None else callspec.params.get("must")
    return SNAPSHOT if rule is None else rule.id


def _shorten(report: pytest.TestReport, error: CheckFailed, root: Path) -> None:
    """Give pytest's summary, whose line is cut at the terminal's width, what broke and where.

    `--tb=line` and annotations show a place as well: that of the test, not a line of the plugin's.
    """
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None:
        crash.message = error.headline
        file, line, _ = report.location
        crash.path, crash.lineno = str(root / file), (line or 0) + 1


def _message(report: pytest.TestReport, error: BaseException | None) -> str:
    """Return the text that a report shows of a failure, or of a reason to skip; empty where it passed."""
    if report.passed:
        return ""
    text = getattr(error, "msg", None)
    return text if isinstance(text, str) else report.longreprtext


def _properties(
    run: Run, case: Case, check: str, report: pytest.TestReport, stages: Mapping[str, float]
) -> Iterator[tuple[str, object]]:
    """Yield the properties of a phase of a test that its JUnit report shows.

    model MODEL, rule MUST-002, exporter dynamo, nodes 84      with the call
    stage exporting, seconds exporting 4.1                     with each phase, what it spent its time on
    """
    for stage, seconds in stages.items():
        yield f"seconds {stage}", round(seconds, 3)
    if report.when == "call":
        outcome = run.store.known_outcome(case)
        if outcome is not None and outcome.error is not None:
            outcome = None
        yield "model", printable(case.name)
        yield "rule", check
        yield "exporter", outcome.exporter if outcome else ""
        yield "nodes", sum(outcome.coverage.values()) if outcome else 0
        yield "stage", "check" if outcome else "export"
