"""Encodes the calls of an attribution as metadata entries of the model or as JSON, and decodes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_hierexport._calls.attribution import Attribution, Origins
from pytest_hierexport._calls.hierarchy import Call, Hierarchy
from pytest_hierexport._calls.names import split_call_name
from pytest_hierexport._onnx.codec.origins import Reader, origins_to_json
from pytest_hierexport._onnx.codec.places import CALLS, FORMAT, INITIALIZERS, KEEP
from pytest_hierexport._onnx.json_text import compact, parse_json, refuse

__all__ = [
    "FORMAT_VERSION",
    "calls_to_json",
    "check_format",
    "hierarchy_from_entries",
    "hierarchy_from_json",
    "initializers",
    "model_entries",
]

FORMAT_VERSION = 1


def calls_to_json(hierarchy: Hierarchy) -> dict[str, list[str | None]]:
    """Return the calls as call name → `[parent call name or null, qualified class]`, in execution order."""
    return {name: [call.parent, call.cls] for name, call in hierarchy.items()}


def hierarchy_from_json(calls: Any, keep: Any) -> Hierarchy:
    """Undo :func:`calls_to_json`.

    Raises:
        TagError: The calls cannot be those of a forward pass.
    """
    if not isinstance(keep, list) or not all(isinstance(cls, str) for cls in keep):
        refuse("the kept classes as a list of qualified classes", compact(keep))
    expected = "calls as an object: call name → [parent or null, class], the root's first"
    if not isinstance(calls, dict) or not calls:
        refuse(expected, compact(calls))
    try:
        return Hierarchy([_call(name, parent, cls) for name, (parent, cls) in calls.items()], keep)
    except (TypeError, ValueError) as error:
        refuse(expected, str(error))


def _call(name: str, parent: str | None, cls: str) -> Call:
    if not isinstance(cls, str) or not isinstance(parent, (str, type(None))):
        raise TypeError(f"call {name!r} has the parent {parent!r} and the class {cls!r}")
    path, index = split_call_name(name)
    return Call(path, index, cls, parent)


def model_entries(attribution: Attribution, *, doc_strings: bool) -> dict[str, str]:
    """Return the metadata entries of the model itself.

    With doc strings they include the origins of initializers: the doc string of a tensor is part of the graph,
    which tags must not change.
    """
    hierarchy = attribution.hierarchy
    entries = {FORMAT: str(FORMAT_VERSION), CALLS: compact(calls_to_json(hierarchy))}
    if hierarchy.keep:
        entries[KEEP] = compact(sorted(hierarchy.keep))
    if doc_strings and attribution.initializers:
        entries[INITIALIZERS] = compact({k: origins_to_json(o) for k, o in attribution.initializers.items()})
    return entries


def initializers(reader: Reader, entries: Mapping[str, str]) -> dict[str, Origins]:
    """Read the origins of initializers from the metadata entries of the model itself.

    Raises:
        TagError: They cannot be parsed.
    """
    listed = parse_json(entries.get(INITIALIZERS, "{}"), f"the entry {INITIALIZERS}")
    if not isinstance(listed, dict):
        refuse("initializers as an object: key → origins", compact(listed))
    return {key: reader.origins(pairs) for key, pairs in listed.items()}


def hierarchy_from_entries(entries: Mapping[str, str]) -> Hierarchy:
    """Read the calls from the metadata entries of the model itself.

    Raises:
        TagError: The entries are missing, of an unknown format, or broken.
    """
    if FORMAT not in entries:
        refuse(f"a model with the entry {FORMAT}", "none", "export the model with its tags, or read its sidecar")
    check_format(entries[FORMAT])
    calls = parse_json(entries.get(CALLS, ""), f"the entry {CALLS}")
    keep = parse_json(entries.get(KEEP, "[]"), f"the entry {KEEP}")
    return hierarchy_from_json(calls, keep)


def check_format(found: object) -> None:
    """Check that this version reads a format, given as text or as a number.

    Raises:
        TagError: It is another format; the error names it.
    """
    if str(found) != str(FORMAT_VERSION):
        refuse(
            f"tags in format {FORMAT_VERSION}",
            f"format {found}",
            "read the file with the version of pytest-hierexport that wrote it, or a newer one",
        )
