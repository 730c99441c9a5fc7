"""Formats the results as JSON, and reads them from it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pytest_hierexport._errors import UsageError
from pytest_hierexport._files.ownership import GENERATOR
from pytest_hierexport._files.schemas import schema_error
from pytest_hierexport._report.results import Check, Model, Part, Results, RuleText, Status

__all__ = ["as_json", "read_report"]

_FORMAT = 1
_OF_MODEL = ("name", "source", "anchor", "file", "line", "exporter", "notes", "warnings", "coverage", "hierarchy")
_IN_SOME = ("committed",)
"""The texts of a model that are stated where they are not empty."""
_OF_RUN = ("versions", "started", "ended")


def as_json(results: Results) -> str:
    """Return the results as a JSON text that follows `schema/report.json`."""
    content = {
        "generator": GENERATOR,
        "format": _FORMAT,
        "rules": [asdict(rule) for rule in results.rules],
        "models": [_model(results, model) for model in results.models],
        "verdicts": {status.value: results.count(status) for status in Status},
        "cardinal_rules_not_run": results.cardinal_not_run(),
        "orphaned_snapshots": list(results.orphans),
        **{key: getattr(results, key) for key in _OF_RUN},
        "shard": None if results.part is None else asdict(results.part),
    }
    # In ASCII: JSON's escapes represent any name, also one with lone surrogates, which UTF-8 cannot.
    return json.dumps(content, indent=2) + "\n"


def _model(results: Results, model: Model) -> dict[str, Any]:
    checks = {column: _check(model, column) for column in results.columns}
    stated = {key: getattr(model, key) for key in _OF_MODEL}
    stated |= {key: text for key in _IN_SOME if (text := getattr(model, key))}
    return {**stated, "nodes": model.nodes, "checks": checks}


def _check(model: Model, column: str) -> dict[str, Any]:
    verdict = {"verdict": model.status(column).value}
    if column not in model.checks:
        return verdict
    check = model.checks[column]
    return {**verdict, "message": check.message, "seconds": round(check.seconds, 3)}


def read_report(path: Path) -> Results:
    """Read the results that a run wrote as JSON.

    Raises:
        UsageError: There is no such report.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise _no_report(path, str(error)) from None
    if (found := schema_error("report", content)) is not None:
        raise _no_report(path, found)
    part = content["shard"]
    return Results(
        rules=tuple(RuleText(**rule) for rule in content["rules"]),
        models=tuple(map(_read_model, content["models"])),
        orphans=tuple(content["orphaned_snapshots"]),
        part=None if part is None else Part(part["index"], part["count"], tuple(part["selected"])),
        **{key: content[key] for key in _OF_RUN},
    )


def _read_model(content: Mapping[str, Any]) -> Model:
    verdicts = {check: Status(found["verdict"]) for check, found in content["checks"].items()}
    checks = {
        check: Check(verdicts[check], found.get("message", ""), found.get("seconds", 0.0))
        for check, found in content["checks"].items()
        if verdicts[check] not in {Status.NOT_RUN, Status.INAPPLICABLE}
    }
    inapplicable = tuple(check for check, status in verdicts.items() if status is Status.INAPPLICABLE)
    lists = {key: tuple(content[key]) for key in ("notes", "warnings")}
    stated = {key: content[key] for key in (*_OF_MODEL, *_IN_SOME) if key in content}
    return Model(**{**stated, **lists}, checks=checks, inapplicable=inapplicable)


def _no_report(path: Path, found: str) -> UsageError:
    return UsageError(
        f"{path} to be a report of a run (--hierexport-report=FILE.json)",
        found=found,
        do="name the JSON report that a run of this version wrote",
    )
