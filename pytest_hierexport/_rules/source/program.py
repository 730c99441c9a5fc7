"""The source as a whole: its scopes, functions and classes, and the decisions found in them."""

from __future__ import annotations

import ast
import builtins
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from pytest_hierexport._rules.source import fact
from pytest_hierexport._rules.source.fact import COMPUTED, ITEM, NOTHING, SURE, Facts, Kind
from pytest_hierexport._rules.source.files import module_name, parsed

RETURNED = "[returned]"
"""The variable that holds what a function returns."""
_MOST_FACTS = 40
"""How many facts of a variable tell something; one that may be more takes names alone."""
FunctionNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Reader: TypeAlias = "Callable[[ast.AST | None, Scope], Facts]"
_T = TypeVar("_T")


class Check(Enum):
    """How a constant decides something about a name."""

    EQUAL = auto()
    PREFIX = auto()
    SUFFIX = auto()
    PART = auto()
    WITHIN = auto()  # the name is part of the constant
    PATTERN = auto()
    ATTRIBUTE = auto()  # asked of a module
    MEMBER = auto()  # a function that is looked up by the name
    CLASS = auto()
    IMPORT = auto()  # a module that is imported by the name


@dataclass(frozen=True)
class Decision:
    """A place in the source where constants decide something about what may be a name of a model."""

    path: Path
    line: int
    code: str
    """The expression, on one line."""
    check: Check
    kinds: frozenset[Kind]
    """What the decision is about."""
    constants: frozenset[str]


@dataclass(frozen=True)
class External:
    """Something imported from outside the source."""

    name: str


@dataclass(eq=False)
class Scope:
    """The variables of a module, class, comprehension or loop, or of a function for one combination of arguments."""

    source: Source
    path: Path
    outer: Scope | None = None
    function: Function | None = None
    own: frozenset[str] | None = None
    """The variables that an assignment binds here; all of them if None."""
    variables: dict[str, Facts] = field(default_factory=dict)

    def get(self, name: str) -> Facts | None:
        """Return what a variable of this scope may be."""
        self.source.readers[self, name].add(self.source.reading)
        return self.variables.get(name)

    def holder(self, name: str) -> Scope | None:
        """Return the scope that a variable is found in from here."""
        scope: Scope | None = self
        while scope is not None and ((isinstance(scope, Class) and scope is not self) or scope.get(name) is None):
            scope = scope.outer
        return scope

    def read(self, node: ast.AST | None) -> Facts:
        """Return what an expression may be here, and record the decisions in it."""
        return self.source.read(node, self)

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
        """Add what a variable of this scope may be; what has read it is to be read again."""
        known = self.variables.get(name)
        if known is not None and len(known) > _MOST_FACTS:
            facts = frozenset(fact for fact in facts if fact[1] in SURE and len(fact[0]) < 2)
        if known is None or not facts <= known:
            self.variables[name] = (known or NOTHING) | facts
            self.source.stale.update(dict.fromkeys(self.source.readers[self, name]))

    def inner(self, node: ast.AST, targets: Iterable[ast.AST]) -> Scope:
        """Return the scope of a comprehension or loop, which binds its targets alone."""
        bound = frozenset(n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name))
        return self.source.once((node, self), lambda: Scope(self.source, self.path, self, self.function, bound))

    def decide(self, node: ast.AST, check: Check, about: Iterable[Kind], texts: Iterable[str]) -> None:
        """Record that constants decide something about a name."""
        spelled = {text.rstrip(COMPUTED) for text in texts if sum(map(str.isalpha, text)) > 1}
        if about and spelled:
            self.source.found[self.source.reading][self.path, node, check, frozenset(about)] |= spelled

    def decide_by_class(self, node: ast.AST, classes: Facts) -> None:
        """Record that classes decide: `isinstance(x, cls)`, `type(x) is cls`."""
        self.decide(node, Check.CLASS, {Kind.CLASS}, class_names(classes | fact.items(classes)))


@dataclass(eq=False)
class Class(Scope):
    """A class of the source; its variables are the members of the class and of all its objects."""

    name: str = ""
    fields: list[str] = field(default_factory=list)
    """What the body assigns: an enumeration's members, a dataclass's fields in order."""
    is_enum: bool = False
    bases: dict[Class, None] = field(default_factory=dict)
    derived: dict[Class, None] = field(default_factory=dict)

    def line(self, *, up: bool) -> list[Class]:
        """Return the class and its bases, or the classes derived from it, near ones first."""
        line = [self]
        for cls in line:
            line.extend(other for other in (cls.bases if up else cls.derived) if other not in line)
        return line

    def member(self, name: str) -> Facts:
        """Return what an attribute of an object may be, which may be one of a derived class."""
        inherited = next((found for cls in self.line(up=True) if (found := cls.get(name)) is not None), NOTHING)
        return inherited | fact.join(cls.get(name) or NOTHING for cls in self.line(up=False))


@dataclass(frozen=True)
class Instance:
    """Any object of a class of the source."""

    cls: Class


