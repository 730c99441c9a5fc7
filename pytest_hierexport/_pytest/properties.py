"""Gives the properties of a test that its JUnit report shows.

model MODEL, rule MUST-002, exporter dynamo, nodes 84      with the call
stage exporting, seconds exporting 4.1                     with each phase, what it spent its time on
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pytest_hierexport._cases import Case
from pytest_hierexport._pytest.run import Run
from pytest_hierexport._text import printable

if TYPE_CHECKING:
    import pytest


def properties(
    run: Run, case: Case, check: str, report: pytest.TestReport, stages: Mapping[str, float]
) -> Iterator[tuple[str, object]]:
    """Yield the properties that a phase of a test adds, by name."""
    for stage, seconds in stages.items():
        yield f"seconds {stage}", round(seconds, 3)
    if report.when == "call":
        outcome = run.store.known_outcome(case)
        if outcome is not None and outcome.error is not None:
            outcome = None
        yield "model", printable(case.name)
        yield "rule", check
        yield "exporter", outcome.exporter if outcome else ""
        yield "nodes", sum(outcome.coverage.values()) if outcome else 0
        yield "stage", "check" if outcome else "export"
