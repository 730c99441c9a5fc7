"""Reads a manifest (`models.toml`) into cases. docs/manifest.md describes the format."""

from __future__ import annotations

import datetime as dt
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from pytest_hierexport._cases.case import Case, Example, KnownFailure, parts_of
from pytest_hierexport._cases.exporters import check_exporter
from pytest_hierexport._cases.inputs import InputSpec
from pytest_hierexport._errors import CollectError, HierexportError, UsageError, nearest
from pytest_hierexport._export.choices import check_opset

__all__ = ["read_manifest"]

_FIELDS: Mapping[str, type] = {
    "model": str,
    "exporter": str,
    "opset": int,
    "randomise": bool,
    "strict": bool,
    "allow_derived": int,
    "keep": list,
    "trust_remote_code": bool,
    "inputs": dict,
    "dynamic": dict,
    "tolerances": dict,
    "known_failures": list,
}
_PLAIN = ("exporter", "opset", "randomise", "strict", "allow_derived")
Select = Callable[[Sequence[str], Path], list[Case]]
CARDINAL = ("MUST-001", "MUST-002", "MUST-003")


def read_manifest(path: Path, source: str, select: Select) -> list[Case]:
    """Return the cases of a manifest, in its order, each anchored at it.

    Args:
        path: The manifest.
        source: The selector that named it.
        select: Returns the cases of selectors, given the folder that relative paths start from.

    Raises:
        CollectError: The manifest cannot be read, or has an invalid entry.
        UsageError: A model in it does not exist.
    """
    models = _load(path).get("models")
    if not isinstance(models, dict) or not models:
        raise _wrong(path, "models", "a table [models.NAME] per model", "none" if not models else repr(models))
    if "" in models:
        raise _wrong(path, "models", "a name for every model", repr(""))
    return [_case(_Table(path, f"models.{name}", table), name, source, select) for name, table in models.items()]


def _load(path: Path) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        loaded: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise CollectError(f"{path} to be TOML", found=str(error), do="correct that line") from None
    except (OSError, UnicodeDecodeError) as error:
        raise CollectError(f"{path} to be a readable UTF-8 file", found=str(error), do="name another file") from None
    return loaded


class _Table:
    """A table of the manifest with its place, for messages."""

    def __init__(self, path: Path, place: str, values: object) -> None:
        if not isinstance(values, dict):
            raise _wrong(path, place, "a table", repr(values))
        self.path, self.place, self.values = path, place, values

    def check(self, fields: Mapping[str, type], required: Iterable[str] = ()) -> None:
        """Check the names and types of the entries."""
        for key, value in self.values.items():
            if key not in fields:
                raise self.wrong(key, f"one of {', '.join(fields)}", f"{key} (nearest: {nearest(key, fields)})")
            if not isinstance(value, fields[key]) or (isinstance(value, bool) and fields[key] is int):
                raise self.wrong(key, _WRITTEN[fields[key]], repr(value))
        for key in required:
            if key not in self.values:
                raise self.wrong(key, f"{key} to be stated", "nothing")

    def wrong(self, key: str, expected: str, found: str) -> CollectError:
        return _wrong(self.path, f"{self.place}.{key}", expected, found)


def _wrong(path: Path, place: str, expected: str, found: str) -> CollectError:
    return CollectError(f"{expected} at {place} in {path}", found=found, do="correct the manifest")


_WRITTEN: Mapping[type, str] = {
    str: "text in quotes",
    int: "a whole number",
    bool: "true or false",
    list: "a list in brackets",
    dict: "a table",
    dt.date: "a date (2030-01-31)",
}
"""Types in the words of TOML, for messages."""


def _case(table: _Table, name: str, source: str, select: Select) -> Case:
    table.check(_FIELDS, required=("model",))
    values = table.values
    _check_choices(table)
    case = _model(table, name, select)
    inputs = {key: _input_spec(table, key, spec) for key, spec in values.get("inputs", {}).items()}
    if inputs:
        case = replace(case, factory=partial(_with_inputs, case.factory, inputs))
    return replace(
        case,
        name=name,
        source=source,
        anchor=table.path,
        manifest=table.path,
        dynamic_shapes=_dynamic(table, tuple(inputs)) or case.dynamic_shapes,
        tolerances=_tolerances(table),
        known_failures=tuple(
            _known_failure(table, i, known) for i, known in enumerate(values.get("known_failures", ()))
        ),
        keep=tuple(map(str, values.get("keep", ()))),
        **{key: values[key] for key in _PLAIN if key in values},
    )


