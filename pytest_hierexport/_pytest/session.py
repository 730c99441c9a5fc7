"""What a session with models does at each of pytest's hooks."""

from __future__ import annotations

import uuid
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_hierexport._calls.names import one_line, printable
from pytest_hierexport._errors import HierexportError
from pytest_hierexport._files.paths import absolute
from pytest_hierexport._files.temporary import keep_temporary_files_in, use_folder_with_room
from pytest_hierexport._pytest import collection
from pytest_hierexport._pytest.items import RUN, ModelSuite
from pytest_hierexport._pytest.reads import unrecorded
from pytest_hierexport._pytest.recording import Recording, message_of
from pytest_hierexport._pytest.run import KEPT, Run, known_failure_over, selected_cases
from pytest_hierexport._pytest.scratch import RunFolder, run_folder
from pytest_hierexport._pytest.session_cache import cache_of, warning
from pytest_hierexport._pytest.settings import Settings, check_outputs, read_settings
from pytest_hierexport._pytest.snapshots import unused_ignored
from pytest_hierexport._pytest.store import ExportStore
from pytest_hierexport._pytest.termination import TerminationPlugin
from pytest_hierexport._pytest.workers import RUN_ID, WorkersPlugin
from pytest_hierexport._report.results import SNAPSHOT
from pytest_hierexport._rules.base import Rule

if TYPE_CHECKING:
    from pytest_hierexport._cases import Case

__all__ = ["start"]


def start(config: pytest.Config) -> None:
    """Select the models and take part in the session, if there are any to run.

    Raises:
        pytest.UsageError: What was asked for cannot be done.
    """
    try:
        with unrecorded():
            warning = "" if _is_worker(config) else use_folder_with_room()
        settings = read_settings(config)
        run = _run(config, settings)
        if run is None:
            return
        if not _is_worker(config):
            check_outputs(settings)
        _ = run.rules
    except HierexportError as error:
        raise pytest.UsageError(f"hierexport: {error}") from None
    config.stash[RUN] = run
    recording = Recording(run)
    recording.warnings += [warning] if warning else []
    config.pluginmanager.register(ModelsPlugin(run, recording), "hierexport-models")
    if not _is_worker(config):
        workers = WorkersPlugin(run, recording)
        config.pluginmanager.register(workers, "hierexport-workers")
        config.pluginmanager.register(TerminationPlugin(workers.terminate), "hierexport-termination")
        config.pluginmanager.register(_own_folder(run), "hierexport-folder")
    config.args = collection.arguments(run)


def _own_folder(run: Run) -> RunFolder:
    RunFolder.remove_dead(run.scratch.parent)
    try:
        folder = RunFolder(run.scratch)
        run.relay.touch()
    except OSError as error:
        raise pytest.UsageError(
            f"hierexport: expected a folder for temporary files that can be written; found {error}\n"
            "to do: name another with the environment variable TMPDIR"
        ) from None
    return folder


def _run(config: pytest.Config, settings: Settings) -> Run | None:
    """Return the run; None where its models come from the ini and the command line names other paths."""
    if not settings.from_option and config.args_source is config.ArgsSource.ARGS:
        try:
            run = _make_run(config, settings)
        except HierexportError:
            return None
        return run if collection.named_anchors(run) else None
    return _make_run(config, settings)


def _make_run(config: pytest.Config, settings: Settings) -> Run:
    if _is_worker(config):
        run: str = config.workerinput[RUN_ID]  # type: ignore[attr-defined]  # xdist sets it
    else:
        run = uuid.uuid4().hex
    scratch = run_folder(run)
    outputs = [config.rootpath / KEPT, *settings.reports, *([settings.summary] if settings.summary else [])]
    cache = None if settings.cache is None else cache_of(config, settings.cache, scratch, outputs)
    store = ExportStore(scratch / "exports", run, cache)
    return Run(config, settings, tuple(selected_cases(settings)), scratch, store)


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def _is_ours(item: pytest.Item) -> bool:
    cls = getattr(item, "cls", None)
    return isinstance(cls, type) and issubclass(cls, ModelSuite)


