"""Formats the results as JSON, and reads them from it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pytest_hierexport._calls.entries import entry_from_json, entry_to_json, is_entry
from pytest_hierexport._errors import UsageError
from pytest_hierexport._files.ownership import GENERATOR
from pytest_hierexport._files.schemas import schema_error
from pytest_hierexport._report.failures import known, read_failure
from pytest_hierexport._report.results import Check, Model, Part, Results, RuleText, Status

_FORMAT = 1
_OF_MODEL = ("name", "source", "anchor", "file", "line", "exporter", "notes", "warnings", "coverage", "hierarchy")
_NAMES_IN_SOME = ("deselected", "missing_shards", "unreported")
"""The lists of names of a run that are stated where they are not empty."""
_OF_RUN = ("versions", "started", "ended")


def as_json(results: Results) -> str:
    """Return the results as a JSON text that follows `schema/report.json`."""
    content = {
        "generator": GENERATOR,
        "format": _FORMAT,
        "rules": [asdict(rule) for rule in results.rules],
        "verdicts": {status.value: results.count(status) for status in Status},
        "cardinal_rules_not_run": results.cardinal_not_run(),
        "orphaned_snapshots": list(results.orphans),
        **{key: getattr(results, key) for key in _OF_RUN},
        "shard": None if results.part is None else asdict(results.part),
        **({"interrupted": True} if results.interrupted else {}),
        **({"commit": results.commit} if results.commit else {}),
        **{key: list(names) for key in _NAMES_IN_SOME if (names := getattr(results, key))},
    }
    # In ASCII: JSON's escapes represent any name, also one with lone surrogates, which UTF-8 cannot.
    return _with_list(content, "models", [_model(results, model) for model in results.models]) + "\n"


def _model(results: Results, model: Model) -> str:
    checks = {column: _check(model, column) for column in results.columns}
    content = {
        **{key: getattr(model, key) for key in _OF_MODEL},
        **({"committed": model.committed} if model.committed else {}),
        "nodes": model.nodes,
        "stages": model.stages,
        "checks": checks,
    }
    # A line for each module: a large model has thousands.
    return _with_list(content, "modules", [json.dumps(entry_to_json(entry)) for entry in model.modules])


def _with_list(content: Mapping[str, Any], key: str, items: Sequence[str]) -> str:
    """Return an object as JSON, with a list of JSON texts as its last value."""
    head = json.dumps(content, indent=2).removesuffix("\n}")
    return f'{head},\n  "{key}": [\n' + ",\n".join(items) + "\n  ]\n}"


def _check(model: Model, column: str) -> dict[str, Any]:
    verdict = {"verdict": model.status(column).value}
    if column not in model.checks:
        return verdict
    check = model.checks[column]
    failure = {} if check.failure is None else {"failure": check.failure}
    return {**verdict, "message": check.message, "seconds": round(check.seconds, 3), **failure}


def read_report(path: Path) -> Results:
    """Read the results that a run wrote as JSON.

    Raises:
        UsageError: There is no such report.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise _no_report(path, "no such file") from None
    except (OSError, ValueError, RecursionError) as error:
        raise _no_report(path, str(error)) from None
    if (found := schema_error("report", _without_right_modules(content))) is not None:
        raise _no_report(path, found)
    part = content["shard"]
    stated: dict[str, Any] = {key: content[key] for key in _OF_RUN}
    stated |= {key: tuple(content.get(key, ())) for key in _NAMES_IN_SOME}
    return Results(
        rules=tuple(RuleText(**known(RuleText, rule)) for rule in content["rules"]),
        models=tuple(map(_read_model, content["models"])),
        orphans=tuple(content["orphaned_snapshots"]),
        part=None if part is None else Part(part["index"], part["count"], tuple(part["selected"])),
        commit=content.get("commit", ""),
        interrupted=content.get("interrupted", False),
        **stated,
    )


def _without_right_modules(content: Any) -> Any:
    """Return a report without the lists of modules that follow the schema: a validator takes half a minute for 400."""
    models = content.get("models") if isinstance(content, dict) else None
    return {**content, "models": [*map(_without_entries, models)]} if isinstance(models, list) else content


def _without_entries(model: Any) -> Any:
    """Return a model without its list of modules if all of these follow the schema."""
    modules = model.get("modules") if isinstance(model, dict) else None
    if not isinstance(modules, list) or not all(map(is_entry, modules)):
        return model
    return {key: value for key, value in model.items() if key != "modules"}


def _read_model(content: Mapping[str, Any]) -> Model:
    every = {name: _read_check(found) for name, found in content["checks"].items()}
    checks = {name: check for name, check in every.items() if check.status not in {Status.NOT_RUN, Status.INAPPLICABLE}}
    inapplicable = tuple(name for name, check in every.items() if check.status is Status.INAPPLICABLE)
    lists = {key: tuple(content[key]) for key in ("notes", "warnings")}
    modules = tuple(map(entry_from_json, content.get("modules", ())))
    stated = {**{key: content[key] for key in (*_OF_MODEL, "committed") if key in content}, **lists}
    stages = content.get("stages", {})  # reports of before there were stages are still compared
    return Model(**stated, checks=checks, inapplicable=inapplicable, modules=modules, stages=stages)


def _read_check(content: Mapping[str, Any]) -> Check:
    failure = read_failure(content["failure"]) if "failure" in content else None
    return Check(Status(content["verdict"]), content.get("message", ""), content.get("seconds", 0.0), failure)


def _no_report(path: Path, found: str) -> UsageError:
    return UsageError(
        f"{path} to be a report of a run (--hierexport-report=FILE.json)",
        found=found,
        do="name the JSON report that a run of this version wrote",
    )
