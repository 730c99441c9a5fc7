"""What instrumented code calls: computes as Python does and, while it watches, notes decisions.

    watch.compare(8, "In", name, TABLE)           name in TABLE
    watch.item(9, TABLE, name)                    TABLE[name]
    watch.cut(path, None, 3, None)                path[:3]
    watch.called(7, path.startswith)("enc")       path.startswith("enc")
    watch.attribute(config, "model_type")         config.model_type
    case watch.value(6, "enc").held:              case "enc":

The numbers are those of the sites in the source (:data:`instrument.SITES`).
"""

from __future__ import annotations

import builtins
import operator
import re
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from enum import EnumMeta
from functools import partial, reduce
from importlib import import_module
from importlib.util import find_spec
from inspect import getattr_static, getfile, getsourcefile
from pathlib import Path, PurePath
from typing import Any, TypeAlias

from pytest_hierexport._rules.decisions.deciding import WRITING, Decisions, is_table
from pytest_hierexport._rules.decisions.names import Marked, is_a, marked

WATCH = "__hierexport_watch__"
"""The name of the watching object among Python's built-in ones."""
OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "Eq": operator.eq,
    "NotEq": operator.ne,
    "In": lambda one, other: one in other,
    "NotIn": lambda one, other: one not in other,
    "Is": operator.is_,
    "IsNot": operator.is_not,
    "Lt": operator.lt,
    "LtE": operator.le,
    "Gt": operator.gt,
    "GtE": operator.ge,
    "BitAnd": operator.and_,
    "BitXor": operator.xor,
    "Sub": operator.sub,
    "Mod": operator.mod,
}
"""Operators by the classes of Python's syntax tree."""
_ORDERS = frozenset({"Lt", "LtE", "Gt", "GtE"})
_METHODS = (types.MethodType, types.MethodDescriptorType, types.MethodWrapperType)
_FUNCTIONS = (types.BuiltinFunctionType, types.FunctionType, *_METHODS)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_WRITERS = _words("format join")
_OF_TEXTS = _WRITERS | _words("""
    startswith endswith find rfind index rindex count removeprefix removesuffix replace split rsplit partition
    rpartition __contains__ __eq__ __ne__
""")
_OF_PATTERNS = _words("match search fullmatch findall finditer split sub subn")
_OF_PATHS = _words("match full_match is_relative_to")
_OF_SETS = _words("intersection difference symmetric_difference issubset issuperset isdisjoint")
_OF_TABLES = _words("get pop setdefault __getitem__ __contains__ index count remove discard")
_PURE: Mapping[Any, frozenset[str]] = {
    str: _OF_TEXTS,
    Marked: _OF_TEXTS,
    re.Pattern: _OF_PATTERNS,
    set: _OF_SETS,
    frozenset: _OF_SETS,
    type(PurePath()): _OF_PATHS,
    type(Path()): _OF_PATHS,
    "re": _OF_PATTERNS,
    "difflib": _words("get_close_matches"),
    "fnmatch": _words("fnmatch fnmatchcase filter"),
    "_operator": _words("eq ne contains countOf indexOf"),
}
"""Methods that change nothing by their types, functions by their modules."""
_OF_CONFIGURATIONS = _words("model_type name_or_path _name_or_path architectures")
STAYING = _OF_CONFIGURATIONS | _words("name __module__")
"""The attributes that give names which stay as they are while the model has others."""
_ALTERNATIVE = "renamed"
_CONVERSIONS: Mapping[int, Callable[[Any], Any]] = {115: str, 114: repr, 97: ascii}
_Handler: TypeAlias = "Callable[..., Any]"
"""Takes decisions, a site and the arguments of a call; gives the alternative of its result, or None."""


