"""What decides about a result beside the files that were read: options, plugins, versions, `sys.path`."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_hierexport._pytest.reads import is_installed

if TYPE_CHECKING:
    import pytest

__all__ = ["early_plugins", "facts_of"]

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
    "hierexport_cache", "hierexport_models", "hierexport_report", "hierexport_require_snapshots", "hierexport_rules",
    "hierexport_summary",
})
# fmt: on
"""The options that only say which tests run, where, and what is shown of them; every other option counts."""


def facts_of(config: pytest.Config) -> dict[str, object]:
    """Return what is known of a session before a model is built, for a comparison with other sessions."""
    options = {name: repr(value) for name, value in vars(config.option).items() if name not in _SELECT_OR_REPORT}
    return {
        "python": [sys.version, list(sys.flags), sorted(map(repr, sys._xoptions.items())), platform.machine()],
        "path": [os.getcwd(), *sys.path],  # noqa: PTH109  # as Python itself reads the empty entry
        "distributions": _distributions(),
        "root": str(config.rootpath),
        "ini": str(config.inipath),
        "options": options,
        "plugins": _plugins(config.pluginmanager),
    }


def early_plugins(manager: pytest.PytestPluginManager) -> list[str]:
    """Return the plugins of the project's own that are loaded already: what they read is not known."""
    return sorted(name for name, file in _modules(manager) if not is_installed(Path(file)))


def _plugins(manager: pytest.PytestPluginManager) -> list[tuple[str, str]]:
    """Return the plugins by name and file; pytest's own go by its version."""
    return sorted((name, file) for name, file in _modules(manager) if "_pytest" not in Path(file).parts)


def _modules(manager: pytest.PytestPluginManager) -> list[tuple[str, str]]:
    return [
        (name, file)
        for name, plugin in manager.list_name_plugin()
        if isinstance(file := getattr(plugin, "__file__", None), str)
    ]


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
