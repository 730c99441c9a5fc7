"""What statements do: bind, return, branch, match, define."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import Any

from pytest_hierexport._rules.source.annotations import declared
from pytest_hierexport._rules.source.comparing import by_class, equal
from pytest_hierexport._rules.source.expressions import assign, evaluate
from pytest_hierexport._rules.source.reading import attribute
from pytest_hierexport._rules.source.references import Class, Function, Imported
from pytest_hierexport._rules.source.state import Frame, Kind, Store
from pytest_hierexport._rules.source.values import NOTHING, UNSEEN, Value, collection, join, refers

__all__ = ["execute"]


def execute(body: Iterable[ast.stmt], frame: Frame) -> None:
    """Go through statements once, in order; branches and loops alike."""
    for statement in body:
        handler = _HANDLERS.get(type(statement), _generic)
        handler(statement, frame)


def _generic(node: ast.stmt, frame: Frame) -> None:
    """Evaluate every expression of a statement, and go through the statements in it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            evaluate(child, frame)
        elif isinstance(child, ast.stmt):
            execute([child], frame)
        elif isinstance(child, ast.ExceptHandler):
            if child.name is not None:
                frame.bind_name(child.name, Value(apart=True))
            execute(child.body, frame)


def _assign(node: ast.Assign, frame: Frame) -> None:
    value = evaluate(node.value, frame)
    for target in node.targets:
        assign(target, value, frame)


def _annotated(node: ast.AnnAssign, frame: Frame) -> None:
    if node.value is not None:
        assign(node.target, evaluate(node.value, frame), frame)
    if frame.scope[0] is Store.MEMBER and isinstance(node.target, ast.Name):
        frame.state.learn_attribute(frame.scope[1], node.target.id, declared(node.annotation, frame))


def _augmented(node: ast.AugAssign, frame: Frame) -> None:
    value = evaluate(ast.copy_location(ast.BinOp(_loaded(node.target), node.op, node.value), node), frame)
    assign(node.target, value, frame)


def _loaded(target: ast.expr) -> ast.expr:
    parsed = ast.parse(ast.unparse(target), mode="eval").body
    return ast.copy_location(parsed, target)


def _for(node: ast.For | ast.AsyncFor, frame: Frame) -> None:
    assign(node.target, evaluate(node.iter, frame).items, frame)
    execute(node.body, frame)
    execute(node.orelse, frame)


def _with(node: ast.With | ast.AsyncWith, frame: Frame) -> None:
    for entered in node.items:
        value = evaluate(entered.context_expr, frame)
        if entered.optional_vars is not None:
            # A generator function that makes a context yields what is bound.
            assign(entered.optional_vars, join(value, value.element or NOTHING), frame)
    execute(node.body, frame)


def _return(node: ast.Return, frame: Frame) -> None:
    if node.value is not None and frame.function is not None:
        frame.state.learn((Store.RETURN, frame.function, ""), evaluate(node.value, frame))


def _import(node: ast.Import, frame: Frame) -> None:
    for alias in node.names:
        dotted = alias.name if alias.asname else alias.name.partition(".")[0]
        frame.bind_name(alias.asname or dotted, frame.state.imported(dotted))


def _import_from(node: ast.ImportFrom, frame: Frame) -> None:
    home = frame.state.program.imported_from(frame.module, node)
    for alias in node.names:
        frame.bind_name(alias.asname or alias.name, frame.state.imported(f"{home}.{alias.name}"))


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef, frame: Frame) -> None:
    for decorator in node.decorator_list:
        evaluate(decorator, frame)
        _registered(decorator, node, frame)
    frame.bind_name(node.name, refers(Function(frame.state.program.numbers[node])))


def _registered(decorator: ast.expr, node: ast.FunctionDef | ast.AsyncFunctionDef, frame: Frame) -> None:
    """`@describe.register` and `@describe.register(cls)` decide by a class."""
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    if not isinstance(called, ast.Attribute) or called.attr != "register":
        return
    classes = list(decorator.args) if isinstance(decorator, ast.Call) else []
    if not classes:
        first = next(iter([*node.args.posonlyargs, *node.args.args]), None)
        classes = [first.annotation] if first is not None and first.annotation is not None else []
    before, frame.at = frame.at, decorator
    for cls in classes:
        by_class(frame, evaluate(cls, frame).referred)
    frame.at = before


