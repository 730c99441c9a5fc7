"""MUST-001: the exporter knows no name of the model: not in its source, not in what it does."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_hierexport._rules.base import ExportedCase, Rule, Violation, at_most


def _check(exported: ExportedCase) -> Iterator[Violation]:
    from pytest_hierexport._rules.hardcoded import exporter_sources, hardcoded_names
    from pytest_hierexport._rules.renamed_export import renaming_violations

    yield from at_most(hardcoded_names(exported))
    yield from at_most(renaming_violations(exported, exporter_sources(exported)))


RULE = Rule("MUST-001", "no hardcoded names", _check, cardinal=True, needs="export")
