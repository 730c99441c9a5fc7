"""The source as a whole: its scopes, functions and classes, and the decisions found in them."""

from __future__ import annotations

import ast
import builtins
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import Any

from pytest_hierexport._rules.source import fact
from pytest_hierexport._rules.source.evidence import last_name
from pytest_hierexport._rules.source.fact import NAMES, NOTHING, Facts, Kind
from pytest_hierexport._rules.source.files import module_name, parsed, too_deep

RETURNED = "[returned]"
"""The variable that holds what a function returns."""
_MOST_FACTS = 40
"""How many facts of a variable tell something; one that may be more takes names alone."""


class Check(Enum):
    """How a constant decides something about a name."""

    EQUAL = auto()
    PREFIX = auto()
    SUFFIX = auto()
    PART = auto()
    PATTERN = auto()
    CLASS = auto()
    IMPORT = auto()  # a module that is imported by the name


@dataclass(frozen=True)
class Decision:
    """A place in the source where constants decide something about what may be a name of a model."""

    path: Path
    line: int
    code: str
    check: Check
    kinds: frozenset[Kind]
    constants: frozenset[str]


@dataclass(frozen=True)
class External:
    """Something imported from outside the source, or a method of a value of unknown class."""

    name: str


@dataclass(frozen=True)
class Bound:
    """A function with its first arguments: `TABLE.get`, `partial(eq, "x")`."""

    callee: Facts
    args: tuple[Facts, ...]


@dataclass(eq=False)
class Scope:
    """The variables of a module, class, comprehension or loop, or of a function for one combination of arguments."""

    source: Source
    path: Path
    outer: Scope | None = None
    own: frozenset[str] | None = None
    """The variables that an assignment binds here; all of them if None."""
    variables: dict[str, Facts] = field(default_factory=dict)

    def get(self, name: str) -> Facts | None:
        """Return what a variable of this scope may be; what is being read is read again when that grows."""
        self.source.readers[self, name].add(self.source.reading)
        return self.variables.get(name)

    def holder(self, name: str) -> Scope | None:
        """Return the scope that a variable is found in from here."""
        scope: Scope | None = self
        while scope is not None and ((isinstance(scope, Class) and scope is not self) or scope.get(name) is None):
            scope = scope.outer
        return scope

    def lookup(self, name: str) -> Facts:
        """Return what a variable may be here."""
        if (scope := self.holder(name)) is not None:
            return scope.variables[name]
        return fact.of(External(f"builtins.{name}")) if hasattr(builtins, name) else NOTHING

    def bind(self, name: str, facts: Facts) -> None:
        """Add what a variable may be to the scope that an assignment binds it in."""
        scope = self
        while scope.outer and scope.own is not None and name not in scope.own:
            scope = scope.outer
        scope.learn(name, facts)

    def learn(self, name: str, facts: Facts) -> None:
        """Add what a variable of this scope may be."""
        known = self.variables.get(name)
        if known is not None and len(known) > _MOST_FACTS:
            facts = frozenset(fact for fact in facts if fact[1] in NAMES and len(fact[0]) < 2)
        if known is None or not facts <= known:
            self.variables[name] = (known or NOTHING) | facts
            self.source.stale |= self.source.readers[self, name]

    def inner(self, node: ast.AST, targets: Iterable[ast.AST]) -> Scope:
        """Return the scope of a comprehension or loop, which binds its targets alone."""
        bound = frozenset(n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name))
        made: Scope = self.source.once((node, self), lambda: Scope(self.source, self.path, self, bound))
        return made

    def decide(self, node: ast.AST, check: Check, about: Iterable[Kind], texts: Iterable[str]) -> Facts:
        """Record that constants decide something about a name; it gives nothing."""
        spelled = {text for text in texts if sum(map(str.isalpha, text)) > 1}
        if about and spelled:
            self.source.found[self.path, node, check, frozenset(about)] |= spelled
        return NOTHING

    def decide_by_class(self, node: ast.AST, classes: Facts) -> Facts:
        """Record that classes decide: `isinstance(x, cls)`, `type(x) is cls`."""
        return self.decide(node, Check.CLASS, {Kind.CLASS}, class_names(classes | fact.items(classes)))


