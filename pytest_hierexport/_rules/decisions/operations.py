"""What instrumented code calls (:mod:`instrument`): computes as Python does and, while it watches, notes decisions.

Operators are functions as well. Each function that may decide by a name has a handler, which is called with the same
values before it. What the handler gives is the result under the old names, by which a text is marked.
"""

from __future__ import annotations

import builtins
import difflib
import fnmatch
import importlib.util
import inspect
import operator as op
import os
import re
import sys
from collections.abc import Callable, KeysView, Mapping, Sequence
from enum import EnumMeta
from functools import partial, reduce
from inspect import getattr_static
from itertools import product
from pathlib import PurePath
from types import BuiltinFunctionType, FrameType, FunctionType, MethodDescriptorType, MethodType, MethodWrapperType
from types import SimpleNamespace as Holder
from typing import Any, TypeAlias, cast

import torch.package  # noqa: F401  # it replaces `inspect.getfile` as it is imported

from pytest_hierexport._rules.decisions.deciding import OTHER, Decisions, is_table
from pytest_hierexport._rules.decisions.names import Marked, is_a, marked

WATCH = "__hierexport_watch__"
"""The name of the watching object among Python's built-in ones."""
_Handler: TypeAlias = "Callable[..., Any]"
"""Takes decisions, a site, a function and what it is called with; gives its result under the old names, if any."""
_OF_MODELS = frozenset({"model_type", "name_or_path", "_name_or_path", "architectures", "base_model_prefix"})
STAYING = _OF_MODELS | {"name", "stem", "__module__", "__name__", "__qualname__"}
"""The attributes that give names which stay as they are while the model has others."""


class Watching:
    """The object that instrumented code calls."""

    decisions: Decisions | None = None
    """Notes decisions; None while nothing is watched."""

    def operate(self, site: int, symbol: str, *operands: Any) -> Any:
        """Return what an operation of Python's syntax gives."""
        return self.called(site, OPERATIONS[symbol])(*operands)

    def called(self, site: int, function: Any) -> Any:
        """Return a function; one that may decide by a name, so that it notes that."""
        if self.decisions is None:
            return function
        if type(function) is partial:
            return partial(self.called(site, function.func), *function.args, **function.keywords)
        if type(function) is op.methodcaller:  # which shows its method and arguments as it is copied
            made, given = cast("Any", function.__reduce__())
            name, *args = getattr(made, "args", ()) + given
            options = getattr(made, "keywords", {})
            return lambda owner: self.called(site, getattr(owner, name))(*args, **options)
        handler, of = _handler(function)
        return function if handler is None else partial(self._run, handler, site, function, of)

    def passed(self, site: int, function: Any) -> Any:
        """Return a function that is passed to another one, which may compare classes by identity."""
        return function if isinstance(function, type) else self.called(site, function)

    def value(self, site: int, value: Any) -> Holder:
        """Return the holder of a value of a pattern: of a text, one that notes what it is compared with."""
        if self.decisions is not None and is_a(value, str) and op.is_(type(value).__eq__, str.__eq__):
            value = _PatternText(str.__str__(value))
            value.alternative, value.site = str.__str__(value), site
        return Holder(held=value)

    def _run(self, handler: _Handler, site: int, function: Any, of: Any, /, *args: Any, **options: Any) -> Any:
        """Return what a function gives, after it is noted what it decides."""
        decisions = self.decisions
        if decisions is None:
            return function(*args, **options)
        self.decisions = None  # instrumented code that runs only for what would be under the old names notes nothing
        try:
            other = handler(decisions, site, *of, *args, **options)
        finally:
            self.decisions = decisions
        result = function(*args, **options)
        return marked(result, _staying(decisions, result, *args) if handler is _ask_attribute else other)


class _PatternText(Marked):
    """A text of a pattern. Python asks it first whether it equals a text, since it is of the more special class."""

    __slots__ = ("site",)
    __hash__ = str.__hash__
    site: int

    def __eq__(self, other: object) -> bool:
        return bool(watching.operate(self.site, "Eq", other, str.__str__(self)))