@dataclass(eq=False)
class Function:
    """A function, method or lambda of the source."""

    node: FunctionNode
    scope: Scope
    """Where it is defined."""
    defaults: dict[str, Facts] = field(default_factory=dict)
    is_called: bool = False

    def __post_init__(self) -> None:
        """Find what does not change."""
        self.body: list[ast.stmt] = (
            [ast.Return(self.node.body)] if isinstance(self.node, ast.Lambda) else self.node.body
        )
        self.positional = [arg.arg for arg in (*self.node.args.posonlyargs, *self.node.args.args)]
        self.parameters = [arg.arg for arg in ast.walk(self.node.args) if isinstance(arg, ast.arg)]
        self.bound = NOTHING
        """What the first parameter of a method is."""
        if isinstance(self.scope, Class) and self.positional and not self.decorated("staticmethod"):
            self.bound = fact.of(self.scope if self.decorated("classmethod") else Instance(self.scope))
            del self.positional[0]

    def decorated(self, *wanted: str) -> bool:
        """Return whether it has a decorator of one of these names."""
        return any(last_name(decorator) in wanted for decorator in getattr(self.node, "decorator_list", ()))

    def call(self, args: Sequence[Facts], keywords: dict[str, Facts]) -> Facts:
        """Return what it returns for some arguments.

        It is read once for each combination of kinds that its arguments are of, so that a helper for names and for
        operators does not mix them.
        """
        arguments, rest = self.node.args, args[len(self.positional) :]
        given = dict.fromkeys(self.parameters, NOTHING)
        given.update(self.defaults)
        given.update(zip(self.positional, args, strict=False))
        given.update((name, facts) for name, facts in keywords.items() if name in given)
        if arguments.vararg:
            given[arguments.vararg.arg] = fact.below(ITEM, fact.join(rest))
        if arguments.kwarg:
            given[arguments.kwarg.arg] = fact.join(fact.below(name, facts) for name, facts in keywords.items())
        if self.bound:
            given[(*arguments.posonlyargs, *arguments.args)[0].arg] = self.bound
        kinds = tuple(
            frozenset(atom for _, atom in facts if isinstance(atom, Kind) and atom in SURE) for facts in given.values()
        )
        scope = self.scope.source.once((self, kinds), self._opened)
        for name, facts in given.items():
            scope.learn(name, facts)
        return scope.get(RETURNED) or NOTHING

    def _opened(self) -> Scope:
        scope = Scope(self.scope.source, self.scope.path, self.scope, self)
        self.scope.source.read_later(scope, self.body)
        return scope


class Source:
    """Everything that is known of the source so far."""

    def __init__(self, files: Iterable[Path], read: Reader, operations: Mapping[str, Callable[[Any], Facts]]) -> None:
        """Parse the files; `read` returns what an expression may be, `operations` are by name what they give."""
        self.read, self.operations = read, operations
        self._made: dict[Hashable, Any] = {}
        self.readers: defaultdict[tuple[Scope, str], set[Scope]] = defaultdict(set)
        self.functions: list[Function] = []
        self.bodies: dict[Scope, list[ast.stmt]] = {}
        """The statements of modules and functions."""
        self.stale: dict[Scope, None] = {}
        """Those that are to be read again, since something that was read there has grown."""
        self.found: dict[Scope, defaultdict[tuple[Path, ast.AST, Check, frozenset[Kind]], set[str]]] = {}
        self.modules = {module_name(path): Scope(self, path) for path in files}
        for module in self.modules.values():
            self.read_later(module, parsed(module.path).body)
        self.reading = next(iter(self.bodies))

    def once(self, key: Hashable, make: Callable[[], _T]) -> _T:
        """Return what was made for a key; make it if there is none."""
        if key not in self._made:
            self._made[key] = make()
        made: _T = self._made[key]
        return made

    def defined(self, function: Function) -> Function:
        """Return a function that is found."""
        self.functions.append(function)
        return function

    def external(self, name: str) -> Facts:
        """Return what an import of a dotted name gives."""
        return fact.of(self.modules.get(name) or External(name))

    def read_later(self, scope: Scope, body: list[ast.stmt]) -> None:
        """Have statements read in a scope."""
        self.bodies[scope] = body
        self.stale[scope] = None

    def rounds(self) -> Iterator[tuple[Scope, list[ast.stmt]]]:
        """Yield the statements of each scope until nothing more is learned from them."""
        while self.stale:
            for scope in [scope for scope in self.bodies if scope in self.stale]:
                del self.stale[scope]
                self.reading, self.found[scope] = scope, defaultdict(set)
                yield scope, self.bodies[scope]

    @property
    def decisions(self) -> list[Decision]:
        """Every decision, in the order of the source."""
        found: defaultdict[tuple[Path, ast.AST, Check, frozenset[Kind]], set[str]] = defaultdict(set)
        for places in self.found.values():
            for place, texts in places.items():
                found[place] |= texts
        decided = [
            Decision(path, getattr(node, "lineno", 0), " ".join(ast.unparse(node).split()), check, about, frozenset(t))
            for (path, node, check, about), t in found.items()
        ]
        return sorted(
            decided, key=lambda d: (str(d.path), d.line, d.code, d.check.name, sorted(k.name for k in d.kinds))
        )


def class_names(facts: Facts) -> list[str]:
    """Return the dotted names of classes of the source, and of what is imported."""
    named = (atom.name for atom in fact.atoms(facts) if isinstance(atom, (Class, External)))
    return [name for name in named if not name.startswith("builtins.")]


def last_name(node: ast.AST | None) -> str:
    """Return the last identifier of an expression: `c` of `a.b.c`, `a.c()` and `c[0]`."""
    while isinstance(node, (ast.Call, ast.Subscript)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
