"""Starts a session with models: reads the options, plans the run and registers the plugins that carry it out."""

from __future__ import annotations

import uuid

import pytest

from pytest_hierexport._errors import HierexportError, UsageError
from pytest_hierexport._files.temporary import use_folder_with_room
from pytest_hierexport._pytest import collection
from pytest_hierexport._pytest.crashes import Crashes
from pytest_hierexport._pytest.kept_files import FOLDER as KEPT
from pytest_hierexport._pytest.models import ModelsPlugin
from pytest_hierexport._pytest.outputs import check_folder, check_output
from pytest_hierexport._pytest.plan import Plan, selected_cases
from pytest_hierexport._pytest.reads import unrecorded
from pytest_hierexport._pytest.recording import Recording
from pytest_hierexport._pytest.run import RUN, Run
from pytest_hierexport._pytest.scratch import RunFolder, run_folder
from pytest_hierexport._pytest.session_cache import cache_of
from pytest_hierexport._pytest.settings import Settings, read_settings
from pytest_hierexport._pytest.store import ExportStore
from pytest_hierexport._pytest.summary import Summary
from pytest_hierexport._pytest.termination import TerminationPlugin
from pytest_hierexport._pytest.workers import RUN_ID, WorkersPlugin, is_worker

__all__ = ["start"]


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
    with unrecorded():
        warning = use_folder_with_room() if controls else ""
    settings = read_settings(config)
    run = _selected_run(config, settings)
    if run is None:
        return
    if controls:
        _check_outputs(settings)
    _ = run.plan.rules  # checked before any model is built
    config.stash[RUN] = run
    plugins: dict[str, object] = {"models": ModelsPlugin(run, Summary(Recording(run), [warning] if warning else []))}
    if controls:
        folder, workers = _folder_of(run), WorkersPlugin(run)
        plugins |= {"workers": workers, "termination": TerminationPlugin(workers.terminate), "folder": folder}
    for name, plugin in plugins.items():
        config.pluginmanager.register(plugin, f"hierexport-{name}")
    config.args = collection.arguments(run.plan)


def _check_outputs(settings: Settings) -> None:
    if settings.cache is not None:
        check_folder(settings.cache)
    for path in settings.outputs:
        check_output(path)


def _folder_of(run: Run) -> RunFolder:
    RunFolder.remove_dead(run.folder.parent)
    try:
        folder = RunFolder(run.folder)
        run.plan.relay.touch()
    except OSError as error:
        raise UsageError(
            "a folder for temporary files that can be written",
            found=str(error),
            do="name another with the environment variable TMPDIR",
        ) from None
    return folder


def _selected_run(config: pytest.Config, settings: Settings) -> Run | None:
    """Return the run; None where its models come from the ini and the command line names other paths."""
    if settings.given.models is None and config.args_source is config.ArgsSource.ARGS:
        try:
            run = _run(config, settings)
        except HierexportError:
            return None
        return run if collection.named_anchors(run.plan) else None
    return _run(config, settings)


def _run(config: pytest.Config, settings: Settings) -> Run:
    if is_worker(config):
        run: str = config.workerinput[RUN_ID]  # type: ignore[attr-defined]  # xdist sets it
    else:
        run = uuid.uuid4().hex
    folder = run_folder(run)
    outputs = [config.rootpath / KEPT, *settings.outputs]
    cache = None if settings.cache is None else cache_of(config, settings.cache, folder, outputs)
    plan = Plan(config, settings, selected_cases(settings), folder / "models")
    return Run(plan, ExportStore(folder / "exports", run, cache), Crashes(folder / "crashes"), folder)
