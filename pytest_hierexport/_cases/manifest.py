"""Reads a manifest (`models.toml`) into cases. docs/manifest.md describes the format."""

from __future__ import annotations

import datetime as dt
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import fields, replace
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any

from pytest_hierexport._cases.case import Case, KnownFailure, Step
from pytest_hierexport._cases.checkpoint import with_remote_code
from pytest_hierexport._cases.example import Example, parts_of
from pytest_hierexport._cases.exporters import check_exporter
from pytest_hierexport._cases.inputs import InputSpec
from pytest_hierexport._cases.steps import check_step
from pytest_hierexport._errors import CollectError, HierexportError, UsageError, proposal
from pytest_hierexport._export.choices import check_opset
from pytest_hierexport._files.schemas import load_schema

Select = Callable[[Sequence[str], Path], list[Case]]
_CORRECT = "correct the manifest"
_READ: ContextVar[tuple[tuple[Path, str], ...]] = ContextVar("_READ", default=())
"""The entries that are being read: a model of a manifest may be that of another entry, with what it states."""
_OF_THE_FACTORY = ("model", "thin", "inputs", "trust_remote_code")
"""The entries that say how the model and its inputs are made."""


def read_manifest(path: Path, source: str, select: Select, only: str | None = None) -> list[Case]:
    """Return the cases of a manifest, in its order, each anchored at it.

    Args:
        path: The manifest.
        source: The selector that named it.
        select: Returns the cases of selectors, given the folder that relative paths start from.
        only: The name of the one model to return; None for all.

    Raises:
        CollectError: The manifest cannot be read, or has an invalid entry.
        UsageError: A model in it does not exist.
    """
    loaded = _load(path)
    models = loaded.get("models")
    if not isinstance(models, dict) or not models:
        others = "".join(f", but [{key}]" for key, value in loaded.items() if isinstance(value, dict) and value)
        raise _wrong(path, "models", "a table [models.NAME] per model", repr(models) if models else f"none{others}")
    if "" in models:
        raise _wrong(path, "models", "a name for every model", repr(""))
    if only is not None and only not in models:
        raise UsageError(f"a model of {path}", found=f"no {only!r}", do=proposal(only, models))
    wanted = models if only is None else {only: models[only]}
    return [_case(_Table(path, f"models.{name}", table), name, source, select) for name, table in wanted.items()]


def read_selectors(path: Path) -> dict[str, str]:
    """Return the selector of each model in a manifest by the model's name; an entry without one is left out.

    Raises:
        CollectError: The manifest cannot be read.
    """
    models = _load(path).get("models")
    entries = models.items() if isinstance(models, dict) else ()
    return {name: str(entry["model"]) for name, entry in entries if isinstance(entry, dict) and "model" in entry}


def line_of_model(path: Path, name: str) -> int:
    """Return the line of the first table of a model in a manifest, 1 if it is not found."""
    try:
        return _lines_of_models(path, path.read_text(encoding="utf-8-sig")).get(name, 1)
    except (OSError, UnicodeDecodeError):
        return 1


@lru_cache(maxsize=4)
def _lines_of_models(path: Path, text: str) -> Mapping[str, int]:
    lines: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith("["):
            # A header is TOML by itself, quoted keys and comments included; the TOML parser gives no lines.
            with suppress(CollectError):
                models = parse_manifest(path, line).get("models")
                for name in models if isinstance(models, dict) else ():
                    lines.setdefault(name, number)
    return lines


