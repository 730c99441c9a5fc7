"""MUST-001: no name of the model decides anything: not in the exporter's own source, not in what it gives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pytest_hierexport._cases.exporting import own_source
from pytest_hierexport._errors import UsageError
from pytest_hierexport._export.choices import is_own
from pytest_hierexport._rules.base import ExportedCase, Violation, limited
from pytest_hierexport._rules.decisions.source import source_files
from pytest_hierexport._rules.renamed_export import renaming_violations


@limited
def check(exported: ExportedCase) -> Iterator[Violation]:
    yield from renaming_violations(exported, exporter_sources(exported))


def exporter_sources(exported: ExportedCase) -> tuple[Path, ...]:
    """Return the files of the exporter's source, its own first; none for an exporter of this package.

    Raises:
        UsageError: The function, or its source, is not to be found.
    """
    name = exported.exporter_name
    if exported.exporter_source is None and not is_own(name):
        return ()
    if (path := exported.exporter_source or own_source(name)) is None:
        raise UsageError(f"the source of the exporter {name}", found="none", do="name a function written in Python")
    return source_files(path)