def _check_choices(table: _Table) -> None:
    if table.values.get("allow_derived", 0) < 0:
        raise table.wrong("allow_derived", "a number of nodes", str(table.values["allow_derived"]))
    key = "exporter"
    try:
        check_exporter(table.values.get(key, "auto"), table.path.parent)
        key = "opset"
        check_opset(table.values.get(key))
    except UsageError as error:
        raise table.wrong(key, error.expected, error.found) from None


def _model(table: _Table, name: str, select: Select) -> Case:
    """Return the case of the entry's selector, whose paths start at the manifest."""
    from pytest_hierexport._cases.checkpoint import with_remote_code

    selector = table.values["model"]
    if selector.endswith(".toml"):
        raise table.wrong("model", "a single model", selector)
    try:
        cases = select([selector], table.path.parent)
    except HierexportError as error:
        raise type(error)(f"{error.expected}, for {name} in {table.path}", found=error.found, do=error.do) from None
    if len(cases) != 1:
        raise table.wrong("model", "a single model", f"{selector}, which is {len(cases)}")
    if not table.values.get("trust_remote_code", False):
        return cases[0]
    trusted = with_remote_code(cases[0])
    if trusted is None:
        raise table.wrong("trust_remote_code", "a checkpoint folder as the model", selector)
    return trusted


def _with_inputs(factory: Any, inputs: Mapping[str, InputSpec]) -> object:
    """Make the model, with the inputs of the manifest instead of the factory's."""
    made = factory()
    model = parts_of(made).get("model", made)
    return Example(model, (), {name: spec.tensor(f"the input {name}") for name, spec in inputs.items()})


def _input_spec(table: _Table, name: str, spec: object) -> InputSpec:
    inputs = _Table(table.path, f"{table.place}.inputs.{name}", spec)
    inputs.check({"shape": list, "dtype": str, "low": int, "high": int}, required=("shape",))
    shape = inputs.values["shape"]
    if not all(isinstance(size, int) and not isinstance(size, bool) and size >= 0 for size in shape):
        raise inputs.wrong("shape", "a list of sizes", repr(shape))
    stated = InputSpec(**{**inputs.values, "shape": tuple(shape)})
    if stated.low >= stated.high:
        raise inputs.wrong("high", f"a number above low, which is {stated.low}", str(stated.high))
    return stated


def _dynamic(table: _Table, inputs: tuple[str, ...]) -> dict[str, dict[int, str] | None] | None:
    """Return the dynamic dimensions by input, None for a static input: torch requires an entry for each."""
    stated = table.values.get("dynamic")
    if not stated:
        return None
    shapes: dict[str, dict[int, str] | None] = dict.fromkeys(inputs)
    for name, dimensions in stated.items():
        if not isinstance(dimensions, dict) or not all(
            str(axis).isdecimal() and isinstance(symbol, str) for axis, symbol in dimensions.items()
        ):
            raise table.wrong(
                f"dynamic.{name}", 'axes and the names of their sizes, as { 0 = "batch" }', repr(dimensions)
            )
        shapes[name] = {int(axis): symbol for axis, symbol in dimensions.items()}
    return shapes


def _tolerances(table: _Table) -> dict[str, float]:
    stated = table.values.get("tolerances", {})
    for dtype, tolerance in stated.items():
        if not re.fullmatch(r"b?float(16|32|64|8_\w+|6_\w+|4_\w+)", dtype):
            raise table.wrong(f"tolerances.{dtype}", "a floating dtype as torch calls it, like float32", dtype)
        if isinstance(tolerance, bool) or not isinstance(tolerance, (int, float)) or tolerance < 0:
            raise table.wrong(f"tolerances.{dtype}", "a relative tolerance of 0 or more", repr(tolerance))
    return {dtype: float(tolerance) for dtype, tolerance in stated.items()}


def _known_failure(table: _Table, i: int, stated: object) -> KnownFailure:
    known = _Table(table.path, f"{table.place}.known_failures.{i}", stated)
    known.check({"rule": str, "until": dt.date, "reason": str}, required=("rule", "until", "reason"))
    rule, until, reason = known.values["rule"], known.values["until"], known.values["reason"]
    if rule in CARDINAL:
        raise known.wrong("rule", "a rule that is not cardinal", rule)
    if isinstance(until, dt.datetime):
        raise known.wrong("until", "a date, without a time", str(until))
    if not reason.strip():
        raise known.wrong("reason", "the reason", repr(reason))
    return KnownFailure(rule, until, reason)
