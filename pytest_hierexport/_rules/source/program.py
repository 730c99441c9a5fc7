"""The source as a whole: its scopes, functions and classes, what their fields hold, and the decisions found."""

from __future__ import annotations

import ast
import builtins
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from pytest_hierexport._rules.source.files import module_name, parsed
from pytest_hierexport._rules.source.values import COMPUTED, ITEM, NOTHING, Kind, Role, Thing, Value, join

__all__ = ["BASES", "DERIVED", "RETURNED", "Check", "Class", "Decision", "Function", "Program", "Scope", "identifier"]

BASES, DERIVED, RETURNED = "[bases]", "[derived]", "[returned]"
"""Fields of a class, and of a function's scope."""
_SMALL = 40
"""The most syntax nodes of a function that is read once per call, so that what its other calls pass does not mix in."""
FunctionNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_T = TypeVar("_T", bound=Thing)


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


@dataclass(eq=False, kw_only=True)
class Scope(Thing):
    """The variables of a module, comprehension or loop, or of a function as one place calls it."""

    role: Role = Role.SOURCE
    program: Program
    path: Path
    outer: Scope | None = None
    function: Function | None = None
    own: frozenset[str] | None = None
    """The variables that an assignment binds here; all of them if None."""
    elsewhere: set[str] = field(default_factory=set)
    """The variables that are declared global or nonlocal."""

    def lookup(self, name: str) -> Value:
        """Return what a variable may be here."""
        scope: Scope | None = self
        while scope is not None:
            found = scope.get(name) if scope is self or not isinstance(scope, Class) else None
            if found is not None:
                return found
            scope = scope.outer
        return self.program.external(f"builtins.{name}") if hasattr(builtins, name) else NOTHING

    def bind(self, name: str, value: Value) -> None:
        """Add what a variable may be."""
        scope = self
        while scope.outer and (name in scope.elsewhere or (scope.own is not None and name not in scope.own)):
            scope = scope.outer
        self.program.learn(scope, name, value)

    def inner(self, node: ast.AST, function: Function | None, targets: Iterable[ast.AST] | None = None) -> Scope:
        """Return the scope of a function, comprehension or loop; the last two bind only their targets."""
        found = (name for target in targets or () for name in ast.walk(target))
        own = None if targets is None else frozenset(name.id for name in found if isinstance(name, ast.Name))
        program, path = self.program, self.path
        return program.once(
            (node, self, function),
            lambda: Scope(program=program, path=path, outer=self, function=function, own=own),
        )


@dataclass(eq=False, kw_only=True)
class Class(Scope):
    """A class of the source; its variables are its members."""

    node: ast.ClassDef
    instance: Thing
    """All of its objects."""

    def line(self, direction: str) -> list[Class]:
        """Return the class and its bases or derived classes, near ones first."""
        line = [self]
        for cls in line:
            near = (other for other in (cls.get(direction) or NOTHING).things if isinstance(other, Class))
            line.extend(sorted((other for other in near if other not in line), key=lambda other: other.name))
        return line

    def inherited(self, name: str) -> Value:
        """Return what the class, or the first base that has it, holds for an attribute."""
        held = (cls._own(name) for cls in self.line(BASES))
        return next((value for value in held if value is not None), NOTHING)

    def member(self, name: str) -> Value:
        """Return what an attribute of `self` may be, which may be an object of a derived class."""
        return join(self.inherited(name), *(cls._own(name) or NOTHING for cls in self.line(DERIVED)))

    def _own(self, name: str) -> Value | None:
        held = [value for thing in (self, self.instance) if (value := thing.get(name)) is not None]
        return join(*held) if held else None

    @property
    def constants(self) -> list[str]:
        """What the body assigns: an enumeration's members, a dataclass's fields in order."""
        statements = [s for cls in reversed(self.line(BASES)) for s in cls.node.body]
        targets = [s.targets[0] if isinstance(s, ast.Assign) else getattr(s, "target", None) for s in statements]
        return [target.id for target in targets if isinstance(target, ast.Name)]


