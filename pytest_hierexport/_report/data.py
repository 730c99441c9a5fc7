"""The results as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from pytest_hierexport._files.ownership import GENERATOR
from pytest_hierexport._report.results import Model, Results, Verdict

__all__ = ["as_dict", "as_json"]

FORMAT = 1


def as_json(results: Results) -> str:
    """Return the results as a JSON text; docs/pytest.md describes its keys."""
    # In ASCII: JSON's own escapes keep every name whole, those included that no UTF-8 text can hold.
    return json.dumps(as_dict(results), indent=2) + "\n"


def as_dict(results: Results) -> dict[str, Any]:
    """Return what :func:`as_json` writes."""
    return {
        "generator": GENERATOR,
        "format": FORMAT,
        "rules": [asdict(rule) for rule in results.rules],
        "models": [_model(results, model) for model in results.models],
        "verdicts": {verdict.value: results.count(verdict) for verdict in Verdict},
        "cardinal_rules_not_run": results.cardinal_not_run(),
        "orphaned_snapshots": list(results.orphans),
    }


def _model(results: Results, model: Model) -> dict[str, Any]:
    checks = {
        column: {"verdict": model.verdict(column).value}
        | (
            {"message": model.checks[column].message, "seconds": round(model.checks[column].seconds, 3)}
            if column in model.checks
            else {}
        )
        for column in results.columns
    }
    return {
        "name": model.name,
        "source": model.source,
        "anchor": model.anchor,
        "exporter": model.exporter,
        "notes": list(model.notes),
        "warnings": list(model.warnings),
        "nodes": model.nodes,
        "coverage": model.coverage,
        "checks": checks,
        "hierarchy": model.hierarchy,
    }
