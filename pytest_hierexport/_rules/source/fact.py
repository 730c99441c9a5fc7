"""What an expression may be: a set of facts, each an atom and the steps that lead to it.

    "BertLayer"                {((), "BertLayer")}
    ["BertLayer"]              {((0,), "BertLayer")}
    {"BertLayer": "block"}     {((ITEM,), "BertLayer"), (("BertLayer",), "block")}
    model.named_modules()      {((ITEM, 0), Kind.NAME)}

Atoms are constant texts, kinds of name, and the functions, classes and modules of the source. Sets only grow.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from enum import Enum, auto
from itertools import islice, product
from typing import Any, TypeAlias

ITEM, VALUE = "[item]", "[value]"
"""Steps to what iteration gives, and to a mapping's value of unknown key."""
GAP = "\0"
"""What stands in a text for a part that is not constant: `f"layer.{i}"` is `layer.` and a gap."""
_MOST_STEPS, _MOST_TEXTS, _LONGEST = 4, 16, 200  # so that there are finitely many facts, whatever the source does


class Kind(Enum):
    """What is known of a value that is not constant."""

    NAME = auto()  # a text with names of modules, parameters, nodes or classes: a path, a tag, a scope
    CLASS_NAME = auto()
    HOME = auto()  # the dotted module that a class is defined in
    MODEL_TYPE = auto()  # what its configuration calls the model
    PIECE = auto()  # cut out of a text of the kinds above
    CLASS = auto()
    NODE = auto()  # a node or an initializer of a graph

    __hash__ = object.__hash__


Facts: TypeAlias = "frozenset[tuple[tuple[Hashable, ...], Any]]"
NOTHING: Facts = frozenset()
NAMES = frozenset({Kind.NAME, Kind.CLASS_NAME, Kind.HOME, Kind.MODEL_TYPE})


def of(*known: Hashable) -> Facts:
    """Return the facts of a value that is one of some atoms."""
    return frozenset(((), atom) for atom in known)


def join(facts: Iterable[Facts]) -> Facts:
    """Return all facts of several sets."""
    return NOTHING.union(*facts)


def below(step: Hashable, facts: Facts) -> Facts:
    """Return the facts of what holds a value at a step."""
    return frozenset(((step, *path), atom) for path, atom in facts if len(path) < _MOST_STEPS)


def listed(*fields: Facts) -> Facts:
    """Return a list of what is given, or of tuples of several fields."""
    return below(ITEM, fields[0] if len(fields) == 1 else join(below(*field) for field in enumerate(fields)))


def mapped(keys: Facts, held: Facts) -> Facts:
    """Return a mapping."""
    return below(ITEM, keys) | below(VALUE, held)


def at(facts: Facts, *steps: Hashable) -> Facts:
    """Return what a value holds at any of some steps."""
    return frozenset((path[1:], atom) for path, atom in facts if path and path[0] in steps)


def items(facts: Facts) -> Facts:
    """Return what iteration gives."""
    return piece(facts) | frozenset((path[1:], atom) for path, atom in facts if path and _is_item(path[0]))


def values(facts: Facts) -> Facts:
    """Return a mapping's values."""
    return frozenset((path[1:], atom) for path, atom in facts if path and not _is_item(path[0]))


def atoms(facts: Facts) -> Iterator[Any]:
    """Yield what a value may be itself, without what it holds."""
    return (atom for path, atom in facts if not path)


def kinds(facts: Facts) -> frozenset[Kind]:
    """Return the kinds that a value may be of."""
    return frozenset(atom for atom in atoms(facts) if isinstance(atom, Kind))


def is_name(facts: Facts) -> bool:
    """Return whether a value is, or may be, a name of the model."""
    return not NAMES.isdisjoint(kinds(facts))


def piece(facts: Facts) -> Facts:
    """Return a piece of the name that a value may be."""
    return of(*(kinds(facts) & NAMES), Kind.PIECE) if is_name(facts) else NOTHING


def names(facts: Facts) -> frozenset[Kind]:
    """Return the kinds of name that a value is, or holds as a collection."""
    wanted = NAMES | {Kind.PIECE}
    return frozenset(a for path, a in facts if isinstance(a, Kind) and a in wanted and all(map(_is_item, path)))


def literals(facts: Facts) -> list[str]:
    """Return the constant texts that a value may be."""
    return sorted(atom for atom in atoms(facts) if isinstance(atom, str))


def constants(facts: Facts) -> frozenset[str]:
    """Return the constant texts that a value is, or holds; beside a name only those with a gap, which are parts."""
    beside = {len(path) for path, atom in facts if isinstance(atom, Kind) and atom in NAMES}
    texts = ((path, atom) for path, atom in facts if isinstance(atom, str) and all(map(_is_item, path)))
    return frozenset(text for path, text in texts if GAP in text or len(path) not in beside)


def compose(parts: Iterable[Facts]) -> Facts:
    """Return the text that is made of parts in a row, with gaps for those that are no constants."""
    parts = list(parts)
    rows = map("".join, islice(product(*(literals(part) or [GAP] for part in parts)), _MOST_TEXTS))
    kept = frozenset(kind for part in parts for kind in kinds(part) & NAMES)
    return of(*kept, *(text for text in rows if text.strip(GAP) and len(text) < _LONGEST))


def _is_item(step: Hashable) -> bool:
    return isinstance(step, int) or step == ITEM
