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
from functools import partial
from inspect import getattr_static
from itertools import product
from pathlib import PurePath
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType, MethodType, MethodWrapperType
from types import SimpleNamespace as Holder
from typing import Any, TypeAlias, cast

import torch.package  # noqa: F401  # it replaces `inspect.getfile` as it is imported

from pytest_hierexport._rules.decisions.deciding import TABLES, Decisions, outcome
from pytest_hierexport._rules.decisions.values import Marked, is_a, marked, under_old

WATCH = "__hierexport_watch__"
"""The name of the watching object among Python's built-in ones."""
_Handler: TypeAlias = "Callable[..., Any]"
"""Takes decisions, a function and what it is called with; gives its result under the old names, if any."""


class Watching:
    """The object that instrumented code calls."""

    decisions: Decisions | None = None
    """Notes decisions; None while nothing is watched."""

    def operate(self, symbol: str, *operands: Any) -> Any:
        """Return what an operation of Python's syntax gives."""
        return self.called(OPERATIONS[symbol])(*operands)

    def called(self, function: Any) -> Any:
        """Return a function; one that may decide by a name, so that it notes that."""
        if self.decisions is None:
            return function
        if type(function) is partial:
            return partial(self.called(function.func), *function.args, **function.keywords)
        if type(function) is op.methodcaller:  # which shows its method and arguments as it is copied
            made, given = cast("Any", function.__reduce__())
            name, *args = (call := partial(made, *given)).args
            return lambda owner: self.called(getattr(owner, name))(*args, **call.keywords)
        handler, of = _handler(function)
        return function if handler is None else partial(self._run, handler, function, of)

    def passed(self, function: Any) -> Any:
        """Return a function that is passed to another one, which may compare classes by identity."""
        return function if isinstance(function, type) else self.called(function)

    def value(self, value: Any) -> Holder:
        """Return the holder of a value of a pattern: of a text, one that notes what it is compared with."""
        if self.decisions is not None and is_a(value, str) and op.is_(type(value).__eq__, str.__eq__):
            value = _PatternText(str.__str__(value))
            value.alternative = str.__str__(value)
        return Holder(held=value)

    def _run(self, handler: _Handler, function: Any, of: Any, /, *args: Any, **options: Any) -> Any:
        """Return what a function gives, after it is noted what it decides."""
        decisions = self.decisions
        if decisions is None:
            return function(*args, **options)
        self.decisions = None  # instrumented code that runs only for what would be under the old names notes nothing
        try:
            other = handler(decisions, *of, *args, **options)
        finally:
            self.decisions = decisions
        result = function(*args, **options)
        return marked(result, decisions.staying(result, *args) if handler is _ask_attribute else other)


class _PatternText(Marked):
    """A text of a pattern. Python asks it first whether it equals a text, since it is of the more special class."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return bool(watching.operate("Eq", other, str.__str__(self)))


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
    return _handler_of_method(getattr(function, "__self__", None), getattr(function, "__name__", ""))


def _handler_of_method(owner: Any, name: str) -> tuple[_Handler | None, tuple[Any, ...]]:
    """Return what notes the decisions of a method, with the method and its owner."""
    method = getattr(type(owner), name, None)
    is_lookup = name in _OF_TABLES and is_a(owner, *TABLES)
    return Decisions.look_up if is_lookup else _HANDLERS.get(method), (method, owner)


def _call_method(decisions: Decisions, operation: Any, owner: Any, *operands: Any) -> Any:
    """Do what is done for the method that an operator calls: `owner[key]` for `owner.__getitem__(key)`."""
    handler, _ = _handler_of_method(owner, f"__{operation.__name__}__")
    return handler and handler(decisions, operation, owner, *operands)


def _ask_attribute(decisions: Decisions, _: Any, owner: Any = None, name: Any = None, /, *__: Any) -> None:
    """Look up an attribute by its name; the modules of the model note their old names themselves."""
    if under_old(decisions.names, name) is not name and not hasattr(type(owner), "named_modules"):
        old = decisions.names.old(str(name))
        decisions.look_up(_, [old] if getattr_static(owner, old, decisions) is not decisions else [], name)


def _look_up_module(decisions: Decisions, _: Any, /, name: Any = None, *__: Any, **___: Any) -> None:
    """Note an import of a module whose name contains a name of the model."""
    decisions.look_up(_, [] if name in decisions.modules else [decisions.names.old(str(name))], name)


def _look_up_dispatch(decisions: Decisions, function: Any, /, value: Any = None, *_: Any, **__: Any) -> None:
    """Look up the class by which `functools.singledispatch` chooses a function."""
    decisions.look_up_class(function, value, tuple(function.registry))


def _look_up_patterns(decisions: Decisions, _: Any, subject: Any, keys: Any, classes: Any) -> None:
    """Look up the keys of patterns in the subject of a `match` statement, and their classes by what they name."""
    for key in keys if is_a(subject, Mapping) else ():
        decisions.look_up(_, subject, key)
    frame = sys._getframe(3)
    named = (outcome(partial(eval, each, frame.f_globals, frame.f_locals)) for each in classes)
    decisions.look_up_class(_, subject, tuple(named))


_FUNCTIONS = (BuiltinFunctionType, FunctionType, MethodType, MethodDescriptorType, MethodWrapperType)
_OF_TABLES = {"get", "pop", "setdefault", "__getitem__", "__contains__", "index", "count", "remove", "discard"}
_OF_TEXTS = """
    startswith endswith find rfind index rindex count removeprefix removesuffix replace split rsplit partition
    rpartition __contains__ __eq__ __ne__
