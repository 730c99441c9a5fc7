"""Starts a session with models: reads the options, plans the run and registers the plugins that carry it out."""

from __future__ import annotations

import os
import sys
import tempfile
import uuid
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_hierexport._cache.cache import Cache
from pytest_hierexport._errors import HierexportError, UsageError
from pytest_hierexport._files.temporary import use_folder_with_room
from pytest_hierexport._files.versions import check_requirements
from pytest_hierexport._pytest import collection
from pytest_hierexport._pytest.clock import StageClock
from pytest_hierexport._pytest.crashes import Crashes
from pytest_hierexport._pytest.guard import GuardPlugin
from pytest_hierexport._pytest.kept_files import FOLDER as KEPT
from pytest_hierexport._pytest.models import ModelsPlugin
from pytest_hierexport._pytest.options import Settings, read_settings
from pytest_hierexport._pytest.outputs import check_different, check_folder, check_output
from pytest_hierexport._pytest.plan import Plan, planned
from pytest_hierexport._pytest.progress import PROGRESS, ProgressPlugin, shows_progress
from pytest_hierexport._pytest.repeated import RepeatedFailures
from pytest_hierexport._pytest.run import RUN, Run
from pytest_hierexport._pytest.scratch import RunFolder
from pytest_hierexport._pytest.session_cache import cache_of
from pytest_hierexport._pytest.store import ExportStore
from pytest_hierexport._pytest.summary import Summary
from pytest_hierexport._pytest.termination import TerminationPlugin
from pytest_hierexport._pytest.time_limit import TimeLimit
from pytest_hierexport._pytest.workers import RUN_NAME, WorkersPlugin, is_worker, process_name


def start(config: pytest.Config) -> None:
    """Select the models and take part in the session, if there are any to run.

    Raises:
        pytest.UsageError: An option, a selector or a folder cannot be used.
    """
    try:
        _start(config)
    except HierexportError as error:
        raise pytest.UsageError(f"hierexport: {error}") from None


def _start(config: pytest.Config) -> None:
    controls = not is_worker(config)
    warning = use_folder_with_room() if controls else ""
    settings = read_settings(config)
    name: str = getattr(config, "workerinput", {}).get(RUN_NAME, f"hierexport-{uuid.uuid4().hex}")
    scratch = Path(tempfile.gettempdir()) / name
    plan = _selected_plan(config, settings, scratch / "models")
    if plan is None:
        return
    _check_system()
    check_requirements()
    if controls:
        _check_outputs(settings)
    rules = plan.rules  # checked before any model is built
    # The cache may leave a warning in the run folder, which only a run removes: no check comes after it.
    run = _run(plan, scratch, cache_of(config, settings, scratch, [config.rootpath / KEPT, *settings.outputs]))
    if run.store.cache is not None:
        run.store.cache.share([*(rule.check for rule in rules), *(case.factory for case in plan.cases)])
    config.stash[RUN] = run
    summary, repeated = Summary(run, [warning] if warning else []), RepeatedFailures()
    plugins: dict[str, object] = {"models": ModelsPlugin(run, summary, repeated), "repeated": repeated}
    plugins["time_limit"] = run.time_limit
    if controls:
        folder, workers = _made_folder(run), WorkersPlugin(run, summary)
        plugins |= {"workers": workers, "termination": TerminationPlugin(workers.terminate), "folder": folder}
        plugins["guard"] = GuardPlugin(run, summary, folder.remove)
        if shows_progress(config):
            (run.folder / PROGRESS).mkdir(exist_ok=True)
            plugins["progress"] = ProgressPlugin(config, run.folder / PROGRESS)
    for name, plugin in plugins.items():
        config.pluginmanager.register(plugin, f"hierexport-{name}")
    config.args = collection.arguments(plan)


def _check_system() -> None:
    """Refuse a system without forks, signals that interrupt, and pipes that can be polled: the limit needs them."""
    if not hasattr(os, "fork"):
        raise UsageError(
            "Linux or macOS to check models on",
            found=sys.platform,
            do="run there, in WSL or in a container; without models the other tests run: pytest -p no:hierexport",
        )


def _check_outputs(settings: Settings) -> None:
    if isinstance(settings.chosen.cache, Path):
        check_folder(settings.chosen.cache)
    stored = [settings.durations] if settings.chosen.store_durations else []
    check_different([*settings.outputs, *stored])
    for path in settings.outputs:
        check_output(path)


def _made_folder(run: Run) -> RunFolder:
    RunFolder.remove_dead(run.folder.parent)
    folder = RunFolder(run.folder)
    try:
        folder.make()
        run.plan.relay.touch()
    except OSError as error:
        raise UsageError(
            "a folder for temporary files that can be written",
            found=str(error),
            do="name another with the environment variable TMPDIR",
        ) from None
    return folder


def _selected_plan(config: pytest.Config, settings: Settings, relay: Path) -> Plan | None:
    """Return the plan; None where no model is selected, or by the ini alone and the command line names other paths."""
    asked = settings.given.models is not None or config.args_source is not config.ArgsSource.ARGS
    try:
        plan = planned(config, settings, relay)
    except HierexportError:
        if asked or collection.names_a_file(config, [*settings.manifests, *filter(None, [config.inipath])]):
            raise
        return None
    if not plan.selected:
        return None
    if not asked and not collection.named_anchors(plan):
        config.pluginmanager.register(SimpleNamespace(pytest_report_header=lambda: collection.not_named(plan)))
        return None
    return plan


def _run(plan: Plan, folder: Path, cache: Cache | None) -> Run:
    process = process_name(plan.config)
    limit, clock = TimeLimit(folder / "hangs", process), StageClock(folder / PROGRESS / f"{process}.json")
    return Run(plan, ExportStore(folder / "exports", cache), Crashes(folder / "crashes"), folder, limit, clock)
