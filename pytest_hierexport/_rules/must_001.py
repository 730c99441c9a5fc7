"""MUST-001: no name of the model decides anything: not in the exporter's own source, not in what it gives."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_hierexport._rules.base import ExportedCase, Violation, limited
from pytest_hierexport._rules.decisions.source import exporter_sources
from pytest_hierexport._rules.renamed_export import renaming_violations


@limited
def check(exported: ExportedCase) -> Iterator[Violation]:
    yield from renaming_violations(exported, exporter_sources(exported))
