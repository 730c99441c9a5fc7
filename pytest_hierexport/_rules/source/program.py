"""The source as a whole: its scopes, functions and classes, and the decisions found in it."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from pytest_hierexport._rules.source.files import module_name, parsed
from pytest_hierexport._rules.source.values import NOTHING, Dotted, Kind, Value, join

__all__ = ["Check", "ClassInfo", "Decision", "FunctionInfo", "Program", "Scope", "identifier"]

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class Check(Enum):
    """How a constant decides something about a name."""

    EQUAL = "equals"
    PREFIX = "starts"
    SUFFIX = "ends"
    PART = "is part of"
    WITHIN = "holds"
    PATTERN = "is a pattern for"
    ATTRIBUTE = "is asked of a module"
    MEMBER = "is the name of a function that is looked up by"
    CLASS = "is a class that decides about"
    IMPORT = "is imported by"


@dataclass(frozen=True)
class Decision:
    """A place in the source where constants decide something about a name of the model."""

    path: Path
    line: int
    code: str
    """The expression, on one line."""
    check: Check
    kinds: frozenset[Kind]
    """What the decision is about."""
    constants: frozenset[str]


@dataclass(eq=False)
class Scope:
    """The variables of a module, class, function, comprehension or loop."""

    program: Program
    path: Path
    outer: Scope | None = None
    is_class: bool = False
    function: FunctionInfo | None = None
    depth: int = 0
    """How many functions of one expression are being read inside one another."""
    names: dict[str, Value] = field(default_factory=dict)
    owner: ClassInfo | None = None
    """The class whose members these variables are."""
    globals: set[str] = field(default_factory=set)

    def inner(self, function: FunctionInfo | None = None, *, is_class: bool = False) -> Scope:
        """Return a new scope inside this one."""
        return Scope(self.program, self.path, self, is_class, function or self.function, self.depth)

    def lookup(self, name: str) -> Value:
        """Return what a variable may be here."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names and (scope is self or not scope.is_class):
                return scope.names[name]
            scope = scope.outer
        return Value(refs=frozenset({Dotted(f"builtins.{name}")})) if hasattr(builtins, name) else NOTHING

    def bind(self, name: str, value: Value) -> None:
        """Add what a variable may be."""
        home = self.home(name)
        if home.depth:
            # The scope of a single call is forgotten after it.
            home.names[name] = join(home.names.get(name, NOTHING), value).bounded()
        else:
            self.program.learn(home.names, name, value)

    def home(self, name: str) -> Scope:
        """Return the scope that an assignment to a variable binds it in."""
        scope = self
        while name in scope.globals and scope.outer is not None:
            scope = scope.outer
        return scope


@dataclass(eq=False)
class FunctionInfo:
    """A function, method or lambda, with its own scope."""

    node: FunctionNode
    scope: Scope
    owner: ClassInfo | None
    returns: dict[str, Value] = field(default_factory=dict)

    @property
    def is_bound(self) -> bool:
        """Whether the first parameter is the object that it is called on."""
        return self.owner is not None and not self.decorated("staticmethod")

    def decorated(self, *names: str) -> bool:
        """Return whether it has a decorator of one of these names."""
        found = () if isinstance(self.node, ast.Lambda) else self.node.decorator_list
        return any(identifier(decorator) in names for decorator in found)

    @property
    def parameters(self) -> list[ast.arg]:
        """The parameters that take arguments by position, without a bound one."""
        return [*self.node.args.posonlyargs, *self.node.args.args][self.is_bound :]

    @property
    def expression(self) -> ast.expr | None:
        """The one expression that it returns; None where it does more."""
        if isinstance(self.node, ast.Lambda):
            return self.node.body
        body = [s for s in self.node.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
        return body[0].value if len(body) == 1 and isinstance(body[0], ast.Return) else None


@dataclass(eq=False)
class ClassInfo:
    """A class of the source; its scope holds its members, methods included."""

    node: ast.ClassDef
    dotted: str
    scope: Scope
    bases: list[ClassInfo] = field(default_factory=list)
    attributes: dict[str, Value] = field(default_factory=dict)
    """What is assigned to attributes of its objects."""

    def member(self, name: str) -> Value:
        """Return what an attribute of its objects, or of those of a base, may be."""
        own = [held[name] for held in (self.scope.names, self.attributes) if name in held]
        return join(*own) if own else join(*(base.member(name) for base in self.bases if base is not self))

    @property
    def constants(self) -> list[str]:
        """What its body assigns: an enumeration's members, a dataclass's fields in order."""
        targets = [s.targets[0] if isinstance(s, ast.Assign) else getattr(s, "target", None) for s in self.node.body]
        return [target.id for target in targets if isinstance(target, ast.Name)]


class Program:
    """Everything that is known of the source so far; it only grows."""

    def __init__(self, files: Iterable[Path]) -> None:
        """Parse the files."""
        self.trees = {path: parsed(path) for path in files}
        self.modules = {module_name(path): Scope(self, path) for path in self.trees}
        self.infos: dict[ast.AST, FunctionInfo | ClassInfo] = {}
        self.scopes: dict[ast.AST, Scope] = {}
        """Of comprehensions and loops."""
        self.called = {
            identifier(node.func)
            for tree in self.trees.values()
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
        }
        self.methods: dict[str, list[FunctionInfo]] = {}
        """Methods by name, of every class."""
        self.changed = False
        self._decisions: dict[tuple[Path, ast.expr, Check, frozenset[Kind]], frozenset[str]] = {}

    def learn(self, held: dict[str, Value], name: str, value: Value) -> None:
        """Add what a variable may be."""
        known = held.get(name)
        merged = value.bounded() if known is None else join(known, value).bounded()
        if merged != known:
            held[name] = merged
            self.changed = True

    def decide(
        self, scope: Scope, node: ast.expr, check: Check, kinds: frozenset[Kind], constants: Iterable[str]
    ) -> None:
        """Record that constants decide something about a name."""
        spelled = frozenset(text for text in constants if sum(map(str.isalpha, text)) > 1)
        if kinds and spelled:
            key = (scope.path, node, check, kinds)
            self._decisions[key] = self._decisions.get(key, frozenset()) | spelled

    @property
    def decisions(self) -> list[Decision]:
        """Every decision found, in the order of the source."""
        found = [
            Decision(path, node.lineno, " ".join(ast.unparse(node).split()), check, kinds, constants)
            for (path, node, check, kinds), constants in self._decisions.items()
        ]
        return sorted(found, key=lambda d: (str(d.path), d.line, d.code, d.check.name, sorted(k.name for k in d.kinds)))


def identifier(node: ast.AST | None) -> str:
    """Return the last identifier of an expression: `c` of `a.b.c`, `a.c()` and `c[0]`."""
    while isinstance(node, (ast.Call, ast.Subscript)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