class Watching:
    """The object that instrumented code calls."""

    decisions: Decisions | None = None
    """Notes decisions; None while nothing is watched."""

    def compare(self, site: int, symbol: str, left: Any, right: Any) -> Any:
        """Return what an operator gives."""
        operation, decisions = OPERATORS[symbol], self.decisions
        if decisions is None or (type(left) is str and symbol in _ORDERS):
            return operation(left, right)
        if symbol in {"In", "NotIn"} and not issubclass(type(right), str):
            if is_table(right):
                decisions.look_up(site, left, right)
        elif symbol not in {"Is", "IsNot"} or isinstance(left, type):
            # A text that is formatted decides nothing.
            alternative = decisions.compute(WRITING if symbol == "Mod" else site, operation, (left, right), {})
            return marked(operation(left, right), alternative)
        return operation(left, right)

    def item(self, site: int, container: Any, key: Any) -> Any:
        """Return what a container holds for a key."""
        if self.decisions is not None and is_a(container, Mapping, EnumMeta):
            self.decisions.look_up(site, key, container)
        return container[key]

    def cut(self, container: Any, *bounds: Any) -> Any:
        """Return a slice; one of a name is marked by the one of the old name, which has its words elsewhere."""
        taken = container[slice(*bounds)]
        old = container if self.decisions is None or type(container) is not str else self.decisions.names.old(container)
        return taken if old is container else marked(taken, old[slice(*bounds)])

    def attribute(self, owner: Any, name: str, *default: Any) -> Any:
        """Return an attribute; a name of the model that stays as it is, marked."""
        value = getattr(owner, name, *default)
        if self.decisions is None or not (type(value) is str or type(value) is list):
            return value
        alternative: Any = value
        if name == "__module__" and str(value) in self.decisions.modules:
            alternative = str(value).partition(".")[0] + f".{_ALTERNATIVE}"
        elif name == "name" and type(value) is str and hasattr(owner, "op_type"):
            # A name without a number is its operator's.
            alternative = re.sub(r"\d+", lambda number: f"{number[0]}0{number[0]}", value)
        elif name in _OF_CONFIGURATIONS and str(getattr(owner, "model_type", None)) in self.decisions.types:
            alternative = [_ALTERNATIVE] * len(value) if type(value) is list else _ALTERNATIVE
        return marked(value, alternative)

    def formatted(self, value: Any, conversion: int, spec: str) -> str:
        """Return a part of an f-string: a value after its conversion, in its format."""
        if isinstance(value, Marked) and conversion != ord("r") and not spec:
            return value
        return format(_CONVERSIONS.get(conversion, lambda same: same)(value), spec)

    def joined(self, *parts: str) -> str:
        """Return the text of an f-string, of its parts."""
        joined: str = "".join(parts)
        if self.decisions is not None and any(isinstance(part, Marked) for part in parts):
            joined = marked(joined, "".join(getattr(part, "alternative", part) for part in parts))
        return joined

    def matched(self, site: int, subject: Any, keys: Sequence[Any], classes: Sequence[str]) -> Any:
        """Return the subject of a `match` statement, whose patterns have some keys, and classes by what they name."""
        if self.decisions is not None:
            for key in keys if is_a(subject, Mapping) else ():
                self.decisions.look_up(site, key, subject)
            frame = sys._getframe(1)
            self.decisions.look_up_class(site, subject, tuple(_named(path, frame) for path in classes))
        return subject

    def value(self, site: int, value: Any) -> types.SimpleNamespace:
        """Return the holder of a value of a pattern: of a text, one that notes what it is compared with."""
        if self.decisions is not None and is_a(value, str) and operator.is_(type(value).__eq__, str.__eq__):
            text = str.__str__(value)
            value = _PatternText(text, text)
            value.site = site
        return types.SimpleNamespace(held=value)

    def called(self, site: int, function: Any) -> Any:
        """Return a function; one that may decide by a name, so that it notes that."""
        if self.decisions is None:
            return function
        if type(function) is partial:
            return partial(self.called(site, function.func), *function.args, **function.keywords)
        if type(function) is operator.methodcaller:
            return partial(self._called_of, site, function)
        handler = _handler(function)
        return function if handler is None else partial(self._run, handler, site, function)

    def passed(self, site: int, function: Any) -> Any:
        """Return a function that is passed to another one, which may compare classes by identity."""
        return function if isinstance(function, type) else self.called(site, function)

    def _called_of(self, site: int, caller: Any, /, owner: Any) -> Any:
        """Return what an `operator.methodcaller` gives, which shows its method and arguments as it is copied."""
        made, given = caller.__reduce__()
        name, *args = getattr(made, "args", ()) + given
        return self.called(site, getattr(owner, name))(*args, **getattr(made, "keywords", {}))

    def _run(self, handler: _Handler, site: int, function: Any, /, *args: Any, **options: Any) -> Any:
        """Return what a function gives, after it is noted what it decides."""
        if self.decisions is None:
            return function(*args, **options)
        alternative = handler(self.decisions, site, *args, **options)
        if function is getattr and len(args) > 1 and args[1] in STAYING:
            return self.attribute(*args)
        return function(*args, **options) if alternative is None else marked(function(*args, **options), alternative)


