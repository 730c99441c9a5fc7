"""Fingerprints what a module keeps in memory, to tell whether a model changed it for the next one.

    helper.py                          the fingerprint changes with
    LIMIT = 1                          helper.LIMIT = 2
    NAMES = {}                         NAMES["tower"] = Tower
    @cache                             a first call of load
    def load(name): ...
    SCALE = torch.ones(3)              helper.SCALE = torch.zeros(3), not with SCALE.zero_()

Objects are told apart by their addresses, numbers and texts by their values, too, for the address of one that is gone
serves again. They are found as the garbage collector finds them: no code of the module runs.

In goes what a module keeps, by :func:`kept_by`; out comes a number, by :func:`fingerprint`.
"""

from __future__ import annotations

import gc
import logging
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import PurePath
from types import CodeType, FrameType, FunctionType, GeneratorType, ModuleType
from typing import Any

from pytest_hierexport._files.paths import is_project

_MOST = 200_000
"""The number of objects beyond which a module's memory is not compared."""
_OPAQUE = (CodeType, FrameType, GeneratorType, ModuleType, PurePath, logging.Logger, type(os.environ))
"""Objects that belong to others, or that note things when they are asked what they are; the environment of a process
changes with each test, and its variables are recorded when they are read."""
_VALUES = frozenset({int, float, complex, str, bytes})
_OF_PYTHON = frozenset({"__builtins__", "__cached__", "__loader__", "__spec__", "__warningregistry__"})
_OF_CLASSES = frozenset({"__abstractmethods__", "__annotations__", "__dict__", "__doc__", "__weakref__", "_abc_impl"})
"""The attributes of a class that Python makes when they are needed."""


def kept_by(module: ModuleType) -> dict[str, object]:
    """Return what a module keeps, by name, without what the import system keeps there."""
    return {name: value for name, value in vars(module).items() if not _is_set_by_python(module, name, value)}


def fingerprint(kept: Mapping[str, object]) -> int | None:
    """Return a number for what names lead to; None where that is too much to compare.

    Functions and classes of other code than the project are not entered.
    """
    found: list[int] = [hash(name) for name in kept]
    seen: set[int] = set()
    waiting: list[object] = [*kept.values()]
    while waiting:
        value = waiting.pop()
        found.append(id(value))
        if type(value) in _VALUES:
            found.append(hash(value))
        if id(value) not in seen:
            seen.add(id(value))
            waiting += _parts(value)
        if len(seen) > _MOST:
            return None
    return hash(tuple(found))


def _is_set_by_python(module: ModuleType, name: str, value: object) -> bool:
    """Whether the import system has set a name: a package gets a name for each of its modules that is imported."""
    if issubclass(type(value), ModuleType):
        return vars(value).get("__name__") == f"{module.__name__}.{name}"
    return name in _OF_PYTHON


def _parts(value: object) -> Iterable[object]:
    """Return the objects that one holds and that code may change through it."""
    # `isinstance` would ask the object for its `__class__`, which may be code of its own.
    kind = type(value)
    if issubclass(kind, _OPAQUE):
        return ()
    if issubclass(kind, FunctionType):
        function: Any = value
        if not is_project(_innermost(function).__code__.co_filename):
            return ()
        return function.__code__, function.__defaults__, function.__kwdefaults__, function.__closure__, vars(function)
    if issubclass(kind, type):
        cls: Any = value
        members = (part for name, part in vars(cls).items() if name not in _OF_CLASSES)
        return members if is_project(_file(cls)) else ()
    return gc.get_referents(value)


def _innermost(function: Any) -> Any:
    """Return the function that decorators are around: what `functools.singledispatch` keeps belongs to it."""
    seen = set()
    while issubclass(type(inner := vars(function).get("__wrapped__")), FunctionType) and id(inner) not in seen:
        seen.add(id(inner))
        function = inner
    return function


def _file(cls: type) -> str:
    module: Any = sys.modules.get(str(vars(cls).get("__module__")))
    file = None if module is None else vars(module).get("__file__")
    return file if isinstance(file, str) else ""
