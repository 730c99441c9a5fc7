"""What the analysis has found so far, and the place in the source where it stands."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum, auto
from itertools import islice
from pathlib import Path

from pytest_hierexport._rules.source.program import Program
from pytest_hierexport._rules.source.references import Class, Imported, Reference, Source
from pytest_hierexport._rules.source.values import NOTHING, UNSEEN, Certainty, Value, join, refers

__all__ = [
    "Arguments",
    "Decision",
    "Frame",
    "Kind",
    "State",
    "Store",
]


_MOST_FOLDED = 32
_LONGEST_FOLDED = 200


class Store(IntEnum):
    """What kind of variable holds a value."""

    VARIABLE = auto()
    """Of a module."""
    LOCAL = auto()
    """Of a function."""
    MEMBER = auto()
    """What a class body assigns."""
    PARAMETER = auto()
    RETURN = auto()
    """What a function returns."""
    ATTRIBUTE = auto()
    """What is assigned to an attribute of that name, whatever object it is of."""


class Kind(Enum):
    """How a constant decides something about a name."""

    EQUAL = "equals"
    PREFIX = "starts"
    SUFFIX = "ends"
    PART = "is part of"
    WITHIN = "holds"
    PATTERN = "is a pattern for"
    MEMBER = "is a function or attribute that is looked up by"
    CLASS = "is a class that decides about"


@dataclass(frozen=True)
class Decision:
    """A place in the source where constants decide something about a name of the model."""

    path: Path
    line: int
    code: str
    """The expression, on one line."""
    kind: Kind
    constants: frozenset[str]
    certainty: Certainty


@dataclass(frozen=True)
class Arguments:
    """What a function is called with."""

    positional: tuple[Value, ...] = ()
    keywords: Mapping[str, Value] = field(default_factory=dict)
    rest: Value = NOTHING
    """What `*` and `**` pass."""

    def get(self, position: int, name: str = "") -> Value:
        """Return the argument at a position or of a name."""
        if position < len(self.positional):
            return self.positional[position]
        return self.keywords.get(name, self.rest)

    @property
    def all(self) -> tuple[Value, ...]:
        """Every argument."""
        return (*self.positional, *self.keywords.values(), self.rest)

    def sure(self) -> Arguments:
        """Return the arguments without the doubt that any of them may be a name."""
        positional = tuple(value.sure for value in self.positional)
        return Arguments(positional, {key: value.sure for key, value in self.keywords.items()}, self.rest.sure)

    def after(self, count: int) -> Arguments:
        """Return the arguments without the first ones."""
        return Arguments(self.positional[count:], self.keywords, self.rest)


Key = tuple[Store, "int | str", str]
"""A variable: its kind, what it belongs to, and its name."""
Unit = int | str
"""What runs as one: a function by its number, a module's own statements by its name."""


class State:
    """What is known of the program so far; it only grows.

    Who reads a variable runs again when more is learned of it.
    """

    def __init__(self, program: Program) -> None:
        """Begin with nothing known."""
        self.program = program
        self.queue: dict[Unit, None] = {}
        self.current: Unit = ""
        self.decisions: dict[Unit, dict[Decision, None]] = {}
        self._known: dict[Key, Value] = {}
        self._readers: dict[Key, dict[Unit, None]] = {}
        self._folded: dict[ast.AST, frozenset[str]] = {}

    def get(self, key: Key) -> Value | None:
        """Return what a variable may be; None where nothing is known of it."""
        self._readers.setdefault(key, {})[self.current] = None
        return self._known.get(key)

    def learn(self, key: Key, value: Value) -> None:
        """Add what a variable may be."""
        known = self._known.get(key)
        merged = value if known is None else join(known, value)
        if merged is not known and merged != known:
            self._known[key] = merged
            self.queue.update(self._readers.get(key, {}))
            if key[0] is Store.PARAMETER:
                self.queue[key[1]] = None

    def learn_attribute(self, owner: int | str, attr: str, value: Value) -> None:
        """Add what an attribute may be, of objects of one class and of any object."""
        value = value.sure
        self.learn((Store.ATTRIBUTE, owner, attr), value)
        self.learn((Store.ATTRIBUTE, "", attr), value)

    def fold(self, at: ast.AST, texts: Iterable[str]) -> frozenset[str]:
        """Return the texts that an expression computes from constants, no more than a few however often it is tried.

        A text that grows with every turn of a loop has no end; what tells names apart is short.
        """
        known = self._folded.get(at, frozenset())
        if len(known) < _MOST_FOLDED:
            known |= {text for text in islice(texts, _MOST_FOLDED) if len(text) <= _LONGEST_FOLDED}
            self._folded[at] = known
        return known

    def imported(self, dotted: str) -> Value:
        """Return what an absolute dotted name stands for."""
        if dotted in self.program.modules:
            return refers(Source(dotted))
        home, _, last = dotted.rpartition(".")
        if home in self.program.modules:
            return self.get((Store.VARIABLE, home, last)) or UNSEEN
        return refers(Imported(dotted))

    def dotted(self, reference: Reference) -> str | None:
        """Return the dotted name of a class."""
        if isinstance(reference, Imported):
            return reference.dotted
        if isinstance(reference, Class):
            info = self.program.classes[reference.number]
            return f"{info.module}.{info.node.name}"
        return None


@dataclass
class Frame:
    """The variables of one function, class or module, and the node that is looked at."""

    state: State
    module: str
    scope: tuple[Store, int | str]
    """The kind of its variables and what they belong to."""
    outer: Frame | None = None
    function: int | None = None
    at: ast.AST = field(default_factory=ast.Pass)

    def lookup(self, identifier: str) -> Value:
        """Return what a variable may be here."""
        frame: Frame | None = self
        while frame is not None:
            known = self.state.get((*frame.scope, identifier))
            if known is not None:
                return known
            frame = frame.outer
        return refers(Imported(f"builtins.{identifier}")) if hasattr(builtins, identifier) else UNSEEN

    def defining(self, identifier: str) -> Frame:
        """Return the nearest frame that has the variable; this one where none does."""
        frame: Frame | None = self
        while frame is not None and self.state.get((*frame.scope, identifier)) is None:
            frame = frame.outer
        return frame or self

    def bind_name(self, identifier: str, value: Value) -> None:
        """Add what a variable may be."""
        self.state.learn((*self.scope, identifier), value)

    def decide(self, kind: Kind, certainty: Certainty, constants: Iterable[str]) -> None:
        """Note that constants decide something about a name."""
        spelled = frozenset(text for text in constants if any(character.isalpha() for character in text))
        if not spelled or not certainty or not hasattr(self.at, "lineno"):
            return
        path = self.state.program.modules[self.module].path
        decision = Decision(path, self.at.lineno, " ".join(ast.unparse(self.at).split()), kind, spelled, certainty)
        self.state.decisions.setdefault(self.state.current, {})[decision] = None
