"""Where constants meet a name: equality, membership, lookups, parts, patterns, classes."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass

from pytest_hierexport._rules.source.program import Check, ClassInfo, FunctionInfo, Scope
from pytest_hierexport._rules.source.values import NOTHING, Dotted, Instance, Kind, Ref, Value, join

__all__ = ["Site"]


@dataclass(frozen=True)
class Site:
    """An expression that may decide something, and the scope that it is in."""

    scope: Scope
    node: ast.expr

    def decide(self, check: Check, kinds: frozenset[Kind], constants: Iterable[str]) -> None:
        """Record that constants decide something about what is of such kinds."""
        self.scope.program.decide(self.scope, self.node, check, kinds, constants)

    def equal(self, a: Value, b: Value) -> None:
        """`a == b`, `a is b`, and operations of sets."""
        for subject, other in ((a, b), (b, a)):
            self.decide(Check.EQUAL, subject.names, other.constants)
            if Kind.CLASS in subject.kinds | subject.each.kinds:
                self.by_class(other)

    def member(self, item: Value, container: Value) -> None:
        """`item in container`."""
        if container.holds:
            self.decide(Check.EQUAL, container.each.names, item.constants)
        else:
            self.decide(Check.WITHIN, item.names, container.texts)
            # What is not known to be a text may be a mapping, of which any key may be asked.
            is_text = container.names != {Kind.UNKNOWN}
            self.decide(Check.PART, container.names if is_text else frozenset(), item.constants)
        self.decide(Check.EQUAL, item.names, container.each.constants | members(container))
        if Kind.CLASS in item.kinds:
            self.by_class(container)

    def look_up(self, table: Value, key: Value) -> Value:
        """`table[key]` and `table.get(key)`; return what is found."""
        self.member(key, table if table.holds else Value(refs=table.refs, items=NOTHING))
        return join(table.each if table.values is None else table.values, _instances(table))

    def part(self, check: Check, text: Value, part: Value) -> None:
        """`text.startswith(part)` and the like."""
        self.decide(check, text.names, part.constants)
        self.decide(Check.WITHIN, part.names, text.constants)

    def by_class(self, classes: Value) -> None:
        """`isinstance(x, cls)`, `type(x) is cls`."""
        dotted = (_dotted(ref) for ref in classes.all_refs)
        self.decide(Check.CLASS, frozenset({Kind.CLASS}), [d for d in dotted if d and not d.startswith("builtins.")])

    def by_member(self, owner: Value, key: Value) -> None:
        """`getattr(owner, key)` with a key that is computed: a dispatch on names of functions."""
        names: set[str] = set()
        for ref in owner.refs:
            cls = ref.cls if isinstance(ref, Instance) else ref
            if isinstance(cls, ClassInfo):
                names.update(cls.scope.names)
            elif isinstance(ref, Dotted) and ref.name in self.scope.program.modules:
                names.update(self.scope.program.modules[ref.name].names)
        self.decide(Check.MEMBER, key.names, names)


def members(container: Value) -> frozenset[str]:
    """Return the names of an enumeration's members."""
    return frozenset(name for ref in container.refs if isinstance(ref, ClassInfo) for name in ref.constants)


def _instances(table: Value) -> Value:
    return Value(refs=frozenset(Instance(ref) for ref in table.refs if isinstance(ref, ClassInfo)))


def _dotted(ref: Ref) -> str:
    if isinstance(ref, Dotted):
        return ref.name
    return ref.dotted if isinstance(ref, ClassInfo) and not isinstance(ref, FunctionInfo) else ""
