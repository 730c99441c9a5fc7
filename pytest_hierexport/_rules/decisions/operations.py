"""What instrumented code calls: computes as Python does and, while it watches, notes decisions.

    watch.compare(8, "In", name, TABLE)           name in TABLE
    watch.item(9, TABLE, name)                    TABLE[name]
    watch.called(7, path.startswith)("enc")       path.startswith("enc")
    watch.attribute(config, "model_type")         config.model_type

The numbers are those of the places in the source (:data:`instrument.SITES`).
"""

from __future__ import annotations

import builtins
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from enum import EnumMeta
from functools import partial
from importlib import import_module
from typing import Any

from pytest_hierexport._rules.decisions.deciding import FUNCTIONS, WRITING, Decisions, is_table
from pytest_hierexport._rules.decisions.names import Marked, marked

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
    "Sub": operator.sub,
    "Mod": operator.mod,
}
"""Operators by the classes of Python's syntax tree."""
_ORDERS = frozenset({"Lt", "LtE", "Gt", "GtE"})


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_WRITERS = _words("format join")
_OF_TEXTS = _WRITERS | _words("""
    startswith endswith find rfind index rindex count removeprefix removesuffix replace split rsplit partition
    rpartition __contains__ __eq__ __ne__
""")
_OF_PATTERNS = _words("match search fullmatch findall split sub subn")
_OF_SETS = _words("intersection difference symmetric_difference issubset issuperset isdisjoint")
_OF_TABLES = _words("get pop setdefault __getitem__ __contains__ index count remove discard")
_OF_MODULES = {
    "re": _OF_PATTERNS,
    "fnmatch": _words("fnmatch fnmatchcase filter"),
    "_operator": _words("eq ne contains countOf indexOf"),
}
METHODS = _OF_TEXTS.union(_OF_PATTERNS, _OF_SETS, _OF_TABLES, *_OF_MODULES.values())
"""The methods, and functions of modules, that may decide by a name."""
_OF_CONFIGURATIONS = _words("model_type name_or_path _name_or_path architectures")
STAYING = _OF_CONFIGURATIONS | _words("name __module__")
"""The attributes that give names which stay as they are while the model has others."""
_ELSE = "renamed"
"""What stands for a name of which there is no other."""
_CONVERSIONS: Mapping[int, Callable[[Any], Any]] = {115: str, 114: repr, 97: ascii}


