"""Connects the cache to a session of pytest: when recording starts, what identifies the session, what users see."""

from __future__ import annotations

import os
import platform
import sys
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_hierexport._files.paths import digest_of_all
from pytest_hierexport._pytest.cache import Cache
from pytest_hierexport._pytest.reads import Reads, is_installed

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["cache_of", "session_facts", "warning", "watch"]

_READS: pytest.StashKey[Reads] = pytest.StashKey()
_EARLY: pytest.StashKey[list[str]] = pytest.StashKey()
_WARNING = "cache-warning.txt"
_PACKAGE = Path(__file__).parents[1]

# fmt: off
_SELECT_OR_REPORT = frozenset({
    # pytest
    "basetemp", "cacheclear", "cacheshow", "capture", "code_highlight", "collectonly", "color", "debug", "deselect",
    "disable_warnings", "durations", "durations_min", "failedfirst", "file_or_dir", "force_short_summary", "fulltrace",
    "junitprefix", "keyword", "last_failed_no_failures", "lf", "markexpr", "maxfail", "newfirst", "no_fold_skipped",
    "no_header", "no_showlocals", "no_summary", "pastebin", "plugins", "reportchars", "setuponly", "setupshow",
    "show_fixtures_per_test", "showcapture", "showfixtures", "showlocals", "stepwise", "stepwise_reset",
    "stepwise_skip", "tbstyle", "trace", "usepdb", "usepdb_cls", "verbose", "xfail_tb", "xmlpath",
    # pytest-xdist
    "dist", "distload", "loadgroup", "loadscopereorder", "looponfail", "maxprocesses", "maxschedchunk",
    "maxworkerrestart", "numprocesses", "px", "rsyncdir", "rsyncignore", "testrunuid", "tx",
    # syrupy
    "disable_unused_snapshots", "include_details", "snapshot_details", "update_new_snapshots_only", "update_snapshots",
    "warn_unused_snapshots",
    # pytest-hierexport
    "hierexport_after", "hierexport_cache", "hierexport_durations", "hierexport_fast", "hierexport_models",
    "hierexport_report", "hierexport_require_snapshots", "hierexport_rules", "hierexport_shard",
    "hierexport_store_durations", "hierexport_summary", "hierexport_timeout",
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


def cache_of(config: pytest.Config, folder: Path, scratch: Path, outputs: Sequence[Path]) -> Cache | None:
    """Return the cache of a session, None where what the session reads was not recorded from the start.

    Args:
        config: The session's configuration.
        folder: The folder of the cache.
        scratch: The run folder, where workers leave warnings.
        outputs: Files and folders that the run writes.
    """
    early = config.stash.get(_EARLY, ["this plugin, by a conftest.py,"])
    if early:
        _warn(scratch, f"{', '.join(early)} was loaded before what the project reads could be noted")
        return None
    reads = config.stash[_READS]
    reads.outside += [folder, *outputs]
    if config.pluginmanager.has_plugin("cacheprovider"):
        reads.outside.append(config.rootpath / config.getini("cache_dir"))
    return Cache(folder, reads, partial(session_facts, config), partial(_warn, scratch), partial(_say, config))


def session_facts(config: pytest.Config) -> dict[str, object]:
    """Return what identifies a session before a model is built: options, plugins, versions, `sys.path`, this package.

    A project's code is among the files that were read; that of an installed rule or exporter is known to the store.
    """
    return {
        "python": [sys.version, list(sys.flags), sorted(map(repr, sys._xoptions.items())), platform.machine()],
        "path": [os.getcwd(), *sys.path],  # noqa: PTH109  # as Python itself reads the empty entry
        "distributions": _distributions(),
        "package": digest_of_all(_PACKAGE, (file for file in _PACKAGE.rglob("*") if file.suffix in {".py", ".json"})),
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


def _distributions() -> list[str]:
    """Return every installed distribution with its version, as the names of the folders that describe them."""
    folders = [Path(folder or ".") for folder in sys.path]
    return sorted(
        path.name
        for folder in folders
        if folder.is_dir()
        for path in folder.iterdir()
        if path.suffix in {".dist-info", ".egg-info"}
    )


def warning(scratch: Path) -> str:
    """Return the warning that results are not kept, from this process or a worker; empty where they are."""
    with suppress(OSError):
        return (scratch / _WARNING).read_text(encoding="utf-8")
    return ""


def _warn(scratch: Path, reason: str) -> None:
    with suppress(OSError):
        scratch.mkdir(exist_ok=True)
        with (scratch / _WARNING).open("x", encoding="utf-8") as file:
            file.write(f"warning: results are not kept for later runs: {reason}")


def _say(config: pytest.Config, text: str) -> None:
    """Show the user a message at once, also while output is captured."""
    capture = config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture else nullcontext():
        print(f"\nhierexport: {text}", file=sys.stderr, flush=True)  # noqa: T201  # a worker has no terminal reporter