"""
_OF_SETS = "intersection difference symmetric_difference issubset issuperset isdisjoint __lt__ __le__ __gt__ __ge__"
_WRITERS = "__getitem__ capitalize casefold format join lower lstrip rstrip splitlines strip swapcase title upper"
_NAMED: Sequence[tuple[_Handler, Sequence[Any], str]] = (
    (Decisions.compute, [str, bytes], _OF_TEXTS),
    (Decisions.compute, [re, re.Pattern], "match search fullmatch findall finditer split sub subn"),
    (Decisions.compute, [set, frozenset, KeysView, type({}.keys())], _OF_SETS),
    (Decisions.compute, [PurePath], "match full_match is_relative_to"),
    (Decisions.compute, [fnmatch, difflib], "fnmatch fnmatchcase filter get_close_matches"),
    (Decisions.compute, [op], "contains countOf indexOf"),
    (Decisions.write, [str], _WRITERS),
    (Decisions.write, [os.path, inspect], "basename dirname getmodulename join split splitext"),
    (Decisions.look_up_class, [builtins], "isinstance issubclass"),
    (_ask_attribute, [builtins, inspect], "hasattr getfile getsourcefile"),
    (_look_up_module, [builtins, importlib, importlib.util], "__import__ import_module find_spec"),
)
"""What notes the decisions of functions and methods, by where they are; what is computed changes nothing."""
_SYNTAX: Sequence[tuple[_Handler, Mapping[str, Callable[..., Any]]]] = (
    (Decisions.compute, {"Eq": op.eq, "NotEq": op.ne, "BitAnd": op.and_, "BitXor": op.xor, "Sub": op.sub}),
    (Decisions.write, {"Add": op.add, "Mod": op.mod, "JoinedStr": lambda *parts: "".join(parts)}),
    (Decisions.write, {"FormattedValue": lambda value, kind, _: f"{value}" if kind < 0 else f"{value!s}"}),
    (Decisions.look_up_class, {"Is": op.is_, "IsNot": op.is_not}),
    (_call_method, {"Lt": op.lt, "LtE": op.le, "Gt": op.gt, "GtE": op.ge, "Subscript": op.getitem}),
    (
        # A text in another one is computed, a key in a table looked up: what holds it has the method.
        lambda decisions, _, key, held: _call_method(decisions, op.contains, held, key),
        {"In": lambda key, held: key in held, "NotIn": lambda key, held: key not in held},
    ),
    (_ask_attribute, {"Attribute": getattr}),
    (_look_up_patterns, {"Match": lambda subject, *_: subject}),
)
OPERATIONS = {"Slice": slice, **{symbol: each for _, row in _SYNTAX for symbol, each in row.items()}}
"""The operations of Python's syntax, by the classes of its tree."""
_HANDLERS: dict[Any, _Handler] = {
    getattr(home, name): handler
    for handler, homes, names in _NAMED
    for home, name in product(homes, names.split())
    if hasattr(home, name)
}
_HANDLERS |= {function: handler for handler, row in _SYNTAX for function in row.values()}
