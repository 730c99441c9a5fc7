"""What calls give: functions of the source, and those of Python's library that matter for names."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pytest_hierexport._rules.source.comparing import Site
from pytest_hierexport._rules.source.evidence import METHODS, from_identifier, tokens
from pytest_hierexport._rules.source.library import LIBRARY
from pytest_hierexport._rules.source.methods import call_method
from pytest_hierexport._rules.source.program import ClassInfo, FunctionInfo, Scope
from pytest_hierexport._rules.source.values import (
    NOTHING,
    Dotted,
    Instance,
    Kind,
    Method,
    Partial,
    Ref,
    Value,
    join,
    listed,
    of_kind,
    words,
)

__all__ = ["Call", "Read"]

Read = Callable[[ast.expr, Scope], Value]
_DEEPEST = 3
_NAMED = {Kind.NAME, Kind.CLASS_NAME, Kind.HOME, Kind.UNKNOWN, Kind.MODULE, Kind.CLASS, Kind.NODE, Kind.ENTRY}
# What gives no text that is computed from its arguments.
_NO_TEXT = words("len int float bool hash id ord callable print open load read run exists isinstance")


@dataclass(frozen=True)
class Call:
    """A call of a function with what it is given."""

    site: Site
    read: Read
    """Reads an expression of the source in a scope."""
    args: Sequence[Value]
    keywords: Mapping[str, Value] = field(default_factory=dict)

    @property
    def first(self) -> Value:
        """The first argument."""
        return self.arg(0)

    def arg(self, position: int, keyword: str = "") -> Value:
        """Return an argument."""
        return self.args[position] if position < len(self.args) else self.keywords.get(keyword, NOTHING)

    def on(self, *args: Value) -> Call:
        """Return a call with other arguments at the same place."""
        return Call(self.site, self.read, args)

    def of(self, callee: Value, called: str = "") -> Value:
        """Return what calling a value gives."""
        if not callee.refs:
            return self._unknown(called)
        return join(*(self._of(ref, called) for ref in callee.refs))

    def _of(self, ref: Ref, called: str) -> Value:
        if isinstance(ref, FunctionInfo):
            return self._function(ref)
        if isinstance(ref, ClassInfo):
            return self._instance(ref)
        if isinstance(ref, Method):
            return call_method(self.site, ref.receiver, ref.name, self.args)
        if isinstance(ref, Partial):
            return Call(self.site, self.read, (*ref.args, *self.args), self.keywords).of(
                Value(refs=frozenset({ref.target}))
            )
        return self._library(ref.name) if isinstance(ref, Dotted) else self._unknown(called)

    def _function(self, info: FunctionInfo) -> Value:
        expression, scope = info.expression, info.scope
        if expression is not None and self.site.scope.depth < _DEEPEST and not info.decorated("property"):
            # Read once more for this call, so that what other calls pass does not mix in.
            scope = Scope(scope.program, scope.path, scope, function=info, depth=self.site.scope.depth + 1)
            self._pass(info, scope)
            return self.read(expression, scope)
        self._pass(info, scope)
        returned = info.returns.get("", NOTHING)
        given = [*self.args, *self.keywords.values()]
        if given and not any(_matters(value) for value in given):
            return Value(texts=returned.constants) if returned.names else returned
        return returned

    def _pass(self, info: FunctionInfo, scope: Scope) -> None:
        arguments = info.node.args
        positional = info.parameters
        for position, parameter in enumerate([*positional, *arguments.kwonlyargs]):
            place = position if position < len(positional) else len(self.args)
            if place < len(self.args) or parameter.arg in self.keywords:
                scope.bind(parameter.arg, self.arg(place, parameter.arg))
        if arguments.vararg is not None:
            scope.bind(arguments.vararg.arg, listed(join(*self.args[len(positional) :])))

    def _instance(self, cls: ClassInfo) -> Value:
        self.site.equal(self.first, join(*(cls.scope.names.get(name, NOTHING) for name in cls.constants)))
        initialiser = cls.member("__init__").refs
        for ref in initialiser:
            if isinstance(ref, FunctionInfo):
                self._function(ref)
        for position, name in enumerate(() if initialiser else cls.constants):
            cls.scope.program.learn(cls.attributes, name, self.arg(position, name))
        return Value(refs=frozenset({Instance(cls)}), texts=frozenset() if initialiser else self.first.texts)

    def _unknown(self, called: str) -> Value:
        """A function that cannot be seen: what it makes of a name may be one."""
        named = from_identifier(called)
        if named is not NOTHING or not _NO_TEXT.isdisjoint(tokens(called)):
            return named
        return of_kind(Kind.UNKNOWN) if any(arg.is_name for arg in self.args) else NOTHING

    def _library(self, dotted: str) -> Value:
        home, _, function = dotted.rpartition(".")
        if home == "re":
            return self._regular(function)
        if function in METHODS:
            return METHODS[function]
        if home in {"builtins.str", "builtins.dict", "builtins.list", "builtins.set", "builtins.frozenset"}:
            return call_method(self.site, self.first, function, self.args[1:])
        known = LIBRARY.get(function)
        return self._unknown(function) if known is None else known(self)

    def _regular(self, function: str) -> Value:
        if function in {"compile", "escape"}:
            return Value(frozenset({Kind.REGEX}) if function == "compile" else frozenset(), self.first.texts)
        text = self.arg(2 if function.startswith("sub") else 1, "string")
        pattern = Value(frozenset({Kind.REGEX}), join(self.first, self.keywords.get("pattern", NOTHING)).texts)
        return call_method(self.site, pattern, "match", (text,))


def _matters(value: Value) -> bool:
    """Return whether a function may compute a name from a value."""
    if not _NAMED.isdisjoint(value.kinds) or any(isinstance(ref, Instance) for ref in value.refs):
        return True
    return value.holds and (_matters(value.each) or _matters(value.values or NOTHING))