class _PatternText(Marked):
    """A text of a pattern. Python asks it first whether it is equal, since it is of the more special class."""

    __slots__ = ("site",)
    __hash__ = str.__hash__
    site: int

    def __eq__(self, other: object) -> bool:
        return bool(watching.compare(self.site, "Eq", other, str.__str__(self)))


watching = Watching()
setattr(builtins, WATCH, watching)


def _named(path: str, frame: types.FrameType) -> Any:
    """Return what a dotted name is in a frame; None if that is not to be told."""
    first, *rest = path.split(".")
    value = {**frame.f_globals, **frame.f_locals}.get(first)
    return reduce(lambda owner, name: getattr_static(owner, name, None), rest, value)


def _handler(function: Any) -> _Handler | None:
    """Return what notes the decisions of a function; None for one that makes none."""
    if issubclass(type(function), EnumMeta):
        return partial(_look_up, [member._value_ for member in function])
    if not issubclass(type(function), _FUNCTIONS):
        return None
    if function in _SPECIAL:
        return _SPECIAL[function]
    if is_table(getattr(function, "__self__", None)) and getattr(function, "__name__", "") in _OF_TABLES:
        return partial(_look_up, function.__self__)
    if hasattr(function, "dispatch") and hasattr(function, "registry"):
        return partial(_look_up_dispatch, function)
    pure = _pure(function)
    return pure and partial(_compute, function.__name__, *pure)


def _compute(
    name: str, operation: Any, operands: Any, decisions: Decisions, site: int, /, *args: Any, **options: Any
) -> Any:
    """Compute an operation on texts or sets; one that only writes a text decides nothing."""
    if name == "finditer":  # whose result can be read once
        operation = re.Pattern.findall if operands else re.findall
    return decisions.compute(WRITING if name in _WRITERS else site, operation, (*operands, *args), options)


def _look_up(table: Any, decisions: Decisions, site: int, /, key: Any = None, *_: Any, **__: Any) -> None:
    """Look up what a table is asked for."""
    decisions.look_up(site, key, table)


def _look_up_attribute(decisions: Decisions, site: int, owner: Any = None, name: Any = None, /, *_: Any) -> None:
    """Look up an attribute by its name; the modules of the model note their old names themselves."""
    old = decisions.names.old(name)
    if old is not name and not hasattr(type(owner), "named_modules"):
        has = getattr_static(owner, old, decisions) is not decisions
        decisions.look_up(site, name, [old] if has else [])


def _look_up_module(decisions: Decisions, site: int, /, name: Any = None, *_: Any, **__: Any) -> None:
    """Look up a module that is imported by a name which a name of the model is a part of."""
    decisions.look_up(site, name, [] if name in decisions.modules else [decisions.names.old(name)])


def _other_file(decisions: Decisions, _: int, owner: Any = None, /) -> str | None:
    """Return the alternative of the file of a class: another one in its top-level package."""
    home = str(getattr(owner, "__module__", ""))
    file = getattr(sys.modules.get(home), "__file__", None)
    if file is None or home not in decisions.modules or "." not in home:
        return None
    return str(Path(file).parents[home.count(".") - 1] / f"{_ALTERNATIVE}.py")


def _look_up_dispatch(function: Any, decisions: Decisions, site: int, /, value: Any = None, *_: Any, **__: Any) -> None:
    """Look up the class by which `functools.singledispatch` chooses a function."""
    chosen = function.dispatch(type(value))
    decisions.look_up_class(site, value, tuple(cls for cls, each in function.registry.items() if each is chosen))


_SPECIAL: Mapping[Any, _Handler] = {
    getattr: _look_up_attribute,
    hasattr: _look_up_attribute,
    isinstance: Decisions.look_up_class,
    issubclass: Decisions.look_up_class,
    __import__: _look_up_module,
    import_module: _look_up_module,
    find_spec: _look_up_module,
    getfile: _other_file,
    getsourcefile: _other_file,
}


def _pure(function: Any) -> tuple[Callable[..., Any], tuple[Any, ...]] | None:
    """Return an operation on texts or sets as a function, with the operand that it is a method of."""
    name, owner = getattr(function, "__name__", ""), getattr(function, "__self__", None)
    if any(kind is type(owner) and name in methods for kind, methods in _PURE.items()):
        return getattr(type(owner), name), (owner,)
    home = getattr(function, "__objclass__", None) or str(getattr(function, "__module__", ""))
    return (function, ()) if name in _PURE.get(home, ()) else None
