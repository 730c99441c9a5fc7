"""Identifies what a cached result depends on beside the files that were read: the session, the case, the rule."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import platform
import sys
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest_hierexport
from pytest_hierexport._cases.factories import find_module
from pytest_hierexport._export.choices import is_own
from pytest_hierexport._files.paths import digest
from pytest_hierexport._pytest.reads import is_installed

if TYPE_CHECKING:
    import pytest

    from pytest_hierexport._cases import Case
    from pytest_hierexport._rules.base import Rule

__all__ = ["early_plugins", "export_identity", "key_of", "rule_identity", "session_facts"]

_PACKAGE = Path(pytest_hierexport.__file__)

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


def session_facts(config: pytest.Config) -> dict[str, object]:
    """Return what identifies a session before a model is built: options, plugins, versions, `sys.path`."""
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
    """Return the project's own plugins that are loaded already: what they read is not known."""
    return sorted(name for name, file in _modules(manager) if not is_installed(Path(file)))


def _plugins(manager: pytest.PytestPluginManager) -> list[tuple[str, str]]:
    """Return the plugins by name and file; pytest's version identifies its own."""
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


def key_of(case: Case) -> str:
    """Return the digest of a case and of how it is exported."""
    return _digest(
        {
            "case": [case.name, case.source, str(case.anchor), _shape_of(case.factory)],
            "options": [case.exporter, case.opset, repr(case.dynamic_shapes), case.randomise, case.keep, case.strict],
        }
    )[:32]


def _shape_of(factory: object) -> list[str]:
    """Describe a factory without addresses: a partial's function and arguments, a function's name."""
    if isinstance(factory, partial):
        inner = [part for value in factory.args for part in (_shape_of(value) if callable(value) else [repr(value)])]
        return [*_shape_of(factory.func), *inner, repr(sorted(factory.keywords.items()))]
    return [f"{getattr(factory, '__module__', '')}.{getattr(factory, '__qualname__', type(factory).__name__)}"]


def export_identity(case: Case) -> str:
    """Return the digest of the code that exports a case: this package and an exporter of the project's own."""
    return _digest([_package_digest(), _own_exporter_digest(case.exporter)])


@cache
def _package_digest() -> str:
    return _code_digest(_PACKAGE)


@cache
def _own_exporter_digest(exporter: str) -> str:
    """Return the digest of the package, or the file, that defines an exporter of the project's own."""
    if not is_own(exporter):
        return ""
    found = find_module(exporter.partition(":")[0].partition(".")[0], Path.cwd())
    return "" if found is None or found.file is None else _code_digest(found.file)


def _code_digest(module: Path) -> str:
    """Return the digest of a file, or of the whole package whose `__init__.py` it is."""
    files = sorted(module.parent.rglob("*.py")) if module.name == "__init__.py" else [module]
    return _digest([(os.fsdecode(path.relative_to(module.parent)), digest(path)) for path in files])


def rule_identity(rule: Rule, case: Case) -> str | None:
    """Return what a rule's violations depend on beside the export; None where the rule's source has no file."""
    try:
        source = inspect.getsourcefile(rule.check)
    except TypeError:
        return None
    if source is None:
        return None
    return f"{rule.id} {digest(Path(source))} {case.allow_derived} {sorted(case.tolerances.items())}"


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
