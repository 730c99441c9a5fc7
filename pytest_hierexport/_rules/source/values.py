"""What an expression may be: constant texts, kinds of what is not constant, and things with fields."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import islice, product

__all__ = ["COMPUTED", "GAP", "ITEM", "NOTHING", "VALUE", "Kind", "Role", "Thing", "Value", "compose", "join", "texts"]

GAP = "\0"
"""What stands in a text for a part that is not constant: `f"layer.{i}"` is `layer.` and a gap."""
COMPUTED = "\1"
"""The end of a text that the source computes: nothing more is computed from it, so that there are finitely many."""
ITEM, VALUE = "[item]", "[value]"
"""Fields of a collection: what iteration gives, and a mapping's values. The items of a tuple are fields by position."""
Role = Enum("Role", "COLLECTION PATTERN PARTIAL EXTERNAL INSTANCE SOURCE")
"""What a thing is: of what a library or the source creates, of what is imported, and of what the source defines."""


class Kind(Enum):
    """What is known of a value that is not constant."""

    NAME = auto()  # a text with names of modules, parameters, nodes or classes: a path, a tag, a scope
    CLASS_NAME = auto()
    HOME = auto()  # the dotted module that a class is defined in
    MODEL_TYPE = auto()  # what its configuration calls the model
    UNKNOWN = auto()  # from outside the source; it may be a name
    PIECE = auto()  # cut out of a text of the kinds above
    MODULE = auto()
    LIKELY_MODULE = auto()  # something that is called a model or a layer
    CLASS = auto()
    NODE = auto()  # a node or an initializer of a graph
    ENTRY = auto()  # a metadata entry of a node, with a key and a value

    __hash__ = object.__hash__


_NAMES = frozenset({Kind.NAME, Kind.CLASS_NAME, Kind.HOME, Kind.MODEL_TYPE, Kind.UNKNOWN})


@dataclass(eq=False)
class Thing:
    """Something with fields; what a field holds only grows."""

    role: Role
    name: str = ""
    held: dict[Hashable, Value] = field(default_factory=dict)
    on_read: Callable[[Thing, Hashable], None] | None = None
    """Called with a field before it is read, or with None before all are; None if they never change."""

    @property
    def fields(self) -> dict[Hashable, Value]:
        """All fields, to be read."""
        if self.on_read is not None:
            self.on_read(self, None)
        return self.held

    def get(self, name: Hashable) -> Value | None:
        """Return what a field holds, if there is one."""
        if self.on_read is not None:
            self.on_read(self, name)
        return self.held.get(name)


@dataclass(frozen=True)
class Value:
    """What an expression may be; a union where it may be several things."""

    kinds: frozenset[Kind] = frozenset()
    texts: frozenset[str] = frozenset()
    things: frozenset[Thing] = frozenset()

    def __bool__(self) -> bool:
        """Return whether anything is known."""
        return bool(self.kinds or self.texts or self.things)

    @classmethod
    def of(cls, *atoms: Kind | Thing) -> Value:
        """Return a value of which the kind or thing is known."""
        kinds = frozenset(atom for atom in atoms if isinstance(atom, Kind))
        return cls(kinds, things=frozenset(atom for atom in atoms if isinstance(atom, Thing)))

    @property
    def is_name(self) -> bool:
        """Whether it is, or may be, a name of the model."""
        return not _NAMES.isdisjoint(self.kinds)

    @property
    def piece(self) -> Value:
        """A piece of the text that it is."""
        return Value(self.kinds & _NAMES | {Kind.PIECE}) if self.is_name else NOTHING

    @property
    def each(self) -> Value:
        """What iteration gives."""
        rows = (thing.fields for thing in self.things if thing.role is Role.COLLECTION)
        items = (value for row in rows for key, value in row.items() if key == ITEM or isinstance(key, int))
        members = (thing.get(ITEM) for thing in self.things if thing.role is Role.SOURCE)
        return join(self.piece, *items, *filter(None, members))

    @property
    def row(self) -> list[Value]:
        """The items of a tuple."""
        rows = (thing.fields for thing in self.things if thing.role in {Role.COLLECTION, Role.PARTIAL})
        return [self.field(key) for key in sorted({key for row in rows for key in row if isinstance(key, int)})]

    @property
    def names(self) -> frozenset[Kind]:
        """The kinds of name that it is, or holds as a collection."""
        return frozenset(k for v in self._levels() if v.is_name for k in v.kinds if k in _NAMES or k is Kind.PIECE)

    @property
    def constants(self) -> frozenset[str]:
        """The constant texts that it is, or holds; of a text that may be a name, those with a gap."""
        return frozenset(text for v in self._levels() for text in v.texts if GAP in text or not v.is_name)

    @property
    def literals(self) -> list[str]:
        """The constant texts that are not computed."""
        return sorted(text for text in self.constants if not text.endswith(COMPUTED))

    def __contains__(self, other: Value) -> bool:
        """Return whether it may be all that another value may be."""
        return other.kinds <= self.kinds and other.texts <= self.texts and other.things <= self.things

    def has(self, role: Role) -> bool:
        """Return whether it may be a thing of a role."""
        return any(thing.role is role for thing in self.things)

    def field(self, name: Hashable) -> Value:
        """Return what a field of the things that it is holds."""
        return join(*(thing.get(name) or NOTHING for thing in self.things))

    def _levels(self, depth: int = 3) -> Iterator[Value]:
        yield self
        if depth and self.things:
            yield from self.each._levels(depth - 1)


NOTHING = Value()


def texts(*constants: str) -> Value:
    """Return constant texts."""
    return Value(texts=frozenset(constants))


def join(*values: Value) -> Value:
    """Return the union of values."""
    known = [value for value in values if value]
    if len(known) < 2:
        return known[0] if known else NOTHING
    kinds, constants, things = zip(*((value.kinds, value.texts, value.things) for value in known), strict=True)
    return Value(frozenset().union(*kinds), frozenset().union(*constants), frozenset().union(*things))


def compose(parts: Iterable[Value]) -> Value:
    """Return the text that is made of parts in a row, with gaps for those that are no literals."""
    parts = list(parts)
    rows = ["".join(row) for row in islice(product(*(part.literals or [GAP] for part in parts)), 64)]
    kinds = frozenset(kind for part in parts for kind in part.kinds & _NAMES) - {Kind.UNKNOWN}
    return Value(kinds, frozenset(row + COMPUTED for row in rows if row.strip(GAP)))