watching = Watching()
setattr(builtins, WATCH, watching)


def _handler(function: Any) -> tuple[_Handler | None, tuple[Any, ...]]:
    """Return what notes the decisions of a function, if it may make any, with the function or method and its owner."""
    if issubclass(type(function), EnumMeta):
        return Decisions.look_up, (function, [member._value_ for member in function])
    if not issubclass(type(function), _FUNCTIONS):
        return None, ()
    if hasattr(function, "dispatch") and hasattr(function, "registry"):
        return _look_up_dispatch, (function,)
    if function in _HANDLERS:
        return _HANDLERS[function], (function,)
    owner, name = getattr(function, "__self__", None), getattr(function, "__name__", "")
    if name in _OF_TABLES and is_table(owner):
        return Decisions.look_up, (function, owner)
    method = getattr(function, "__func__", None) or getattr(type(owner), name, None)
    return _HANDLERS.get(method), (method, owner)


def _compute_of(kinds: tuple[type, ...], decisions: Decisions, site: int, operation: Any, *operands: Any) -> Any:
    """Compute an operation on values of some kinds: the order of texts decides nothing, nor whether they are one."""
    return decisions.compute(site, operation, *operands) if is_a(operands[0], *kinds) else None


def _look_up_in(decisions: Decisions, site: int, operation: Any, key: Any, held: Any) -> Any:
    """Compute whether a text is in another one, or look up whether a table holds a key."""
    if isinstance(held, str):
        return decisions.compute(site, operation, key, held)
    return decisions.look_up(site, operation, held, key)


def _take_item(decisions: Decisions, site: int, operation: Any, held: Any, key: Any) -> Any:
    """Cut a text, whose words are elsewhere under the old names, or look up what a table holds for a key."""
    noted = decisions.write if isinstance(held, str) else decisions.look_up
    return noted(site, operation, held, key)


def _ask_attribute(decisions: Decisions, site: int, _: Any, owner: Any = None, name: Any = None, /, *__: Any) -> None:
    """Look up an attribute by its name; the modules of the model note their old names themselves."""
    is_name = isinstance(name, str) and decisions.names.other(name) is not name
    if is_name and not hasattr(type(owner), "named_modules"):
        old = decisions.names.old(str(name))
        has = getattr_static(owner, old, decisions) is not decisions
        decisions.look_up(site, _, [old] if has else [], name)


def _look_up_module(decisions: Decisions, site: int, _: Any, /, name: Any = None, *__: Any, **___: Any) -> None:
    """Look up a module that is imported by a name which a name of the model is a part of."""
    decisions.look_up(site, _, [] if name in decisions.modules else [decisions.names.old(str(name))], name)


def _look_up_dispatch(decisions: Decisions, site: int, function: Any, /, value: Any = None, *_: Any, **__: Any) -> None:
    """Look up the class by which `functools.singledispatch` chooses a function."""
    chosen = function.dispatch(type(value))
    classes = tuple(cls for cls, each in function.registry.items() if each is chosen)
    decisions.look_up_class(site, function, value, classes)


def _look_up_patterns(decisions: Decisions, site: int, _: Any, subject: Any, keys: Any, classes: Any) -> None:
    """Look up the keys of patterns in the subject of a `match` statement, and their classes by what they name."""
    for key in keys if is_a(subject, Mapping) else ():
        decisions.look_up(site, _, subject, key)
    frame = sys._getframe(3)
    decisions.look_up_class(site, _, subject, tuple(_named(path, frame) for path in classes))


def _named(path: str, frame: FrameType) -> Any:
    """Return what a dotted name is in a frame; None if that is not to be told."""
    first, *rest = path.split(".")
    value = {**frame.f_globals, **frame.f_locals}.get(first)
    return reduce(lambda owner, name: getattr_static(owner, name, None), rest, value)


