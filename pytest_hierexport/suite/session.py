"""What a session with models does at each of pytest's hooks."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_hierexport.errors import HierexportError
from pytest_hierexport.files import absolute
from pytest_hierexport.rules.base import Rule
from pytest_hierexport.suite import collection
from pytest_hierexport.suite.failures import CheckFailed
from pytest_hierexport.suite.items import RUN, ModelSuite
from pytest_hierexport.suite.recording import Recording
from pytest_hierexport.suite.run import KEPT, Run, known_failure_over, selected_cases
from pytest_hierexport.suite.session_cache import cache_of, warning
from pytest_hierexport.suite.settings import Settings, check_outputs, read_settings
from pytest_hierexport.suite.store import ExportStore

if TYPE_CHECKING:
    from xdist.scheduler import Scheduling
    from xdist.workermanage import WorkerController

    from pytest_hierexport.cases import Case

__all__ = ["start"]

_WORKER_INPUT = "hierexport"


def start(config: pytest.Config) -> None:
    """Select the models and take part in the session, if there are any to run.

    Raises:
        pytest.UsageError: What was asked for cannot be done.
    """
    try:
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
    if config.option.collectonly and hasattr(config.option, "disable_unused_snapshots"):
        # Nothing runs, so nothing can be unused; syrupy 7 says so all the same, and the listing would fail.
        config.option.disable_unused_snapshots = True
    config.pluginmanager.register(ModelsPlugin(run), "hierexport-models")
    run.scratch.mkdir(exist_ok=True)
    run.relay.touch()
    config.args = collection.arguments(run)


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
        run: str = config.workerinput[_WORKER_INPUT]  # type: ignore[attr-defined]  # xdist sets it
    else:
        run = uuid.uuid4().hex
    scratch = Path(tempfile.gettempdir()) / f"hierexport-{run}"
    outputs = [config.rootpath / KEPT, *settings.reports, *([settings.summary] if settings.summary else [])]
    cache = None if settings.cache is None else cache_of(config, settings.cache, scratch, outputs)
    store = ExportStore(scratch / "exports", run, cache)
    return Run(config, settings, tuple(selected_cases(settings)), scratch, store)


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def _is_ours(item: pytest.Item) -> bool:
    cls = getattr(item, "cls", None)
    return isinstance(cls, type) and issubclass(cls, ModelSuite)


def _rule(item: pytest.Item) -> object:
    callspec = getattr(item, "callspec", None)
    return None if callspec is None else callspec.params.get("must")


class ModelsPlugin:
    """The hooks of a session that has models."""

    def __init__(self, run: Run) -> None:
        """Serve the run."""
        self.run = run
        self.relayed = collection.relayed(run)
        self.by_id = any(collection.named_anchors(run).values())
        self.recording = Recording(run)

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
                f"hierexport: expected tests of {', '.join(missing)}; found none\n"
                "to do: see what keeps pytest from collecting the file that they hang on, a conftest or a plugin"
            )

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Say which models shall be exported once more, by one second process for all; fix what the cache compares."""
        from pytest_hierexport.rules import repeats
        from pytest_hierexport.rules.must_008 import RULE

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
                report.longrepr = known
            if isinstance(error, CheckFailed) or known is not None:
                # Its message says everything; torch logs hundreds of lines of debugging beside it.
                report.sections = [section for section in report.sections if not section[0].endswith(" log call")]
            self.recording.mark(report, item.cls.case, item, error)  # type: ignore[attr-defined]
        return report

    def _held(self, item: pytest.Item, report: pytest.TestReport) -> str | None:
        """Return what a rule shows that holds although it is known to fail; pytest says so in its own words."""
        must = _rule(item)
        if not report.failed or not isinstance(must, Rule):
            return None
        case: Case = item.cls.case  # type: ignore[attr-defined]
        known = case.known_failure(must.id)
        return None if known is None else known_failure_over(self.run, case, known)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note what became of a check, wherever it ran."""
        self.recording.add(report)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: WorkerController) -> None:
        """Give every worker the same exports."""
        node.workerinput[_WORKER_INPUT] = self.run.store.run

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> Scheduling | None:
        """Keep a model's tests on one worker where xdist is free to choose."""
        if config.getoption("dist") != "load":
            return None
        from pytest_hierexport.suite.scheduling import ByModel

        return ByModel(config, log)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the reports; remove the snapshots of models that are no longer selected."""
        if not _is_worker(session.config):
            self.recording.finish()

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the table of models and rules, and why the cache was of no use."""
        if not _is_worker(self.run.config):
            self.recording.print(terminalreporter)
            if not_kept := warning(self.run.scratch):
                terminalreporter.write_line(f"hierexport: {not_kept}", yellow=True)

    def pytest_unconfigure(self, config: pytest.Config) -> None:
        """Remove what the run wrote for itself."""
        if not _is_worker(config):
            shutil.rmtree(self.run.scratch, ignore_errors=True)
