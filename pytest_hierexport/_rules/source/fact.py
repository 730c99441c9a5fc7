"""What an expression may be: a set of facts, each an atom and the steps that lead to it.

    "BertLayer"                {((), "BertLayer")}
    ["BertLayer"]              {((0,), "BertLayer")}
    {"BertLayer": "block"}     {((ITEM,), "BertLayer"), (("BertLayer",), "block")}
    model.named_modules()      {((ITEM, 0), Kind.NAME), ((ITEM, 1), Kind.MODULE)}

Atoms are constant texts, kinds of what is not constant, and the scopes, functions and classes of the source. Sets of
facts only grow, and are joined with `|`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from enum import Enum, auto
from itertools import islice, product
from typing import Any, TypeAlias

ITEM, VALUE, PATTERN = "[item]", "[value]", "[pattern]"
"""Steps to what iteration gives, to a mapping's value of unknown key, and to the text of a compiled pattern."""
GAP = "\0"
"""What stands in a text for a part that is not constant: `f"layer.{i}"` is `layer.` and a gap."""
COMPUTED = "\1"
"""The end of a text that the source computes, once for each step of it."""
_MOST_STEPS, _MOST_COMPUTED, _MOST_TEXTS = 4, 2, 16  # so that there are finitely many facts, whatever the source does


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

    __hash__ = object.__hash__


Facts: TypeAlias = "frozenset[tuple[tuple[Hashable, ...], Any]]"
NOTHING: Facts = frozenset()
SURE = frozenset({Kind.NAME, Kind.CLASS_NAME, Kind.HOME, Kind.MODEL_TYPE})
_NAMES = SURE | {Kind.UNKNOWN}


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
    return any(not path and atom in _NAMES for path, atom in facts if isinstance(atom, Kind))


def piece(facts: Facts) -> Facts:
    """Return a piece of the name that a value may be."""
    found = kinds(facts) & _NAMES
    return of(*found, Kind.PIECE) if found else NOTHING


def names(facts: Facts) -> frozenset[Kind]:
    """Return the kinds of name that a value is, or holds as a collection."""
    return frozenset(
        atom
        for path, atom in facts
        if isinstance(atom, Kind) and (atom in _NAMES or atom is Kind.PIECE) and all(map(_is_item, path))
    )


def constants(facts: Facts) -> frozenset[str]:
    """Return the constant texts that a value is, or holds; beside a name only those with a gap, which are parts."""
    beside = {len(path) for path, atom in facts if isinstance(atom, Kind) and atom in _NAMES}
    texts = ((path, atom) for path, atom in facts if isinstance(atom, str) and all(map(_is_item, path)))
    return frozenset(text for path, text in texts if GAP in text or len(path) not in beside)


def literals(facts: Facts) -> list[str]:
    """Return the constant texts that a value may be and that may be computed with."""
    texts = constants(frozenset(fact for fact in facts if not fact[0]))
    return sorted(text for text in texts if not text.endswith(COMPUTED * _MOST_COMPUTED))


def compose(parts: Iterable[Facts]) -> Facts:
    """Return the text that is made of parts in a row, with gaps for those that are no literals."""
    parts = list(parts)
    rows = islice(product(*(literals(part) or [GAP] for part in parts)), _MOST_TEXTS)
    made = {"".join(row).replace(COMPUTED, "") + COMPUTED * (1 + max(map(_computed, row), default=0)) for row in rows}
    found = frozenset(kind for part in parts for kind in kinds(part) & _NAMES) - {Kind.UNKNOWN}
    return of(*found, *(text for text in made if text.strip(GAP + COMPUTED)))


def _computed(text: str) -> int:
    return text.count(COMPUTED)


def _is_item(step: Hashable) -> bool:
    return isinstance(step, int) or step == ITEM
