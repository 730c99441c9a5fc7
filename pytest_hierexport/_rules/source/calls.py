"""What attributes and calls give: of what the source defines, of what a model has, and of what is unknown."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pytest_hierexport._rules.source import evidence, fact
from pytest_hierexport._rules.source.fact import NOTHING, PATTERN, VALUE, Facts, Kind
from pytest_hierexport._rules.source.program import (
    Check,
    Class,
    External,
    Function,
    Instance,
    Scope,
    class_names,
)

_MOST_DOTS = 5  # of a name outside the source: `node = node.parent` in a loop has no end
_NO_TEXT = re.compile("len|int|float|bool|hash|id|ord|callable|print|open|load|read|run|exists|isinstance")
"""A word of a function that gives no text which is computed from its arguments."""


@dataclass(frozen=True)
class Partial:
    """A method of a value, or a function with its first arguments; they are variables of a scope of their own."""

    held: Scope
    count: int


@dataclass(frozen=True)
class Operation:
    """An operation at a place in the source, on what it is given."""

    scope: Scope
    node: ast.AST
    args: Sequence[Facts] = ()
    keywords: dict[str, Facts] = field(default_factory=dict)

    def arg(self, position: int, keyword: str = "") -> Facts:
        """Return an argument."""
        return self.args[position] if position < len(self.args) else self.keywords.get(keyword, NOTHING)

    def decide(self, check: Check, about: Facts, texts: Facts) -> None:
        """Record that constants decide something about what may be a name."""
        if about and texts and (found := fact.names(about)):
            self.scope.decide(self.node, check, found, fact.constants(texts))

    def partial(self, callee: Facts, args: Sequence[Facts]) -> Facts:
        """Return a function with its first arguments."""
        held = self.scope.source.once(
            (self.node, self.scope, Partial), lambda: Scope(self.scope.source, self.scope.path)
        )
        for name, facts in enumerate([callee, *args]):
            held.learn(str(name), facts)
        return fact.of(Partial(held, len(args)))


def attribute(op: Operation, base: Facts, attr: str, before: str = "") -> Facts:
    """Return what `base.attr` may be; `before` is the identifier before the dot."""
    if attr in {"__name__", "__qualname__"}:
        is_class = Kind.CLASS in fact.kinds(base | evidence.from_identifier(before, loose=True))
        known = fact.of(*(name.rpartition(".")[2] for name in class_names(base)))
        return known or (fact.of(Kind.CLASS_NAME) if is_class else NOTHING)
    if Kind.MODULE in fact.kinds(base):
        op.scope.decide(op.node, Check.ATTRIBUTE, {Kind.NAME}, {attr})
    found = fact.at(base, attr) | fact.join(_member(atom, attr) for atom in fact.atoms(base))
    return found or _by_name(op, base, attr)


def _by_name(op: Operation, base: Facts, attr: str) -> Facts:
    """Return what an attribute gives that only its name tells."""
    if attr in evidence.ATTRIBUTES:
        return evidence.ATTRIBUTES[attr]
    if attr in evidence.NODE_ATTRIBUTES and Kind.NODE in fact.kinds(base):
        return evidence.NODE_ATTRIBUTES[attr]
    if attr in evidence.METHODS or (base and attr in op.scope.source.operations):
        return op.partial(fact.of(External(attr)), [base])
    if fact.is_name(base):
        return NOTHING if attr in evidence.OF_FILES or fact.kinds(base) == {Kind.UNKNOWN} else fact.piece(base)
    if attr == "value" and fact.literals(base):
        return base  # of an enumeration's member
    return evidence.from_identifier(attr)


def _member(atom: object, attr: str) -> Facts:
    if isinstance(atom, External):
        return fact.of(External(f"{atom.name}.{attr}")) if atom.name.count(".") < _MOST_DOTS else NOTHING
    if isinstance(atom, Instance):
        found = fact.of(atom.cls) if attr == "__class__" else atom.cls.member(attr)
        getters = [
            f for f in fact.atoms(found) if isinstance(f, Function) and f.decorated("property", "cached_property")
        ]
        return fact.join(getter.call((), {}) for getter in getters) if getters else found
    if isinstance(atom, Class):
        return atom.member(attr)
    return (atom.get(attr) or NOTHING) if isinstance(atom, Scope) else NOTHING


def call(op: Operation, callee: Facts, called: str = "") -> Facts:
    """Return what calling a value gives; `called` is its identifier."""
    known = [atom for atom in fact.atoms(callee) if isinstance(atom, (Function, Class, External, Partial))]
    if not known:
        return callee if fact.is_name(callee) else unknown(op, called)
    return fact.join(_call(op, atom) for atom in known)


def _call(op: Operation, atom: object) -> Facts:
    if isinstance(atom, Function):
        atom.is_called = True
        return atom.call(op.args, op.keywords)
    if isinstance(atom, Class):
        return _instance(op, atom)
    if isinstance(atom, Partial):
        callee, *args = (atom.held.get(str(position)) or NOTHING for position in range(atom.count + 1))
        whole = frozenset(fact for fact in callee if not isinstance(fact[1], Partial))
        return call(replace(op, args=[*args, *op.args]), whole) if whole else NOTHING
    return _library(op, *atom.name.rpartition(".")[::2]) if isinstance(atom, External) else NOTHING


def _library(op: Operation, home: str, name: str) -> Facts:
    if name in evidence.METHODS:
        asked = op.arg(1, "target") if name.startswith("get_") else NOTHING
        op.decide(Check.ATTRIBUTE, fact.of(Kind.NAME), asked)
        return evidence.METHODS[name]
    if home == "re" and name not in {"compile", "escape"}:
        op = replace(op, args=[fact.below(PATTERN, op.arg(0, "pattern")), *op.args[1:]])
    return run(op, name) if name in op.scope.source.operations else unknown(op, name)


def run(op: Operation, name: str) -> Facts:
    """Return what the operation of a name gives, and record what it decides."""
    return op.scope.source.operations[name](op)


def _instance(op: Operation, cls: Class) -> Facts:
    if cls.is_enum:
        op.decide(Check.EQUAL, op.arg(0), cls.member("value"))
        return fact.of(Instance(cls))
    initializers = [f for f in fact.atoms(cls.member("__init__")) if isinstance(f, Function)]
    for initializer in initializers:
        _call(op, initializer)
    names_ = () if initializers else [name for base in reversed(cls.line(up=True)) for name in base.fields]
    given = [op.arg(position, name) for position, name in enumerate(names_)]
    for name, facts in zip(names_, given, strict=True):
        cls.learn(name, facts)
    return fact.of(Instance(cls)) | fact.join(fact.below(*each) for each in enumerate(given))


def unknown(op: Operation, called: str) -> Facts:
    """Return what a function gives that cannot be seen: what it makes of a name may be one."""
    call_back(op)
    keys = fact.literals(op.arg(0)) if called == "get" else ()
    named = fact.join(map(evidence.from_identifier, (called, *keys)))
    if named or any(map(_NO_TEXT.fullmatch, evidence.tokens(called))):
        return named
    return fact.of(Kind.UNKNOWN) if any(map(fact.is_name, op.args)) else NOTHING


def call_back(op: Operation) -> Facts:
    """Call each function that is given, with the items of what else is given."""
    found = NOTHING
    given = [*op.args, *op.keywords.values()]
    for position, callee in enumerate(given):
        if any(isinstance(atom, (Function, Partial, External)) for atom in fact.atoms(callee)):
            others = [fact.items(other) for other in given[:position] + given[position + 1 :]]
            if any(others):
                found |= call(Operation(op.scope, op.node, others), callee)
    return found


def grow(op: Operation, target: ast.expr, facts: Facts) -> None:
    """Add to the collection that an expression names."""
    if isinstance(target, ast.Name):
        (op.scope.holder(target.id) or op.scope).learn(target.id, facts)
    elif isinstance(target, ast.Attribute):
        for atom in fact.atoms(op.scope.read(target.value)):
            if isinstance(atom, (Scope, Instance)):
                (atom.cls if isinstance(atom, Instance) else atom).learn(target.attr, facts)
    elif isinstance(target, ast.Subscript):
        grow(op, target.value, fact.below(VALUE, facts))
    elif isinstance(target, ast.Call) and isinstance(target.func, ast.Attribute):
        grow(op, target.func.value, fact.below(VALUE, facts))