def _class(node: ast.ClassDef, frame: Frame) -> None:
    number = frame.state.program.numbers[node]
    inner = Frame(frame.state, frame.module, (Store.MEMBER, number), outer=frame, function=frame.function)
    execute(node.body, inner)
    constants = [
        frame.state.get((Store.MEMBER, number, name)) or NOTHING
        for name in frame.state.program.classes[number].constants
    ]
    # Iterating over an enumeration yields its members.
    frame.bind_name(
        node.name, Value(references=frozenset({Class(number)}), element=join(*constants) if constants else None)
    )


def _match(node: ast.Match, frame: Frame) -> None:
    subject = evaluate(node.subject, frame)
    for case in node.cases:
        _pattern(case.pattern, subject, frame)
        if case.guard is not None:
            evaluate(case.guard, frame)
        execute(case.body, frame)


def _pattern(pattern: ast.pattern, subject: Value, frame: Frame) -> None:
    before, frame.at = frame.at, pattern
    _PATTERNS.get(type(pattern), _any_pattern)(pattern, subject, frame)
    frame.at = before


def _any_pattern(pattern: ast.pattern, subject: Value, frame: Frame) -> None:
    """`None`, `True` and `_` decide nothing about a name."""


def _value_pattern(pattern: ast.MatchValue, subject: Value, frame: Frame) -> None:
    equal(frame, subject, evaluate(pattern.value, frame))


def _sequence_pattern(pattern: ast.MatchSequence, subject: Value, frame: Frame) -> None:
    for inner in pattern.patterns:
        _pattern(inner, subject.items, frame)


def _or_pattern(pattern: ast.MatchOr, subject: Value, frame: Frame) -> None:
    for inner in pattern.patterns:
        _pattern(inner, subject, frame)


def _mapping_pattern(pattern: ast.MatchMapping, subject: Value, frame: Frame) -> None:
    keys = join(*(evaluate(key, frame) for key in pattern.keys))
    frame.decide(Kind.EQUAL, subject.items.named, keys.texts)
    for inner in pattern.patterns:
        _pattern(inner, subject.mapped or UNSEEN, frame)


def _as_pattern(pattern: ast.MatchAs, subject: Value, frame: Frame) -> None:
    if pattern.pattern is not None:
        _pattern(pattern.pattern, subject, frame)
    if pattern.name is not None:
        frame.bind_name(pattern.name, subject)


def _star_pattern(pattern: ast.MatchStar, subject: Value, frame: Frame) -> None:
    if pattern.name is not None:
        frame.bind_name(pattern.name, collection(subject))


def _class_pattern(pattern: ast.MatchClass, subject: Value, frame: Frame) -> None:
    cls = evaluate(pattern.cls, frame)
    by_class(frame, cls.referred)
    is_text = Imported("builtins.str") in cls.references
    for inner in pattern.patterns:
        _pattern(inner, subject if is_text else UNSEEN, frame)
    for name, inner in zip(pattern.kwd_attrs, pattern.kwd_patterns, strict=True):
        _pattern(inner, attribute(frame, subject, name), frame)


_HANDLERS: dict[type, Callable[[Any, Frame], None]] = {
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _augmented,
    ast.For: _for,
    ast.AsyncFor: _for,
    ast.With: _with,
    ast.AsyncWith: _with,
    ast.Return: _return,
    ast.Import: _import,
    ast.ImportFrom: _import_from,
    ast.FunctionDef: _function,
    ast.AsyncFunctionDef: _function,
    ast.ClassDef: _class,
    ast.Match: _match,
}

_PATTERNS: dict[type, Callable[[Any, Value, Frame], None]] = {
    ast.MatchValue: _value_pattern,
    ast.MatchSequence: _sequence_pattern,
    ast.MatchOr: _or_pattern,
    ast.MatchMapping: _mapping_pattern,
    ast.MatchClass: _class_pattern,
    ast.MatchAs: _as_pattern,
    ast.MatchStar: _star_pattern,
}
