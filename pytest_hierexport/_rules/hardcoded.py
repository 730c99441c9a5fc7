"""MUST-001's first half: no name of the model decides anything in the exporter's source."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_hierexport._cases.exporting import own_function
from pytest_hierexport._errors import UsageError
from pytest_hierexport._export.choices import is_own
from pytest_hierexport._rules.base import ExportedCase, Violation
from pytest_hierexport._rules.source import Check, Decision, Spelled, decisions, shown, source_files, words_of

if TYPE_CHECKING:
    from pytest_hierexport._rules.source import Words


def hardcoded_names(exported: ExportedCase) -> Iterator[Violation]:
    """Yield each place in an exporter of the project's own where a name of the case's model decides something.

    This package's own exporters are left out: its tests check their source against every model of the zoo.

    Raises:
        UsageError: The exporter's source is out of reach.
    """
    files = exporter_sources(exported)
    if files:
        yield from violations(files, words_of(exported.example.model, exported.proto.graph), _entry(exported))


def violations(files: tuple[Path, ...], words: Words, entry: str = "") -> Iterator[Violation]:
    """Yield each place in source files where one of a model's names decides something.

    Args:
        files: The source, the exporter's own file first.
        words: The model's names.
        entry: The exporter's function, called as `function(model, args, kwargs, path)`.

    Raises:
        UsageError: A file cannot be read, or is no Python.
    """
    found = (_violation(decision, word) for decision in decisions(files, entry) for word in words.spelled(decision))
    yield from dict.fromkeys(found)


def exporter_sources(exported: ExportedCase) -> tuple[Path, ...]:
    """Return the files of the exporter's source; none for an exporter of this package.

    Raises:
        UsageError: The function, or its source, is not to be found.
    """
    if exported.exporter_source is not None:
        return source_files(exported.exporter_source)
    if is_own(exported.exporter_name):
        return source_files(_source_of(exported.exporter_name))
    return ()


def _entry(exported: ExportedCase) -> str:
    return exported.exporter_name.rpartition(":")[2]


def _source_of(function: str) -> Path:
    try:
        path = inspect.getsourcefile(inspect.unwrap(own_function(function)))
    except TypeError:
        path = None
    if path is None:
        raise UsageError(f"the source of the exporter {function}", found="none", do="name a function written in Python")
    return Path(path)


def _violation(decision: Decision, spelled: Spelled) -> Violation:
    constant = spelled.constant if decision.check is Check.CLASS else repr(spelled.constant)
    return Violation(
        f"{shown(decision.path)}:{decision.line}",
        "no name of the model decides anything",
        f"{constant} decides `{decision.code}`: {spelled.reason}",
        "decide by a property (where a class is defined, what a module holds, what was recorded), or add an option",
    )
