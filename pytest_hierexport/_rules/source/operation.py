"""An operation at a place in the source: attributes and calls of what is known, and the decisions that it makes."""

from __future__ import annotations

import ast
import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pytest_hierexport._rules.source import evidence
from pytest_hierexport._rules.source.program import Check, Class, Function, Scope, identifier
from pytest_hierexport._rules.source.values import (
    ITEM,
    NOTHING,
    VALUE,
    Kind,
    Role,
    Thing,
    Value,
    join,
    texts,
)

__all__ = ["Operation"]

_DEEPEST = 6  # the most dots of a name outside the source: `node = node.parent` in a loop has no end
_NO_TEXT = re.compile("len|int|float|bool|hash|id|ord|callable|print|open|load|read|run|exists|isinstance")
"""A word of a function that gives no text which is computed from its arguments."""


@dataclass(frozen=True)
class Operation:
    """An operation at a place in the source."""

    scope: Scope
    node: ast.AST
    args: Sequence[Value] = ()
    keywords: Mapping[str, Value] = field(default_factory=dict)

    def arg(self, position: int, keyword: str = "") -> Value:
        """Return an argument."""
        return self.args[position] if position < len(self.args) else self.keywords.get(keyword, NOTHING)

    def on(self, *args: Value) -> Operation:
        """Return an operation on other arguments at the same place."""
        return Operation(self.scope, self.node, args)

    def thing(self, role: Role, fields: Mapping[Hashable, Value], part: str = "") -> Value:
        """Return what this place creates, the same each time that it is read."""
        program = self.scope.program
        made = program.once((self.node, self.scope, role, part), lambda: Thing(role))
        for key, value in fields.items():
            program.learn(made, key, value)
        return Value.of(made)

    def listed(self, *fields: Value) -> Value:
        """Return a list of what is given, or of tuples of several fields."""
        item = fields[0] if len(fields) == 1 else self.thing(Role.COLLECTION, dict(enumerate(fields)), "item")
        return self.thing(Role.COLLECTION, {ITEM: item})

    def add(self, key: Value, value: Value) -> None:
        """Add to the collection that this is called on."""
        for thing in self.arg(0).things:
            self.scope.program.learn(thing, ITEM, key)
            self.scope.program.learn(thing, VALUE, value)

    def decide(self, check: Check, about: Value, constants: Value) -> None:
        """Record that constants decide something about what may be a name."""
        if names := about.names:
            self.scope.program.decide(self.scope, self.node, check, names, constants.constants)

    def by_class(self, classes: Value) -> None:
        """Record that classes decide: `isinstance(x, cls)`, `type(x) is cls`."""
        named = _class_names(join(classes, classes.each))
        self.scope.program.decide(self.scope, self.node, Check.CLASS, {Kind.CLASS}, named)

    def run(self, name: str) -> Value:
        """Return what the operation of a name gives, and record what it decides."""
        return self.scope.program.operations[name](self)

    def attribute(self, base: Value, attr: str, of: str = "") -> Value:
        """Return what `base.attr` may be; `of` is the identifier before the dot."""
        if attr in {"__name__", "__qualname__"}:
            is_class = Kind.CLASS in join(base, evidence.from_identifier(of, loose=True)).kinds
            known = texts(*(name.rpartition(".")[2] for name in _class_names(base)))
            return known or (Value.of(Kind.CLASS_NAME) if is_class else NOTHING)
        if not base and of.endswith("node"):
            base = Value.of(Kind.NODE)
        is_text = bool(base.is_name or base.texts or base.has(Role.COLLECTION) or base.has(Role.PATTERN))
        if Kind.MODULE in base.kinds:
            self.decide(Check.ATTRIBUTE, Value.of(Kind.NAME), texts(attr))
        found = join(*(self._attribute_of(thing, attr) for thing in base.things)) or evidence.of_attribute(base, attr)
        if found is not None:
            return found
        if attr in evidence.METHODS or (is_text and attr in self.scope.program.operations):
            return self.thing(Role.PARTIAL, {VALUE: self.scope.program.external(attr), 0: base}, attr)
        if is_text:
            return NOTHING if attr in evidence.OF_FILES or base.kinds == {Kind.UNKNOWN} else base.piece
        methods = self.scope.program.methods.get(attr, ())
        return Value.of(*methods) if len(methods) == 1 else evidence.from_identifier(attr)

    def _attribute_of(self, thing: Thing, attr: str) -> Value:
        if thing.role is Role.EXTERNAL:
            is_deep = thing.name.count(".") >= _DEEPEST
            return NOTHING if is_deep else self.scope.program.external(f"{thing.name}.{attr}")
        if isinstance(thing, Class):
            return thing.inherited(attr)
        cls = next(iter(Value.of(thing).field("__class__").things)) if thing.role is Role.INSTANCE else None
        found = cls.member(attr) if isinstance(cls, Class) else thing.get(attr) or NOTHING
        getters = [f for f in found.things if isinstance(f, Function) and f.decorated("property", "cached_property")]
        return join(*(getter.called(self.node, (), {}) for getter in getters)) if getters else found

    def call(self, callee: Value, called: str = "") -> Value:
        """Return what calling a value gives; `called` is its identifier."""
        if not callee.things:
            return callee if callee.is_name else self._unknown(called)
        return join(*(self._call_of(thing) for thing in callee.things))

    def _call_of(self, thing: Thing) -> Value:
        if isinstance(thing, Function):
            return thing.called(self.node, self.args, self.keywords)
        if isinstance(thing, Class):
            return self._instance(thing)
        if thing.role is Role.PARTIAL:
            return replace(self, args=[*Value.of(thing).row, *self.args]).call(Value.of(thing).field(VALUE))
        return self._library(*thing.name.rpartition(".")[::2])

    def _library(self, home: str, name: str) -> Value:
        if name in evidence.METHODS:
            asked = self.arg(1, "target") if name.startswith("get_") else NOTHING
            self.decide(Check.ATTRIBUTE, Value.of(Kind.NAME), asked)
            return evidence.METHODS[name]
        if name not in self.scope.program.operations:
            return self._unknown(name) if name else NOTHING
        if home == "re":
            pattern = self.thing(Role.PATTERN, {VALUE: self.arg(0, "pattern")})
            return replace(self, args=[pattern, *self.args[1:]]).run(name)
        return self.run(name)

    def _instance(self, cls: Class) -> Value:
        if cls.get(ITEM):
            self.on(self.arg(0), cls.member("value")).run("eq")
        initializers = [thing for thing in cls.inherited("__init__").things if isinstance(thing, Function)]
        for initializer in initializers:
            initializer.called(self.node, self.args, self.keywords)
        given = {} if initializers else {name: self.arg(position, name) for position, name in enumerate(cls.constants)}
        for name, value in given.items():
            cls.program.learn(cls.instance, name, value)
        is_tuple = any(identifier(base) == "NamedTuple" for base in cls.node.bases)
        row = self.thing(Role.COLLECTION, dict(enumerate(given.values()))) if is_tuple else NOTHING
        return join(Value.of(cls.instance), row)

    def _unknown(self, called: str) -> Value:
        """A function that cannot be seen: what it makes of a name may be one."""
        keys = self.arg(0).literals if called == "get" else ()
        named = join(*map(evidence.from_identifier, (called, *keys)))
        if named or any(map(_NO_TEXT.fullmatch, evidence.tokens(called))):
            return named
        return Value.of(Kind.UNKNOWN) if any(arg.is_name for arg in self.args) else NOTHING


def _class_names(value: Value) -> list[str]:
    """Return the dotted names of classes of the source, and of what is imported."""
    named = (thing.name for thing in value.things if thing.role is Role.EXTERNAL or isinstance(thing, Class))
    return [name for name in named if not name.startswith("builtins.")]