def _rule(item: pytest.Item) -> Rule | None:
    callspec = getattr(item, "callspec", None)
    rule = None if callspec is None else callspec.params.get("must")
    return rule if isinstance(rule, Rule) else None


class ModelsPlugin:
    """The hooks of a session that has models."""

    def __init__(self, run: Run, recording: Recording) -> None:
        """Serve the run."""
        self.run = run
        self.relayed = collection.relayed(run)
        self.by_id = any(collection.named_anchors(run).values())
        self.recording = recording
        self._temporary_home = keep_temporary_files_in(run.scratch)

    def pytest_report_header(self) -> str:
        """Name the models."""
        return self.run.title()

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
        """Hang the models on their anchors."""
        path = absolute(file_path)
        if path == self.run.relay:
            return collection.relay(parent, path, self.relayed)
        cases = self.run.anchors.get(path)
        return collection.cases_file(parent, path, cases) if cases and path not in self.relayed else None

    @pytest.hookimpl(tryfirst=True)
    def pytest_pycollect_makemodule(self, module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
        """Keep pytest from importing a factory's file as a test module for our naming it."""
        if collection.replaces_module(self.run, module_path):
            return collection.cases_file(parent, module_path, ())
        return None

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """See that every model was collected: one that is missing would pass in silence."""
        if config.getoption("lf", default=False) or self.by_id:
            return
        collected = {item.cls.case.name for item in items if _is_ours(item)}  # type: ignore[attr-defined]
        missing = [case.name for case in self.run.cases if case.name not in collected]
        if missing:
            raise pytest.UsageError(
                f"hierexport: expected tests of {one_line(', '.join(missing))}; found none\n"
                "to do: see what keeps pytest from collecting the file that they hang on, a conftest or a plugin"
            )

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Say which models shall be exported once more, by one second process for all; fix what the cache compares."""
        from pytest_hierexport._rules import repeats
        from pytest_hierexport._rules.must_008 import RULE

        wanted = [item for item in session.items if _is_ours(item) and _rule(item) is RULE]
        repeats.announce([item.cls.case for item in wanted], self.run.scratch / "repeats")  # type: ignore[attr-defined]
        if self.run.store.cache is not None:
            self.run.store.cache.begin()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Tell the process that writes the summary which check the report is of."""
        report = yield
        if _is_ours(item):
            error = call.excinfo.value if call.excinfo else None
            known = self._held(item, report) if error is None else None
            if known is not None:
                report.longrepr = printable(known)
            rule = _rule(item)
            case: Case = item.cls.case  # type: ignore[attr-defined]
            self.recording.mark(report, case, SNAPSHOT if rule is None else rule.id, message_of(report, error))
        return report

    def _held(self, item: pytest.Item, report: pytest.TestReport) -> str | None:
        """Return what a rule shows that holds although it is known to fail; pytest says so in its own words."""
        must = _rule(item)
        if not report.failed or must is None:
            return None
        case: Case = item.cls.case  # type: ignore[attr-defined]
        known = case.known_failure(must.id)
        return None if known is None else known_failure_over(self.run, case, known)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note what became of a check, wherever it ran."""
        self.recording.add(report)

    # Around all that syrupy does and nothing that the terminal does.
    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None]:
        """Write the reports; remove the snapshots of models that are no longer selected."""
        with unused_ignored(session.config):
            yield
        if not _is_worker(session.config):
            self.recording.finish()
            if self.recording.fails and session.exitstatus == pytest.ExitCode.OK:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the table of models and rules, and why the cache was of no use."""
        if not _is_worker(self.run.config):
            self.recording.print(terminalreporter)
            if not_kept := warning(self.run.scratch):
                terminalreporter.write_line(f"hierexport: {not_kept}", yellow=True)

    def pytest_unconfigure(self) -> None:
        """Leave temporary files where they were."""
        keep_temporary_files_in(self._temporary_home)
