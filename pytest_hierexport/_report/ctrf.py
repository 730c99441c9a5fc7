"""Formats the results in the Common Test Report Format (https://ctrf.io), which other tools read."""

from __future__ import annotations

import json

from pytest_hierexport._files.ownership import GENERATOR
from pytest_hierexport._report.results import Check, Model, Results, Status, item_name
from pytest_hierexport._text import escape

_SPECIFICATION = "0.0.0"
_STATUS = {
    Status.PASSED: "passed",
    Status.FAILED: "failed",
    Status.KNOWN: "other",
    Status.SKIPPED: "skipped",
    Status.NOT_RUN: "pending",
}


def as_ctrf(results: Results) -> str:
    """Return a JSON text with a test for each check on each model, and for each model that no shard reported.

    Times are in milliseconds.
    """
    tests = [
        _test(model, column, model.checks.get(column, Check(Status.NOT_RUN)))
        for model in results.models
        for column in results.columns
        if model.status(column) is not Status.INAPPLICABLE
    ]
    tests += map(_unreported, results.unreported)
    counts = {status: sum(test["status"] == status for test in tests) for status in _STATUS.values()}
    content = {
        "reportFormat": "CTRF",
        "specVersion": _SPECIFICATION,
        "generatedBy": GENERATOR,
        "results": {
            "tool": {"name": GENERATOR, "version": results.versions.get(GENERATOR, "")},
            "summary": {
                "tests": len(tests),
                **counts,
                "start": _milliseconds(results.started),
                "stop": _milliseconds(results.ended),
            },
            "tests": tests,
        },
    }
    return json.dumps(content, indent=2) + "\n"


def _test(model: Model, column: str, check: Check) -> dict[str, object]:
    return {
        "name": f"{model.name}: {column}",
        "testId": f"{model.anchor}::{escape(model.name)}::{item_name(column)}",
        "status": _STATUS[check.status],
        "rawStatus": check.status.value,
        "duration": _milliseconds(check.seconds),
        "suite": [model.anchor, model.name],
        "filePath": model.file,
        "line": model.line,
        **({"message": check.message} if check.message else {}),
        "labels": {"model": model.name, "rule": column, "exporter": model.exporter, "nodes": model.nodes},
    }


def _unreported(name: str) -> dict[str, object]:
    """Return a test that fails for a model: without it, a merged report that lacks shards would look complete."""
    return {
        "name": f"{name}: reported by a shard",
        "status": _STATUS[Status.FAILED],
        "duration": 0,
        "suite": [name],
        "message": "no shard reported this model",
        "labels": {"model": name},
    }


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)
