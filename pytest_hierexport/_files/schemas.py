"""Reads the JSON Schemas of the package, and words how a document breaks one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

_LONGEST = 300


@cache
def load_schema(name: str) -> Mapping[str, Any]:
    """Return the JSON Schema `pytest_hierexport/schema/NAME.json`."""
    text = (resources.files("pytest_hierexport") / "schema" / f"{name}.json").read_text(encoding="utf-8")
    loaded: Mapping[str, Any] = json.loads(text)
    return loaded


def schema_error(name: str, document: object) -> str | None:
    """Return the place at which a document breaks a schema, with the reason; None where it follows it."""
    from jsonschema.exceptions import best_match

    error = best_match(_validator(name).iter_errors(document))
    return None if error is None else f"{error.json_path}: {error.message}"[:_LONGEST]


@cache
def _validator(name: str) -> Any:
    from jsonschema import Draft202012Validator

    return Draft202012Validator(load_schema(name))
