"""MUST-001's first half: no name of the model decides anything in the exporter's source."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest_hierexport
from pytest_hierexport._cases.exporting import own_exporter
from pytest_hierexport._errors import UsageError
from pytest_hierexport._export.choices import is_own
from pytest_hierexport._rules.base import ExportedCase, Violation
from pytest_hierexport._rules.source import Decision, Kind, Spelled, decisions, import_closure, module_name, words_of

if TYPE_CHECKING:
    from pytest_hierexport._rules.source import Words

__all__ = ["exporter_sources", "hardcoded_names", "violations"]


def hardcoded_names(exported: ExportedCase) -> Iterator[Violation]:
    """Yield each place in the exporter's source where a name of the case's model decides something.

    Raises:
        UsageError: The exporter's source is out of reach.
    """
    yield from violations(exporter_sources(exported), words_of(exported.example.model, exported.proto.graph))


def violations(files: tuple[Path, ...], words: Words) -> Iterator[Violation]:
    """Yield each place in source files where one of a model's names decides something.

    Raises:
        UsageError: A file cannot be read, or is no Python.
    """
    for decision in decisions(files):
        for spelled in words.spelled(decision):
            yield _violation(decision, spelled)


def exporter_sources(exported: ExportedCase) -> tuple[Path, ...]:
    """Return the files of the exporter's source: our own package, or the module of a project's own function.

    What that module imports from its own package or folder belongs to it.

    Raises:
        UsageError: The function, or its source, is not to be found.
    """
    if exported.exporter_source is not None:
        return tuple(import_closure(exported.exporter_source))
    if is_own(exported.exporter_name):
        return tuple(import_closure(_source_of(exported.exporter_name)))
    package = Path(pytest_hierexport.__file__).parent
    return tuple(sorted(package.rglob("*.py")))


def _source_of(function: str) -> Path:
    try:
        path = inspect.getsourcefile(inspect.unwrap(own_exporter(function)))
    except TypeError:
        path = None
    if path is None:
        raise UsageError(f"the source of the exporter {function}", found="none", do="name a function written in Python")
    return Path(path)


def _violation(decision: Decision, spelled: Spelled) -> Violation:
    if decision.kind is Kind.CLASS:
        found = f"the class {spelled.constant}, which is one of the model's, in `{decision.code}`"
    else:
        found = f"{spelled.constant!r}, which spells {spelled.name}, {spelled.kind} of the model, in `{decision.code}`"
    return Violation(
        f"{_shown(decision.path)}:{decision.line}",
        "code that knows no model: a name of it may be written down, never decide anything",
        found,
        "decide by what holds for every model: where a class is defined, what a module holds, what was recorded",
    )


def _shown(path: Path) -> str:
    """Return a file's path below the folder that its top-level package stands in."""
    return Path(*path.parts[-len(module_name(path).split(".")) - (path.stem == "__init__") :]).as_posix()
