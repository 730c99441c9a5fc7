"""Checks what users pass to the public functions by the types in their signatures, and refuses in words what is wrong.

The check comes before any work: a wrong object would fail on one of its attributes, halfway through it. Annotations are
compared as text, because most of the types in them would have to be imported first.

    annotation of `tolerances`    passed    told
    Mapping[str, float] | None    3         expected tolerances to be a mapping of texts to numbers or None; found 3
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import functools
import inspect
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from numbers import Integral, Real
from pkgutil import resolve_name
from typing import Any, ParamSpec, TypeVar

from pytest_hierexport._errors import UsageError

ParamsT = ParamSpec("ParamsT")
ResultT = TypeVar("ResultT")
_Fits = Callable[[object], bool]


@dataclass(frozen=True)
class _Kind:
    """What one name in an annotation stands for."""

    one: str
    several: str
    fits: _Fits
    do: str = ""


def _of(*places: str) -> _Fits:
    """Return a function that tells whether a value is of one of these classes, and imports them when it is called."""
    return lambda value: any(isinstance(value, resolve_name(place)) for place in places)


def _has(*names: str) -> _Fits:
    return lambda value: not isinstance(value, type) and all(hasattr(value, name) for name in names)


def _is_runnable(value: Any) -> bool:
    return _has("model", "args", "kwargs")(value) and _has("forward")(value.model)


_KINDS = {
    "None": _Kind("None", "None", lambda value: value is None),
    "bool": _Kind("True or False", "True or False", lambda value: isinstance(value, bool)),
    "str": _Kind("a text", "texts", lambda value: isinstance(value, str)),
    "int": _Kind("a whole number", "whole numbers", lambda v: isinstance(v, Integral) and not isinstance(v, bool)),
    "float": _Kind("a number", "numbers", lambda value: isinstance(value, Real) and not isinstance(value, bool)),
    "Path": _Kind("a path", "paths", lambda value: isinstance(value, os.PathLike), "of an export, pass its `path`"),
    "Callable": _Kind("a function", "functions", callable),
    "Array": _Kind(
        "an array of NumPy",
        "arrays of NumPy",
        _of("numpy:ndarray"),
        "make arrays by numpy.asarray(…), those of tensors by their numpy()",
    ),
    "Attribution": _Kind(
        "an Attribution",
        "Attributions",
        _of("pytest_hierexport._calls.attribution:Attribution"),
        "pass what read() returns; of an export, its `attribution`",
    ),
    "Module": _Kind(
        "a Module", "Modules", _of("pytest_hierexport._calls.modules:Module"), "of an export, pass its `modules`"
    ),
    "ExportedCase": _Kind(
        "an ExportedCase",
        "ExportedCases",
        _of("pytest_hierexport._rules.base:ExportedCase"),
        "pass what the fixture hierexport(model, args) gives",
    ),
    "ir.Model": _Kind(
        "an onnx_ir.Model",
        "onnx_ir.Models",
        _of("onnx_ir:Model"),
        "pass what onnx_ir.load(path) gives; of an export, its `model`",
    ),
    "onnx.ModelProto": _Kind(
        "an onnx.ModelProto", "onnx.ModelProtos", _of("onnx:ModelProto"), "pass what onnx.load(path) gives"
    ),
    "Case": _Kind("a Case", "Cases", _of("pytest_hierexport._cases.case:Case")),
    "dt.date": _Kind("a date without a time", "dates", lambda v: isinstance(v, dt.date) and not _has("hour")(v)),
    "Needs": _Kind("file, model or export", "needs", lambda value: value in ("file", "model", "export")),
    "Weights": _Kind("full, none or thin", "weights", lambda value: value in ("full", "none", "thin")),
    "Runnable": _Kind(
        "a model with the inputs to run it on",
        "models with inputs",
        _is_runnable,
        "pass Example(model, args)",
    ),
}
"""The names in annotations; what has another one fits all, and the function itself checks it."""
_HOLDERS = {"Sequence": Collection, "tuple": Collection, "Iterable": Iterable, "Mapping": Mapping}
_ALIASES = {
    "Model": "str | Path | onnx.ModelProto | ir.Model",
    "Inputs": "Mapping[str, Array] | Runnable",
    "Primary": "str | Callable",
    "Tags": "str",
    "NameStyle": "str",
    "OriginChoice": "str",
    "Consumer": "str",
}
"""Types of this package that have a name, as annotations; which texts are taken is checked where they are used."""


def checked(function: Callable[ParamsT, ResultT]) -> Callable[ParamsT, ResultT]:
    """Return a function that refuses arguments which do not fit its annotations, and else calls the given one."""
    names = tuple(inspect.signature(function).parameters)

    @functools.wraps(function)
    def call(*args: ParamsT.args, **kwargs: ParamsT.kwargs) -> ResultT:
        __tracebackhide__ = True
        check_arguments(function, {**dict(zip(names, args, strict=False)), **kwargs})
        return function(*args, **kwargs)

    return call


def check_arguments(function: Callable[..., object], arguments: Mapping[str, object]) -> None:
    """Check that arguments, by name, fit a function's annotations; Python itself refuses those that it does not have.

    Raises:
        UsageError: One does not.
    """
    __tracebackhide__ = True
    for name, annotation in function.__annotations__.items():
        if name in arguments:
            check_argument(name, arguments[name], annotation)


def check_argument(name: str, value: object, annotation: str) -> None:
    """Check that a value fits an annotation.

    Raises:
        UsageError: It does not.
    """
    __tracebackhide__ = True
    if not _fits(value, annotation):
        known = [_KINDS[each] for each in _names(annotation) if each in _KINDS]
        hints = "; ".join(dict.fromkeys(kind.do for kind in known if kind.do))
        expected = f"{name} to be {_words(annotation)}"
        raise UsageError(expected, found=_found(value, annotation), do=hints or f"pass another {name}, or leave it out")


def check_fields(of: str, item: Any) -> None:
    """Check that the fields of a dataclass, as `of` calls it, fit their annotations.

    Raises:
        UsageError: One does not.
    """
    for field in dataclasses.fields(item):
        check_argument(f"{field.name} of {of}", getattr(item, field.name), str(field.type))


def _fits(value: object, annotation: str) -> bool:
    return any(_fits_part(value, *_opened(part)) for part in _parts(annotation))


def _fits_part(value: object, name: str, inner: Sequence[str]) -> bool:
    if name not in _HOLDERS:
        return name not in _KINDS or _KINDS[name].fits(value)
    if isinstance(value, str | bytes) or not isinstance(value, _HOLDERS[name]):
        return False
    if isinstance(value, Mapping):
        return name == "Mapping" and all(_fits(one, inner[0]) and _fits(two, inner[1]) for one, two in value.items())
    # What is no collection may be gone once it has been looked through.
    return not isinstance(value, Collection) or all(_fits(each, inner[0]) for each in value)


def _found(value: object, annotation: str) -> str:
    is_holder = any(isinstance(value, _HOLDERS[name]) for name in _HOLDERS if name in annotation)
    if isinstance(value, str | bytes | Real | None):
        return f"{value!r:.200}"
    if is_holder and isinstance(value, Mapping):
        parts = (f"{_found(one, annotation)}: {_found(two, annotation)}" for one, two in value.items())
        return f"{{{', '.join(parts):.200}}}"
    # Arrays and tensors are collections, too.
    if is_holder and isinstance(value, (list, tuple, AbstractSet)):
        return f"[{', '.join(_found(each, annotation) for each in value):.200}]"
    return f"an object of the class {type(value).__name__}"


def _names(annotation: str) -> Iterator[str]:
    """Yield the names of all types in an annotation, without those that a function takes and returns."""
    for name, inner in map(_opened, _parts(annotation)):
        yield name
        for each in inner if name in _HOLDERS else ():
            yield from _names(each)


def _words(annotation: str, *, several: bool = False) -> str:
    told = []
    for name, inner in map(_opened, _parts(annotation)):
        if name == "Mapping":
            told.append(f"a mapping of {_words(inner[0], several=True)} to {_words(inner[1], several=True)}")
        elif name in _HOLDERS:
            told.append(f"a sequence of {_words(inner[0], several=True)}")
        elif name in _KINDS:
            told.append(_KINDS[name].several if several else _KINDS[name].one)
        else:
            told.append("anything")
    return ", ".join([*told[:-2], " or ".join(told[-2:])])


def _parts(annotation: str) -> list[str]:
    """Return the alternatives of an annotation, aliases replaced by what they stand for."""
    parts = _split(annotation, "|")
    return [other for part in parts for other in (_parts(_ALIASES[part]) if part in _ALIASES else [part])]


def _opened(part: str) -> tuple[str, Sequence[str]]:
    """Return the name before the brackets, and what is between them."""
    name, _, inner = part.partition("[")
    return name, _split(inner.removesuffix("]"), ",")


@functools.cache
def _split(text: str, mark: str) -> tuple[str, ...]:
    """Return what is between the marks that are in no brackets."""
    found, depth = [""], 0
    for character in text:
        depth += (character == "[") - (character == "]")
        if character == mark and not depth:
            found.append("")
        else:
            found[-1] += character
    return tuple(part.strip() for part in found)


def check_choice(option: str, value: str, choices: Sequence[str]) -> None:
    """Check that an option is one of several texts.

    Raises:
        UsageError: It is not.
    """
    if value not in tuple(choices):
        raise UsageError(f"{option} to be one of {', '.join(choices)}", found=repr(value), do="choose one of them")
