"""MUST-001: no name of the model decides anything: not in the exporter's own source, not in what it gives."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_hierexport._rules.base import ExportedCase, Rule, Violation, limited


@limited
def _check(exported: ExportedCase) -> Iterator[Violation]:
    from pytest_hierexport._rules.decisions.source import exporter_sources
    from pytest_hierexport._rules.renamed_export import renaming_violations

    yield from renaming_violations(exported, exporter_sources(exported))


RULE = Rule("MUST-001", "no hardcoded names", _check, cardinal=True, needs="export")
