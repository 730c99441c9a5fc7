"""Formats the results as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from pytest_hierexport._files.ownership import GENERATOR
from pytest_hierexport._report.results import Model, Results, Status

__all__ = ["as_json"]

_FORMAT = 1


def as_json(results: Results) -> str:
    """Return the results as a JSON text; docs/pytest.md describes its keys."""
    content = {
        "generator": GENERATOR,
        "format": _FORMAT,
        "rules": [asdict(rule) for rule in results.rules],
        "models": [_model(results, model) for model in results.models],
        "verdicts": {status.value: results.count(status) for status in Status},
        "cardinal_rules_not_run": results.cardinal_not_run(),
        "orphaned_snapshots": list(results.orphans),
    }
    # In ASCII: JSON's escapes represent any name, also one with lone surrogates, which UTF-8 cannot.
    return json.dumps(content, indent=2) + "\n"


def _model(results: Results, model: Model) -> dict[str, Any]:
    own = ("name", "source", "anchor", "exporter", "notes", "warnings", "nodes", "coverage")
    checks = {column: _check(model, column) for column in results.columns}
    return {**{key: getattr(model, key) for key in own}, "checks": checks, "hierarchy": model.hierarchy}


def _check(model: Model, column: str) -> dict[str, Any]:
    verdict = {"verdict": model.status(column).value}
    if column not in model.checks:
        return verdict
    check = model.checks[column]
    return {**verdict, "message": check.message, "seconds": round(check.seconds, 3)}