@dataclass(eq=False)
class Class(Scope):
    """A class of the source; its variables are the members of the class and of all its objects."""

    name: str = ""
    fields: list[str] = field(default_factory=list)
    """What the body assigns: a dataclass's fields in order."""
    bases: dict[Class, None] = field(default_factory=dict)
    derived: dict[Class, None] = field(default_factory=dict)
    """The classes above and below, near ones first."""

    def derive(self, base: Class) -> None:
        """Add a base."""
        for cls in (base, *base.bases):
            if cls is not self:
                self.bases[cls] = cls.derived[self] = None

    def member(self, name: str) -> Facts:
        """Return what an attribute of an object may be, which may be one of a derived class."""
        inherited = next((found for cls in (self, *self.bases) if (found := cls.get(name)) is not None), NOTHING)
        return inherited | fact.join(cls.get(name) or NOTHING for cls in self.derived)


@dataclass(frozen=True)
class Instance:
    """Any object of a class of the source."""

    cls: Class


@dataclass(eq=False)
class Function:
    """A function, method or lambda of the source."""

    node: Any
    scope: Scope
    """Where it is defined."""
    defaults: dict[str, Facts] = field(default_factory=dict)
    is_called: bool = False

    @property
    def decorators(self) -> list[str]:
        """The names of its decorators."""
        return [last_name(decorator) for decorator in getattr(self.node, "decorator_list", ())]

    def call(self, args: Iterable[Facts], keywords: dict[str, Facts]) -> Facts:
        """Return what it returns for some arguments.

        It is read once for each combination of kinds that its arguments are of, so that a helper for names and for
        operators does not mix them.
        """
        arguments, given = self.node.args, list(args)
        if isinstance(self.scope, Class) and "staticmethod" not in self.decorators:
            given.insert(0, fact.of(self.scope if "classmethod" in self.decorators else Instance(self.scope)))
        positional = [arg.arg for arg in (*arguments.posonlyargs, *arguments.args)]
        passed = {**dict.fromkeys((*positional, *(arg.arg for arg in arguments.kwonlyargs)), NOTHING), **self.defaults}
        passed.update(zip(positional, given, strict=False))
        passed.update((name, facts) for name, facts in keywords.items() if name in passed)
        if arguments.vararg:
            passed[arguments.vararg.arg] = fact.listed(fact.join(given[len(positional) :]))
        kinds = tuple(frozenset(a for _, a in facts if isinstance(a, Kind) and a in NAMES) for facts in passed.values())
        scope: Scope = self.scope.source.once((self, kinds), self._opened)
        for name, facts in passed.items():
            scope.learn(name, facts)
        return scope.get(RETURNED) or NOTHING

    def _opened(self) -> Scope:
        scope, body = Scope(self.scope.source, self.scope.path, self.scope), self.node.body
        self.scope.source.bodies[scope] = body if isinstance(body, list) else [ast.Return(body)]
        self.scope.source.stale.add(scope)
        return scope


class Source:
    """Everything that is known of the source so far."""

    def __init__(self, files: Iterable[Path]) -> None:
        """Parse the files."""
        self._made: dict[Hashable, Any] = {}
        self.readers: defaultdict[tuple[Scope, str], set[Scope]] = defaultdict(set)
        """The scopes in which a variable is read."""
        self.functions: dict[Function, None] = {}
        self.modules = {module_name(path): Scope(self, path) for path in files}
        self.bodies: dict[Scope, list[ast.stmt]] = {m: parsed(m.path).body for m in self.modules.values()}
        """The statements of modules and functions."""
        self.stale, self.reading = set(self.bodies), next(iter(self.bodies))
        """The scopes that are to be read again, and the one that is being read."""
        self.found: defaultdict[tuple[Path, ast.AST, Check, frozenset[Kind]], set[str]] = defaultdict(set)

    def once(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return what was made for a key; make it if there is none."""
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def settle(self, read: Callable[[list[ast.stmt], Scope], None]) -> None:
        """Have the statements of each scope read until nothing more is learned from them."""
        while self.stale:
            for scope in [scope for scope in self.bodies if scope in self.stale]:
                self.stale.remove(scope)
                self.reading = scope
                try:
                    read(self.bodies[scope], scope)
                except RecursionError as error:
                    raise too_deep(scope.path) from error

    def external(self, name: str) -> Facts:
        """Return what an import of a dotted name gives."""
        return fact.of(self.modules.get(name) or External(name))


def class_names(facts: Facts) -> list[str]:
    """Return the dotted names of classes of the source, and of what is imported."""
    named = (atom.name for atom in fact.atoms(facts) if isinstance(atom, (Class, External)))
    return [name for name in named if not name.startswith("builtins.")]
