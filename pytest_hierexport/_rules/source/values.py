"""What an expression may be, as far as it matters for names of a model."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum, auto
from itertools import islice, product
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_hierexport._rules.source.program import ClassInfo, FunctionInfo

__all__ = [
    "GAP",
    "NOTHING",
    "Dotted",
    "Instance",
    "Kind",
    "Method",
    "Partial",
    "Ref",
    "Value",
    "compose",
    "join",
    "listed",
    "mapped",
    "of_kind",
    "texts",
    "words",
]

GAP = "\0"
"""What stands in a text for a part that is not constant: `f"layer.{i}"` is `layer.` and a gap."""
_MOST_TEXTS = 64
_DEEPEST = 3


class Kind(Enum):
    """What is known of a value beside its constants."""

    NAME = auto()
    """A text with names of modules, parameters, nodes or classes: a name, a path, a tag, a scope."""
    CLASS_NAME = auto()
    HOME = auto()
    """The dotted module that a class is defined in."""
    MODEL_TYPE = auto()
    """What its configuration calls the model."""
    UNKNOWN = auto()
    """A text from outside the source; it may be a name."""
    PIECE = auto()
    """Cut out of a text of the kinds above."""
    MODULE = auto()
    CLASS = auto()
    NODE = auto()
    """A node or an initializer of a graph."""
    ENTRY = auto()
    """A metadata entry of a node, with a key and a value."""
    REGEX = auto()


_NAMES = frozenset({Kind.NAME, Kind.CLASS_NAME, Kind.HOME, Kind.MODEL_TYPE, Kind.UNKNOWN})


@dataclass(frozen=True)
class Value:
    """What an expression may be; a union where it may be several things."""

    kinds: frozenset[Kind] = frozenset()
    texts: frozenset[str] = frozenset()
    """Constant texts."""
    refs: frozenset[Ref] = frozenset()
    """Functions, classes and their instances."""
    items: Value | None = None
    """What iteration gives: items of a list, keys of a mapping."""
    values: Value | None = None
    """A mapping's values."""
    fields: tuple[Value, ...] = ()
    """The items of a list or tuple of known length."""

    @property
    def is_name(self) -> bool:
        """Whether it is, or may be, a name of the model."""
        return not _NAMES.isdisjoint(self.kinds)

    @property
    def each(self) -> Value:
        """What iteration gives."""
        if self.fields or self.items is not None:
            return join(self.items or NOTHING, *self.fields)
        return self.cut() if self.is_name else NOTHING

    @property
    def holds(self) -> bool:
        """Whether it is a collection."""
        return self.items is not None or bool(self.fields)

    @property
    def names(self) -> frozenset[Kind]:
        """The kinds of name that it is or holds."""
        own = self.kinds & (_NAMES | {Kind.PIECE}) if self.is_name else frozenset()
        return own | self.each.names if self.holds else own

    @property
    def constants(self) -> frozenset[str]:
        """The constant texts that it is or holds; none of a text that is also a name."""
        own = frozenset() if self.is_name else self.texts
        return own | self.each.constants if self.holds else own

    @property
    def all_refs(self) -> frozenset[Ref]:
        """The functions and classes that it is or holds."""
        return self.refs | self.each.all_refs if self.holds else self.refs

    def cut(self) -> Value:
        """Return a piece of the text that it is."""
        return Value(self.kinds & _NAMES | {Kind.PIECE}) if self.is_name else NOTHING

    def bounded(self, depth: int = _DEEPEST) -> Value:
        """Return it without what is nested too deeply."""
        if self.items is None and self.values is None and not self.fields:
            return self
        if depth == 0:
            return Value(self.kinds | self.names, self.texts | self.constants, self.refs)
        items, values = (None if v is None else v.bounded(depth - 1) for v in (self.items, self.values))
        return replace(self, items=items, values=values, fields=tuple(v.bounded(depth - 1) for v in self.fields))


NOTHING = Value()


@dataclass(frozen=True)
class Dotted:
    """Something imported from elsewhere, or a builtin."""

    name: str


@dataclass(frozen=True)
class Instance:
    """An object of a class of the source."""

    cls: ClassInfo


@dataclass(frozen=True)
class Method:
    """A method of a text or a collection."""

    receiver: Value
    name: str


@dataclass(frozen=True)
class Partial:
    """A callable with its first arguments."""

    target: Ref
    args: tuple[Value, ...] = field(default=())


Ref: TypeAlias = "FunctionInfo | ClassInfo | Dotted | Instance | Method | Partial"


def words(text: str) -> frozenset[str]:
    """Return the words of a list that is easier to read as one text."""
    return frozenset(text.split())


def of_kind(*kinds: Kind) -> Value:
    """Return a value of which the kinds are known."""
    return Value(frozenset(kinds))


def texts(*constants: str) -> Value:
    """Return constant texts."""
    return Value(texts=frozenset(constants))


def listed(item: Value) -> Value:
    """Return a list, set or iterator."""
    return Value(items=item)


def mapped(key: Value, value: Value) -> Value:
    """Return a mapping."""
    return Value(items=key, values=value)


def join(*values: Value) -> Value:
    """Return the union of values."""
    result = NOTHING
    for value in values:
        if result is NOTHING:
            result = value
        elif value is not NOTHING and value is not result:
            result = _join(result, value)
    return result


def _join(a: Value, b: Value) -> Value:
    if len(a.fields) == len(b.fields):
        fields = tuple(map(join, a.fields, b.fields))
        items = _optional(a.items, b.items)
    else:
        fields, items = (), join(*(v for v in (a.items, b.items, *a.fields, *b.fields) if v is not None))
        if not (a.holds and b.holds):
            fields, items = a.fields or b.fields, _optional(a.items, b.items)
    return Value(
        a.kinds | b.kinds,
        _limited(a.texts | b.texts),
        a.refs | b.refs,
        items,
        _optional(a.values, b.values),
        fields,
    )


def _optional(a: Value | None, b: Value | None) -> Value | None:
    return b if a is None else a if b is None else join(a, b)


def _limited(constants: frozenset[str]) -> frozenset[str]:
    return constants if len(constants) <= _MOST_TEXTS else frozenset(sorted(constants)[:_MOST_TEXTS])


def compose(parts: Iterable[Value]) -> Value:
    """Return the text that is made of parts in a row, with gaps for those that are not constant."""
    parts = list(parts)
    kinds = frozenset[Kind]().union(*(part.kinds & _NAMES for part in parts)) - {Kind.UNKNOWN}
    choices = [sorted(part.constants) or [GAP] for part in parts]
    made = ("".join(chosen) for chosen in islice(product(*choices), _MOST_TEXTS))
    return Value(kinds, frozenset(text for text in made if len(text) <= 200 and text.strip(GAP)))