class Watching:
    """The object that instrumented code calls."""

    def __init__(self) -> None:
        """Watch nothing yet."""
        self._decisions: Decisions | None = None
        self._types: frozenset[str] = frozenset()
        self._special: Mapping[Any, Callable[..., Any]] = {
            getattr: self._looked_up,
            hasattr: self._looked_up,
            isinstance: self._tested,
            issubclass: self._tested,
            __import__: self._imported,
            import_module: self._imported,
        }

    def watch(self, decisions: Decisions | None, types: Iterable[str] = ()) -> None:
        """Note decisions from now on; none for None.

        Args:
            decisions: What notes them.
            types: What the configurations of the model call it.
        """
        self._decisions, self._types = decisions, frozenset(types)

    def compare(self, site: int, symbol: str, left: Any, right: Any) -> Any:
        """Return what an operator gives."""
        operation, decisions = OPERATORS[symbol], self._decisions
        if decisions is None:
            return operation(left, right)
        if isinstance(left, str) and symbol in _ORDERS:
            return operation(left, right)
        if symbol in {"In", "NotIn"} and not isinstance(right, str):
            if is_table(right):
                decisions.ask(site, left, right)
            return operation(left, right)
        # A text that is formatted decides nothing.
        return decisions.compute(WRITING if symbol == "Mod" else site, operation, left, right)

    def item(self, site: int, container: Any, key: Any) -> Any:
        """Return what a container holds for a key."""
        if self._decisions is not None and isinstance(container, (Mapping, EnumMeta)):
            self._decisions.ask(site, key, container)
        return container[key]

    def attribute(self, owner: Any, name: str, *default: Any) -> Any:
        """Return an attribute; a name of the model that stays as it is, marked."""
        value = getattr(owner, name, *default)
        if self._decisions is None or type(value) not in {str, list}:
            return value
        other: Any = value
        if name == "__module__" and str(value) in self._decisions.homes:
            other = value.partition(".")[0] + f".{_ELSE}"
        elif name == "name" and hasattr(owner, "op_type"):
            # A name without a number is its operator's.
            other = re.sub(r"\d+", lambda number: f"{number[0]}0{number[0]}", value)
        elif name in _OF_CONFIGURATIONS and str(getattr(owner, "model_type", None)) in self._types:
            other = [_ELSE] * len(value) if isinstance(value, list) else _ELSE
        return marked(value, other)

    def joined(self, *parts: Any) -> str:
        """Return the text of an f-string: of its constant parts, and of values with conversion and format."""
        written = [part if isinstance(part, str) else _formatted(*part) for part in parts]
        return "".join(written) if self._decisions is None else self._decisions.compute(WRITING, str.join, "", written)

    def matched(self, site: int, subject: Any, *patterns: Any) -> Any:
        """Return the subject of a `match` statement, which has some constants and classes in its patterns."""
        if self._decisions is not None:
            wanted = [pattern for pattern in patterns if isinstance(pattern, str)]
            for part in subject if isinstance(subject, (list, tuple)) else (subject,):
                self._decisions.ask(site, part, wanted)
            for key in wanted if isinstance(subject, Mapping) else ():
                self._decisions.ask(site, key, subject)
            self._decisions.ask_class(site, subject, patterns)
        return subject

    def called(self, site: int, function: Any) -> Any:
        """Return a function; one that may decide by a name, with what notes it."""
        if self._decisions is None:
            return function
        if isinstance(function, partial):
            return partial(self.called(site, function.func), *function.args, **function.keywords)
        handler = self._handler(function)
        return function if handler is None else partial(handler, site, function)

    def _handler(self, function: Any) -> Callable[..., Any] | None:
        """Return what serves in place of a function that may decide."""
        if isinstance(function, EnumMeta):
            return self._asked
        if not isinstance(function, FUNCTIONS):
            return None
        is_of_table = is_table(getattr(function, "__self__", None)) and getattr(function, "__name__", "") in _OF_TABLES
        dispatched = self._dispatched if hasattr(function, "dispatch") else None
        return (
            self._special.get(function)
            or (self._asked if is_of_table else None)
            or (self._computed if _pure(function) else dispatched)
        )

    def _computed(self, site: int, function: Any, *args: Any, **options: Any) -> Any:
        assert self._decisions is not None  # noqa: S101  # there are handlers while it watches alone
        operation, operands = _pure(function) or (function, ())
        is_search = function.__name__ not in _WRITERS
        return self._decisions.compute(site if is_search else WRITING, operation, *operands, *args, **options)

    def _asked(self, site: int, function: Any, *args: Any, **options: Any) -> Any:
        """Return what a table gives for a key, or an enumeration for a value."""
        if self._decisions is not None and args:
            is_enumeration = isinstance(function, EnumMeta)
            table = [member.value for member in function] if is_enumeration else function.__self__
            self._decisions.ask(site, args[0], table)
        return function(*args, **options)

    def _looked_up(self, site: int, function: Any, owner: Any, name: Any, *default: Any) -> Any:
        """Return an attribute by its name; the modules of the model tell of their old names themselves."""
        if self._decisions is not None and not hasattr(owner, "_modules"):
            self._decisions.ask(site, name, dir(owner))
        is_staying = function is getattr and name in STAYING
        return self.attribute(owner, name, *default) if is_staying else function(owner, name, *default)

    def _tested(self, site: int, function: Any, value: Any, classes: Any) -> Any:
        if self._decisions is not None:
            self._decisions.ask_class(site, value, classes if isinstance(classes, tuple) else (classes,))
        return function(value, classes)

    def _imported(self, site: int, function: Any, name: str, *args: Any, **options: Any) -> Any:
        """Return a module; a name of the model that is a part of the module's name decides which."""
        if self._decisions is not None and name not in self._decisions.homes:
            self._decisions.ask(site, name, [self._decisions.names.own(name)])
        return function(name, *args, **options)

    def _dispatched(self, site: int, function: Any, *args: Any, **options: Any) -> Any:
        """Return what a function gives that is chosen by the class of its first argument."""
        if self._decisions is not None and args:
            chosen = function.dispatch(type(args[0]))
            classes = (cls for cls, each in function.registry.items() if each is chosen)
            self._decisions.ask_class(site, args[0], classes)
        return function(*args, **options)


watching = Watching()
setattr(builtins, WATCH, watching)


def _pure(function: Any) -> tuple[Callable[..., Any], tuple[Any, ...]] | None:
    """Return an operation on texts or sets as a function, with the operand that it is a method of."""
    owner, name, home = (getattr(function, each, None) for each in ("__self__", "__name__", "__module__"))
    if isinstance(owner, str):
        return (getattr(str, name), (owner,)) if name in _OF_TEXTS else None
    if isinstance(owner, (re.Pattern, set, frozenset)):
        return (getattr(type(owner), name), (owner,)) if name in _OF_PATTERNS | _OF_SETS else None
    is_of_texts = getattr(function, "__objclass__", None) is str and name in _OF_TEXTS
    return (function, ()) if is_of_texts or name in _OF_MODULES.get(str(home), ()) else None


def _formatted(value: Any, conversion: int, spec: str) -> str:
    if isinstance(value, Marked) and conversion != ord("r") and not spec:
        return value
    return format(_CONVERSIONS.get(conversion, lambda same: same)(value), spec)
