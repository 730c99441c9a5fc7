"""The schemas of what the package writes, without the room that they leave for keys of later releases."""

from __future__ import annotations

from typing import Any

from pytest_hierexport._files.schemas import load_schema

__all__ = ["strict_schema"]


def strict_schema(name: str) -> dict[str, Any]:
    """Return a schema by which a key that it does not describe is an error."""
    strict: dict[str, Any] = _strict(load_schema(name))
    return strict


def _strict(part: Any) -> Any:
    if isinstance(part, list):
        return [_strict(each) for each in part]
    if not isinstance(part, dict):
        return part
    added = {"additionalProperties": False} if isinstance(part.get("properties"), dict) and "type" in part else {}
    return added | {key: _strict(value) for key, value in part.items()}
