"""Connects the cache to a session of pytest: when recording starts, what identifies the session, what users see."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path

import pytest

from pytest_hierexport._cache.cache import SIZE, Cache
from pytest_hierexport._cache.reads import Reads
from pytest_hierexport._cache.upkeep import is_cache_alone
from pytest_hierexport._files.atomic import write_new
from pytest_hierexport._files.listings import names_in
from pytest_hierexport._files.paths import PACKAGE, digest_of_all, is_installed, text_digest
from pytest_hierexport._files.unrecorded import unrecorded
from pytest_hierexport._pytest.kept_files import CACHE
from pytest_hierexport._pytest.options import Settings
from pytest_hierexport._text import first_names

_READS: pytest.StashKey[Reads] = pytest.StashKey()
_EARLY: pytest.StashKey[list[str]] = pytest.StashKey()
_NOT_KEPT = "results are not kept for later runs"
_PROGRAM = "they started a program or connected to a machine, whose part cannot be seen"

# fmt: off
_SELECT_OR_REPORT = frozenset({
    # pytest
    "basetemp", "cacheclear", "cacheshow", "capture", "code_highlight", "collectonly", "color",
    "continue_on_collection_errors", "debug", "deselect", "disable_warnings", "durations", "durations_min",
    "failedfirst", "file_or_dir", "fold_skipped", "force_short_summary", "fulltrace", "ignore", "ignore_glob",
    "junitprefix", "keyword", "last_failed_no_failures", "lf", "log_file", "markexpr", "maxfail", "newfirst",
    "no_header", "no_summary", "pastebin", "plugins", "quiet", "reportchars", "setuponly", "setupshow",
    "show_fixtures_per_test", "showcapture", "showfixtures", "showlocals", "stepwise", "stepwise_reset",
    "stepwise_skip", "tbstyle", "trace", "traceconfig", "usepdb", "usepdb_cls", "verbose", "xfail_tb", "xmlpath",
    # pytest-xdist
    "dist", "distload", "loadgroup", "loadscopereorder", "looponfail", "maxprocesses", "maxschedchunk",
    "maxworkerrestart", "numprocesses", "px", "rsyncdir", "rsyncignore", "testrunuid", "tx",
    # syrupy
    "diff_mode", "disable_unused_snapshots", "include_snapshot_details", "no_cleanup", "no_colors",
    "patch_pycharm_diff", "update_new_snapshots_only", "update_snapshots", "warn_unused_snapshots",
    # pytest-hierexport
    "hierexport_after", "hierexport_cache", "hierexport_cache_push", "hierexport_cache_size", "hierexport_durations",
    "hierexport_fast", "hierexport_models", "hierexport_report", "hierexport_require_snapshots", "hierexport_rules",
    "hierexport_shard", "hierexport_store_durations", "hierexport_summary", "hierexport_timeout",
})
# fmt: on
"""The options that only say which tests run, where, and what is shown of them; every other option counts."""


def watch(config: pytest.Config) -> None:
    """Record what is read from now on, and which plugins of the project were loaded before: what they read is lost."""
    loaded = _plugins(config.pluginmanager)
    config.stash[_EARLY] = [name for name, file in loaded if not is_installed(Path(file))]
    config.stash[_READS] = reads = Reads()
    reads.start()
    reads.expect([config.inipath] if config.inipath else [])
    config.add_cleanup(reads.stop)


def cache_of(config: pytest.Config, settings: Settings, scratch: Path, outputs: Sequence[Path]) -> Cache | None:
    """Return the cache of a session, None where there is none, or where what the session reads was not recorded.

    Workers leave warnings in the run folder, `scratch`; the outputs, which the run writes, are no inputs of results.
    """
    chosen = settings.chosen
    if chosen.cache is None:
        return None
    early = config.stash.get(_EARLY, ["this plugin, by a conftest.py,"])
    if early:
        _warn(scratch, _NOT_KEPT, f"{', '.join(early)} was loaded before what the project reads could be noted")
        return None
    reads, folder, remote = config.stash[_READS], chosen.cache, None
    bound = SIZE if chosen.cache_size is None else chosen.cache_size
    if isinstance(folder, str):
        from pytest_hierexport._cache.places import without_login
        from pytest_hierexport._cache.remote import Remote

        warn = partial(_warn, scratch, f"the cache {without_login(folder)} was not used, or not always")
        remote = Remote(folder, pushes=bool(chosen.cache_push), largest=bound, warn=warn)
        folder = config.rootpath / CACHE
    reads.outside += outputs
    if is_cache_alone(folder):
        reads.outside.append(folder)
    if config.pluginmanager.has_plugin("cacheprovider"):
        folder_of_pytest = os.path.expandvars(Path(config.getini("cache_dir")).expanduser())  # as pytest reads it
        reads.outside.append(config.rootpath / folder_of_pytest)
    return Cache(
        folder,
        reads,
        facts=partial(session_facts, config),
        warn=partial(_warn, scratch, _NOT_KEPT),
        unkept=lambda model: _note(scratch, "unkept", model, model),
        say=partial(_say, config),
        bound=bound,
        remote=remote,
    )


def session_facts(config: pytest.Config) -> dict[str, object]:
    """Return what identifies a session before a model is built: options, plugins, versions, `sys.path`, this package.

    A project's code is among the files that were read; that of an installed rule or exporter is known to the store.
    """
    return {
        "python": [sys.version, list(sys.flags), sorted(map(repr, sys._xoptions.items())), platform.machine()],
        "warnings": sys.warnoptions,
        # As Python itself reads the empty entry. A worker inserts the folders of the ini `pythonpath` into the path of
        # its controller, which has them: a folder's second place decides nothing.
        "path": [os.getcwd(), *dict.fromkeys(sys.path)],  # noqa: PTH109
        "distributions": _distributions(),
        "package": digest_of_all(PACKAGE, (file for file in PACKAGE.rglob("*") if file.suffix in {".py", ".json"})),
        "root": str(config.rootpath),
        "ini": str(config.inipath),
        "options": {name: repr(value) for name, value in vars(config.option).items() if name not in _SELECT_OR_REPORT},
        # pytest's version identifies its own.
        "plugins": [each for each in _plugins(config.pluginmanager) if "_pytest" not in Path(each[1]).parts],
    }


def _plugins(manager: pytest.PytestPluginManager) -> list[tuple[str, str]]:
    """Return the plugins that are loaded, by name and file."""
    files = ((name, getattr(plugin, "__file__", None)) for name, plugin in manager.list_name_plugin())
    return sorted((name, file) for name, file in files if isinstance(file, str))


@unrecorded()
def _distributions() -> list[str]:
    """Return every installed distribution with its version, as the names of the folders that describe them."""
    names = (name for folder in sys.path if isinstance(folder, str) for name in names_in(folder or "."))
    return sorted(name for name in names if name.endswith((".dist-info", ".egg-info")))


def warnings(scratch: Path) -> list[str]:
    """Return the warnings of this process and of workers, the first of each kind."""
    found: list[str] = []
    with suppress(OSError):
        found += [path.read_text(encoding="utf-8") for path in sorted(scratch.glob("cache-warning-*.txt"))]
        models = sorted(path.read_text(encoding="utf-8") for path in scratch.glob("cache-unkept-*.txt"))
        if models:
            found.append(f"warning: results of {first_names(models)} are not kept for later runs: {_PROGRAM}")
    return found


def _warn(scratch: Path, what: str, reason: str) -> None:
    _note(scratch, "warning", what, f"warning: {what}: {reason}")


def _note(scratch: Path, kind: str, about: str, text: str) -> None:
    """Leave a text for the process that prints it, unless there is one about the same."""
    with suppress(OSError):
        write_new(scratch / f"cache-{kind}-{text_digest(about)[:8]}.txt", text)


def _say(config: pytest.Config, text: str) -> None:
    """Show the user a message at once, also while output is captured."""
    capture = config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture else nullcontext():
        print(f"\nhierexport: {text}", file=sys.stderr, flush=True)  # noqa: T201  # a worker has no terminal reporter
