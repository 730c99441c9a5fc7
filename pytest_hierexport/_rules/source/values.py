"""What the analysis knows of a value: whether it is a name of the model, which constant texts it may be.

A value stands for everything that an expression may yield in any run. Values only ever grow as the analysis goes
on, and they are bounded in depth and number, so that it ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property
from typing import Any

from pytest_hierexport._rules.source.references import Reference

__all__ = [
    "NAME",
    "NOTHING",
    "PIECE",
    "UNSEEN",
    "Certainty",
    "Value",
    "collection",
    "constant",
    "join",
    "mapping",
    "pair",
    "refers",
    "text",
]

_DEEPEST = 4
_MOST_STRINGS = 1000
_MOST_REFERENCES = 64


class Certainty(IntEnum):
    """How sure it is that a value is a name of the model, or computed from one."""

    NO = 0
    TEXT = 1
    """Text from outside the analysed code, which may be one."""
    YES = 2
    PIECE = 3
    """Cut out of one, perhaps, so that it may be one of its words."""


@dataclass(frozen=True)
class Value:
    """What an expression may yield."""

    name: Certainty = Certainty.NO
    module: bool = False
    """An `nn.Module` of the model."""
    type: bool = False
    """The class of something."""
    unseen: bool = False
    """It comes from where the analysis does not look."""
    apart: bool = False
    """It is no part of the model's modules and nodes (an ONNX attribute): its name is no name of the model."""
    strings: frozenset[str] = frozenset()
    """The constant texts that it may be."""
    references: frozenset[Reference] = frozenset()
    element: Value | None = None
    """What iterating over it yields: items, or a mapping's keys."""
    mapped: Value | None = None
    """A mapping's values."""
    fields: tuple[Value, ...] = ()
    """The items of a tuple or list, where their number is known."""

    @cached_property
    def depth(self) -> int:
        """How many containers stand inside one another."""
        return 1 + max((inner.depth for inner in self._inner()), default=0)

    @cached_property
    def _hash(self) -> int:
        return hash((self.name, self.strings, self.references, self.element, self.mapped, self.fields))

    def __hash__(self) -> int:
        """Hash once: values are nested and compared often."""
        return self._hash

    def _items(self) -> Iterator[Value]:
        yield from _present(self.element)
        yield from self.fields

    def _inner(self) -> Iterator[Value]:
        yield from self._items()
        yield from _present(self.mapped)

    @property
    def is_name(self) -> bool:
        """Whether it is surely a name, or computed from one."""
        return self.name >= Certainty.YES

    @property
    def sure(self) -> Value:
        """The value, or one of which nothing is known where it is a name in doubt."""
        return UNSEEN if self.named is Certainty.TEXT else self

    @property
    def holds(self) -> bool:
        """Whether it is known to hold something."""
        return self.element is not None or bool(self.fields)

    @property
    def items(self) -> Value:
        """What iterating over it yields."""
        if self.is_name:
            return text(self.name)
        if self.fields:
            return join(*self.fields)
        if self.element is not None:
            return self.element
        if self.name:
            return Value(name=self.name)
        return Value(unseen=True, apart=self.apart)

    @cached_property
    def texts(self) -> frozenset[str]:
        """Every constant text that it is or holds, mapped values left out."""
        return self.held | self.strings

    @cached_property
    def held(self) -> frozenset[str]:
        """Every constant text that it holds as a collection."""
        return frozenset().union(*(inner.texts for inner in self._items()))

    @cached_property
    def named(self) -> Certainty:
        """How sure it is that it is a name, or holds names."""
        return max((self.name, *(inner.named for inner in self._items())))

    @cached_property
    def referred(self) -> frozenset[Reference]:
        """Every reference that it is or holds as an item."""
        return self.references.union(*(inner.referred for inner in self._items()))

    def flat(self) -> Value:
        """Return the value without what it holds and refers to."""
        return text(self.named, self.texts, unseen=self.unseen)

    def shallow(self) -> Value:
        """Return the value with what it holds made flat, and without what it refers to."""
        if self.is_name:
            return text(self.name)
        element = self.items.flat() if self.holds else None
        mapped = self.mapped.flat() if self.mapped is not None else None
        return Value(name=self.name, strings=self.strings, unseen=self.unseen, element=element, mapped=mapped)

    def bounded(self) -> Value:
        """Return the value with its innermost containers made flat where it is too deep."""
        return self if self.depth <= _DEEPEST else _cut(self, _DEEPEST)


NOTHING = Value()
NAME = Value(name=Certainty.YES)
PIECE = Value(name=Certainty.PIECE)
UNSEEN = Value(unseen=True)


def _cut(value: Value, levels: int) -> Value:
    if value.depth <= levels:
        return value
    if levels > 1:
        element, mapped = (None if v is None else _cut(v, levels - 1) for v in (value.element, value.mapped))
        return replace(value, element=element, mapped=mapped, fields=tuple(_cut(v, levels - 1) for v in value.fields))
    if value.named >= Certainty.YES:
        return text(value.named)
    return replace(
        value, name=value.named, strings=value.texts, references=value.referred, element=None, mapped=None, fields=()
    )


def constant(text: str) -> Value:
    """Return the value of a text in the source."""
    return Value(strings=frozenset({text}))


def text(level: Certainty, strings: frozenset[str] = frozenset(), *, unseen: bool = False) -> Value:
    """Return a text that is a name with such certainty."""
    if level >= Certainty.YES:
        return NAME if level is Certainty.YES else PIECE
    return Value(name=level, strings=strings, unseen=unseen)


def refers(reference: Reference) -> Value:
    """Return the value that is one function, class or module."""
    return Value(references=frozenset({reference}))


def collection(items: Value) -> Value:
    """Return a list, set or iterator of such items."""
    return Value(element=items).bounded()


def mapping(keys: Value, values: Value) -> Value:
    """Return a dict."""
    return Value(element=keys, mapped=values).bounded()


def pair(*fields: Value) -> Value:
    """Return a tuple."""
    return Value(fields=fields).bounded()


def join(*values: Value) -> Value:
    """Return the value that may be any of these."""
    result = NOTHING
    for value in values:
        if value is not NOTHING and value is not result:
            result = value if result is NOTHING else _join(result, value)
    return result


def _join(a: Value, b: Value) -> Value:
    if a == b:
        return a
    if a.is_name or b.is_name:
        # A name is data, whatever constants and objects it was mixed with on the way.
        return text(max(a.name, b.name))
    if len(a.fields) != len(b.fields) and a.holds and b.holds:
        a, b = (replace(v, fields=(), element=join(*v._items())) for v in (a, b))
    return Value(
        name=max(a.name, b.name),
        module=a.module or b.module,
        type=a.type or b.type,
        unseen=a.unseen or b.unseen,
        apart=a.apart or b.apart,
        strings=_limited(a.strings, b.strings, _MOST_STRINGS),
        references=_limited(a.references, b.references, _MOST_REFERENCES),
        element=_join_present(a.element, b.element),
        mapped=_join_present(a.mapped, b.mapped),
        fields=tuple(map(join, a.fields, b.fields)) if a.fields and b.fields else a.fields or b.fields,
    ).bounded()


def _present(value: Value | None) -> Iterable[Value]:
    return () if value is None else (value,)


def _join_present(a: Value | None, b: Value | None) -> Value | None:
    present = (*_present(a), *_present(b))
    return join(*present) if present else None


def _limited(a: frozenset[Any], b: frozenset[Any], most: int) -> frozenset[Any]:
    return a if b <= a or len(a) >= most else a | b