def _staying(decisions: Decisions, value: Any, owner: Any = None, name: str = "__file__", *_: Any) -> Any:
    """Return what a name that stays as it is would be if the model had another one; None for another value."""
    if name in _OF_MODELS and decisions.is_models(owner):
        return [OTHER] * len(value) if type(value) is list else OTHER
    if name in {"__name__", "__qualname__"} and decisions.is_configuration(owner):
        return OTHER
    if name == "name" and type(value) is str and hasattr(owner, "op_type"):
        # A name without a number is its operator's.
        return re.sub(r"\d+", lambda number: f"{number[0]}0{number[0]}", value)
    if name == "__module__" and str(value) in decisions.modules:
        return str(value).partition(".")[0] + f".{OTHER}" * max(str(value).count("."), 1)
    if isinstance(owner, PurePath):
        return getattr(decisions.files.get(str(owner)), name, None)
    return str(decisions.files.get(str(value), "")) or None


_FUNCTIONS = (BuiltinFunctionType, FunctionType, MethodType, MethodDescriptorType, MethodWrapperType)
_OF_TABLES = {"get", "pop", "setdefault", "__getitem__", "__contains__", "index", "count", "remove", "discard"}
_OF_TEXTS = """
    startswith endswith find rfind index rindex count removeprefix removesuffix replace split rsplit partition
    rpartition __contains__ __eq__ __ne__
"""
_OF_SETS = "intersection difference symmetric_difference issubset issuperset isdisjoint"
_WRITERS = "capitalize casefold expandtabs format join lower lstrip rstrip splitlines strip swapcase title upper"
_NAMED: Sequence[tuple[_Handler, Sequence[Any], str]] = (
    (Decisions.compute, [str], _OF_TEXTS),
    (Decisions.compute, [re, re.Pattern], "match search fullmatch findall finditer split sub subn"),
    (Decisions.compute, [set, frozenset], _OF_SETS),
    (Decisions.compute, [PurePath], "match full_match is_relative_to"),
    (Decisions.compute, [fnmatch, difflib], "fnmatch fnmatchcase filter get_close_matches"),
    (Decisions.compute, [op], "contains countOf indexOf"),
    (Decisions.write, [str], _WRITERS),
    (Decisions.write, [os.path], "basename dirname join split splitext"),
    (Decisions.look_up_class, [builtins], "isinstance issubclass"),
    (_ask_attribute, [builtins, inspect], "hasattr getfile getsourcefile"),
    (_look_up_module, [builtins, importlib, importlib.util], "__import__ import_module find_spec"),
)
"""What notes the decisions of functions and methods, by where they are; what is computed changes nothing."""
_SYNTAX: Mapping[_Handler, Mapping[str, Callable[..., Any]]] = {
    Decisions.compute: {"Eq": op.eq, "NotEq": op.ne, "BitAnd": op.and_, "BitXor": op.xor, "Sub": op.sub},
    Decisions.write: {"Add": op.add, "Mod": op.mod, "JoinedStr": "".join, "Format": "{}".format, "Str": "{!s}".format},
    partial(_compute_of, (set, frozenset, KeysView)): {"Lt": op.lt, "LtE": op.le, "Gt": op.gt, "GtE": op.ge},
    partial(_compute_of, (type,)): {"Is": op.is_, "IsNot": op.is_not},
    _look_up_in: {"In": lambda key, held: key in held, "NotIn": lambda key, held: key not in held},
    _take_item: {"Subscript": op.getitem, "Slice": slice},
    _ask_attribute: {"Attribute": getattr},
    _look_up_patterns: {"Match": lambda subject, *_: subject},
}
OPERATIONS = {symbol: function for operations in _SYNTAX.values() for symbol, function in operations.items()}
"""The operations of Python's syntax, by the classes of its tree."""
_HANDLERS: dict[Any, _Handler] = {
    getattr(home, name): handler
    for handler, homes, names in _NAMED
    for home, name in product(homes, names.split())
    if hasattr(home, name)
}
_HANDLERS |= {function: handler for handler, operations in _SYNTAX.items() for function in operations.values()}