@dataclass(eq=False, kw_only=True)
class Function(Thing):
    """A function, method or lambda of the source; its fields are what its parameters are if nothing is passed."""

    role: Role = Role.SOURCE
    node: FunctionNode
    scope: Scope
    """Where it is defined."""
    is_called: bool = False

    def __post_init__(self) -> None:
        """Find what does not change."""
        arguments, node = self.node.args, self.node
        self.body: list[ast.stmt] = [ast.Return(node.body)] if isinstance(node, ast.Lambda) else node.body
        self.is_small = sum(1 for _ in ast.walk(node)) <= _SMALL
        self.bound: Thing | None = None
        """What the first parameter of a method is bound to."""
        if isinstance(self.scope, Class) and not self.decorated("staticmethod"):
            self.bound = self.scope if self.decorated("classmethod") else self.scope.instance
        self.positional = [*arguments.posonlyargs, *arguments.args][self.bound is not None :]
        """The parameters that take arguments by position, without a bound one."""

    def decorated(self, *names: str) -> bool:
        """Return whether it has a decorator of one of these names."""
        return any(identifier(decorator) in names for decorator in getattr(self.node, "decorator_list", ()))

    def activation(self, node: ast.AST) -> Scope:
        """Return its variables when it is called at a node."""
        program, scope = self.scope.program, self.scope.inner(node, self)
        if self.bound is not None and self.node.args.args:
            scope.bind(self.node.args.args[0].arg, Value.of(self.bound))
        if scope not in program.bodies:
            program.bodies[scope] = self.body
            program.stale.add(scope)
        return scope

    def called(self, node: ast.AST, args: Sequence[Value], keywords: Mapping[str, Value]) -> Value:
        """Bind arguments to its parameters at a call, and return what it returns."""
        # `function(*args)` tells nothing of what is passed, such as in a decorator.
        is_forwarded = any(isinstance(arg, ast.Starred) for arg in getattr(node, "args", ()))
        if not self.is_called and not is_forwarded:
            # The node of the definition stands for callers outside the source, of which there are none.
            self.is_called = True
            self.scope.program.bodies.pop(self.activation(self.node))
        scope, positional = self.activation(node if self.is_small else self.node.args), self.positional
        for position, parameter in enumerate([*positional, *self.node.args.kwonlyargs]):
            name = parameter.arg
            is_given = position < min(len(args), len(positional))
            scope.bind(name, args[position] if is_given else keywords.get(name) or self.get(name) or NOTHING)
        if self.node.args.vararg is not None:
            rest = scope.program.once((node, self, "*"), lambda: Thing(Role.COLLECTION))
            scope.program.learn(rest, ITEM, join(*args[len(positional) :]))
            scope.bind(self.node.args.vararg.arg, Value.of(rest))
        return scope.get(RETURNED) or NOTHING


class Program:
    """Everything that is known of the source so far."""

    def __init__(self, files: Iterable[Path], operations: Mapping[str, Callable[[Any], Value]]) -> None:
        """Parse the files; `operations` are those of operators and libraries, by name."""
        self.operations = operations
        self._made: dict[Hashable, Any] = {}
        self._readers: defaultdict[tuple[Thing, Hashable], set[Scope]] = defaultdict(set)
        self._decisions: dict[Scope, dict[tuple[Path, ast.AST, Check, frozenset[Kind]], frozenset[str]]] = {}
        self.functions: list[Function] = []
        self.methods: defaultdict[str, list[Function]] = defaultdict(list)
        names = {path: module_name(path) for path in files}
        self.modules = {
            name: self.once(path, partial(Scope, name=name, program=self, path=path)) for path, name in names.items()
        }
        self.bodies = {module: parsed(module.path).body for module in self.modules.values()}
        """The statements to be read in each scope."""
        self.stale = set(self.bodies)
        """The scopes to be read again, since something that was read there has grown."""
        self._current = next(iter(self.bodies))

    def once(self, key: Hashable, make: Callable[[], _T]) -> _T:
        """Return the thing that was made for a key; make it if there is none."""
        if key not in self._made:
            self._made[key] = made = make()
            made.on_read = lambda thing, name: self._readers[thing, name].add(self._current)
            if isinstance(made, Function):
                self.functions.append(made)
                self.methods[made.name if made.bound else ""].append(made)
        found: _T = self._made[key]
        return found

    def external(self, name: str) -> Value:
        """Return what an import of a dotted name gives."""
        return Value.of(self.modules.get(name) or self.once(name, lambda: Thing(Role.EXTERNAL, name)))

    def learn(self, thing: Thing, name: Hashable, value: Value) -> None:
        """Add what a field may hold."""
        known = thing.held.get(name)
        if thing.on_read is not None and (known is None or value not in known):
            thing.held[name] = join(known or NOTHING, value)
            self.stale |= self._readers[thing, name] | self._readers[thing, None]

    def decide(self, scope: Scope, node: ast.AST, check: Check, kinds: Iterable[Kind], texts: Iterable[str]) -> None:
        """Record that constants decide something about a name."""
        spelled = frozenset(text.rstrip(COMPUTED) for text in texts if sum(map(str.isalpha, text)) > 1)
        if kinds and spelled:
            found, place = self._decisions[self._current], (scope.path, node, check, frozenset(kinds))
            found[place] = found.get(place, frozenset()) | spelled

    def passes(self) -> Iterator[tuple[Scope, Sequence[ast.stmt]]]:
        """Yield the statements of each scope until nothing more is learned from them."""
        while self.stale:
            batch = [(scope, body) for scope, body in self.bodies.items() if scope in self.stale]
            self.stale.clear()
            for scope, body in batch:
                self._current, self._decisions[scope] = scope, {}
                yield scope, body

    @property
    def decisions(self) -> list[Decision]:
        """Every decision, in the order of the source."""
        found = [
            Decision(path, getattr(node, "lineno", 0), " ".join(ast.unparse(node).split()), check, kinds, texts)
            for scope in self.bodies
            for (path, node, check, kinds), texts in self._decisions[scope].items()
        ]
        return sorted(found, key=lambda d: (str(d.path), d.line, d.code, d.check.name, sorted(k.name for k in d.kinds)))


def identifier(node: ast.AST | None) -> str:
    """Return the last identifier of an expression: `c` of `a.b.c`, `a.c()` and `c[0]`."""
    while isinstance(node, (ast.Call, ast.Subscript)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