def _load(path: Path) -> dict[str, Any]:
    try:
        return parse_manifest(path, path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise CollectError(f"{path} to be a readable UTF-8 file", found=str(error), do="name another file") from None


def parse_manifest(path: Path, text: str) -> dict[str, Any]:
    """Return what a manifest's text holds.

    Raises:
        CollectError: It is not TOML.
    """
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        loaded: dict[str, Any] = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise CollectError(f"{path} to be TOML", found=str(error), do="correct that line") from None
    return loaded


class _Table:
    """A model's table with its place, for messages; it follows the schema."""

    def __init__(self, path: Path, place: str, values: Any) -> None:
        self.path, self.place, self.values = path, place, values
        # An unknown key is named first: a required one that is missing may be misspelled.
        errors = sorted(validator().iter_errors(values), key=lambda error: error.validator != "additionalProperties")
        for error in errors:
            raise self._broken(error)

    def wrong(self, key: str, expected: str, found: str, do: str = _CORRECT) -> CollectError:
        return _wrong(self.path, f"{self.place}.{key}", expected, found, do)

    def _broken(self, error: Any) -> CollectError:
        place, value, schema = ".".join([self.place, *map(str, error.absolute_path)]), error.instance, error.schema
        if error.validator == "additionalProperties":
            key = next(key for key in value if key not in (known := schema["properties"]))
            expected = f"{place}.{key} in {self.path} to be a known key"
            raise CollectError(expected, found="an unknown one", do=proposal(key, known))
        if error.validator == "required":
            key = next(key for key in schema["required"] if key not in value)
            return _wrong(self.path, f"{place}.{key}", f"{key} to be stated", "nothing")
        found = str(value) if isinstance(value, dt.date) else repr(value)
        return _wrong(self.path, place, schema["description"], found + self._misplaced(list(error.absolute_path)))

    def _misplaced(self, place: Sequence[str | int]) -> str:
        """Say of an option below a table of inputs that it is taken for one: TOML's tables end at the next one."""
        options = load_schema("manifest")["properties"]
        if len(place) != 2 or place[1] not in options or "properties" in options[place[0]]:
            return ""
        table, option = place
        return f", as {option} is read as an entry of {table}; state options above [{self.place}.{table}]"


@cache
def validator() -> Any:
    """Return the validator of a model's table, with the types of TOML: a date, 20.0 is no integer and nan no number."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    types = Draft202012Validator.TYPE_CHECKER.redefine_many(
        {
            "integer": lambda _, value: isinstance(value, int) and not isinstance(value, bool),
            "number": lambda _, value: type(value) in {int, float} and not math.isnan(value),
            "date": lambda _, value: isinstance(value, dt.date) and not isinstance(value, dt.datetime),
        }
    )
    return extend(Draft202012Validator, type_checker=types)(load_schema("manifest"))


def _wrong(path: Path, place: str, expected: str, found: str, do: str = _CORRECT) -> CollectError:
    return CollectError(f"{expected} at {place} in {path}", found=found, do=do)


def _case(table: _Table, name: str, source: str, select: Select) -> Case:
    values = table.values
    _check_choices(table)
    case = _model(table, "model", name, select)
    inputs = {key: _input_spec(table, key, spec) for key, spec in values.get("inputs", {}).items()}
    if inputs:
        case = replace(case, factory=partial(_with_inputs, case.factory, inputs))
    return replace(
        case,
        name=name,
        source=source,
        anchor=table.path,
        manifest=table.path,
        dynamic_shapes=_dynamic(values.get("dynamic", {}), inputs) or case.dynamic_shapes,
        # The model may be that of another entry, which says how the model and its inputs are made.
        entry=case.entry + repr({key: values[key] for key in _OF_THE_FACTORY if key in values}),
        stated=case.stated | values.keys(),
        **_options(table, name, select),
    )


def _options(table: _Table, name: str, select: Select) -> dict[str, Any]:
    """Return the options that an entry states; others stay as the model has them, which may be that of an entry."""
    values = table.values
    converted: dict[str, Any] = {
        **_accepted(values),
        "after": tuple(map(_step, values.get("after", ()))),
        "keep": tuple(map(str, values.get("keep", ()))),
        "thin": _thin(table, name, select),
    }
    of_case = {field.name for field in fields(Case)}
    return {key: converted.get(key, stated) for key, stated in values.items() if key in of_case}


def _check_choices(table: _Table) -> None:
    key = "exporter"
    try:
        check_exporter(table.values.get(key, "auto"), table.path.parent)
        key = "opset"
        check_opset(table.values.get(key))
        key = "after"
        for step in map(_step, table.values.get(key, ())):
            check_step(step.name, table.path.parent)
    except (UsageError, CollectError) as error:
        raise table.wrong(key, error.expected, error.found, error.do) from None


def _accepted(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what both the entry of a model and that of a step may state."""
    return {
        "tolerances": {dtype: float(tolerance) for dtype, tolerance in values.get("tolerances", {}).items()},
        "allow_derived": values.get("allow_derived", 0),
        "known_failures": tuple(KnownFailure(**known) for known in values.get("known_failures", ())),
    }


def _step(stated: str | Mapping[str, Any]) -> Step:
    """Return a step, stated by its name alone or with what is allowed to its result."""
    values: Mapping[str, Any] = {"step": stated} if isinstance(stated, str) else stated
    return Step(values["step"], **_accepted(values))


def _thin(table: _Table, name: str, select: Select) -> Case | None:
    """Return the case of the smaller model that the entry names; None where there is none."""
    if "thin" not in table.values:
        return None
    if table.values.get("weights") != "thin":
        raise table.wrong(
            "weights", '"thin", as the entry names a thin model', repr(table.values.get("weights", "full"))
        )
    return _model(table, "thin", name, select)


def _model(table: _Table, key: str, name: str, select: Select) -> Case:
    """Return the case of a selector in the entry, whose paths start at the manifest."""
    selector = table.values[key]
    if selector.endswith(".toml"):
        raise table.wrong(key, "a single model", selector)
    here, around = (table.path, table.place), _READ.get()
    if here in around:
        raise table.wrong(key, "a model that is not defined by itself", selector)
    token = _READ.set((*around, here))
    try:
        cases = select([selector], table.path.parent)
    except HierexportError as error:
        raise type(error)(f"{error.expected}, for {name} in {table.path}", found=error.found, do=error.do) from None
    finally:
        _READ.reset(token)
    if len(cases) != 1:
        raise table.wrong(key, "a single model", f"{selector}, which is {len(cases)}")
    if not table.values.get("trust_remote_code", False):
        return cases[0]
    trusted = with_remote_code(cases[0])
    if trusted is None and key == "model":
        raise table.wrong("trust_remote_code", "a checkpoint folder as the model", selector)
    # The smaller model may be a factory, whose code is the project's own.
    return trusted or cases[0]


def _with_inputs(factory: Any, inputs: Mapping[str, InputSpec]) -> object:
    """Make the model, with the inputs of the manifest instead of the factory's, whose dynamic shapes stay."""
    made = factory()
    parts = parts_of(made)
    shapes = parts.get("dynamic_shapes")
    if isinstance(shapes, Mapping):
        shapes = {name: axes for name, axes in shapes.items() if name in inputs}
    drawn = {name: spec.tensor(f"the input {name}") for name, spec in inputs.items()}
    return Example(parts.get("model", made), (), drawn, shapes)


def _input_spec(table: _Table, name: str, spec: Mapping[str, Any]) -> InputSpec:
    stated = InputSpec(**{**spec, "shape": tuple(spec["shape"])})
    if stated.low >= stated.high:
        raise table.wrong(f"inputs.{name}.high", f"a number above low, which is {stated.low}", str(stated.high))
    return stated


def _dynamic(stated: Mapping[str, Mapping[str, str]], inputs: Iterable[str]) -> dict[str, dict[int, str] | None] | None:
    """Return the dynamic dimensions by input, None for a static input: torch requires an entry for each."""
    axes = {name: {int(axis): size for axis, size in sizes.items()} for name, sizes in stated.items()}
    return {**dict.fromkeys(inputs), **axes} if axes else None
