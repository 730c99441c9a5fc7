"""From source files to the decisions in them: every statement is read until nothing more is learned.

A flow-insensitive analysis (0-CFA over fields, small functions by call site): what an expression may be is bound to the
variables of its scope, what a call passes to the parameters of the function, and what that returns to the call.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from pytest_hierexport._rules.source.evidence import parameter
from pytest_hierexport._rules.source.expressions import assign, define, read, returned
from pytest_hierexport._rules.source.files import imported_module, module_name, too_deep
from pytest_hierexport._rules.source.library import OPERATIONS
from pytest_hierexport._rules.source.operation import Operation
from pytest_hierexport._rules.source.program import (
    BASES,
    DERIVED,
    Class,
    Decision,
    Function,
    Program,
    Scope,
    identifier,
)
from pytest_hierexport._rules.source.values import (
    ITEM,
    NOTHING,
    Kind,
    Role,
    Thing,
    Value,
    join,
)

__all__ = ["decisions"]


@lru_cache(maxsize=8)
def decisions(files: tuple[Path, ...], entry: str = "") -> Sequence[Decision]:
    """Return every place in the files where constants decide something about a name of a model.

    Which of the constants are names of the model under test is not known here, so that one pass over the source serves
    every model.

    Args:
        files: The source, the exporter's own file first.
        entry: The function in it that is called as `function(model, args, kwargs, path)`.

    Raises:
        UsageError: A file cannot be read, is no Python, or nests too deeply.
    """
    program = Program(files, OPERATIONS)
    _settle(program)
    first = next(iter(program.modules.values()))
    for function in list(program.functions):
        _open(function, is_entry=function.scope is first and function.name == entry)
    _settle(program)
    return program.decisions


def _settle(program: Program) -> None:
    for scope, body in program.passes():
        try:
            _read_all(body, scope)
        except RecursionError as error:
            raise too_deep(scope.path) from error


def _open(function: Function, *, is_entry: bool) -> None:
    """Let callers outside the source pass what the parameters' identifiers and annotations say."""
    if function.is_called and not is_entry:
        return
    scope, node, positional = function.activation(function.node), function.node, function.positional
    given = [Value.of(Kind.MODULE), NOTHING, NOTHING, NOTHING] if is_entry else []
    for position, each in enumerate([*positional, *node.args.kwonlyargs]):
        default = function.get(each.arg)
        found = given[position] if position < len(given) else parameter(each, node, has_default=default is not None)
        scope.bind(each.arg, join(found, default or NOTHING))


def _read_all(statements: Iterable[ast.stmt], scope: Scope) -> None:
    for statement in statements:
        _STATEMENTS.get(type(statement), _other)(statement, scope)


def _other(node: ast.AST, scope: Scope) -> None:
    """Read the expressions and the statements in a node in their order."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            read(child, scope)
        else:
            _STATEMENTS.get(type(child), _other)(child, scope)


def _assignment(node: ast.Assign | ast.AnnAssign, scope: Scope) -> None:
    value = read(node.value, scope)
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        assign(target, value, scope)


def _augmented(node: ast.AugAssign, scope: Scope) -> None:
    assign(node.target, read(ast.BinOp(node.target, node.op, node.value), scope), scope)


def _loop(node: ast.For | ast.AsyncFor, scope: Scope) -> None:
    items = read(node.iter, scope).each
    assign(node.target, items, scope)
    # Within the loop its variables are what this loop makes of them, whatever other loops call by their names.
    inner = scope.inner(node, scope.function, [node.target])
    assign(node.target, items, inner)
    _read_all([*node.body, *node.orelse], inner)


def _with(node: ast.With | ast.AsyncWith, scope: Scope) -> None:
    for item in node.items:
        value = read(item.context_expr, scope)
        if item.optional_vars is not None:
            assign(item.optional_vars, value, scope)
    _read_all(node.body, scope)


def _return(node: ast.Return, scope: Scope) -> None:
    returned(read(node.value, scope), scope)


def _import(node: ast.Import, scope: Scope) -> None:
    for alias in node.names:
        dotted = alias.name if alias.asname else alias.name.partition(".")[0]
        scope.bind(alias.asname or dotted, scope.program.external(dotted))


def _import_from(node: ast.ImportFrom, scope: Scope) -> None:
    home = imported_module(scope.path, node)
    module = scope.program.modules.get(home)
    for alias in node.names:
        if module is not None and alias.name == "*":
            for name, value in module.fields.items():
                scope.bind(str(name), value)
        elif module is not None and (found := module.get(alias.name)) is not None:
            scope.bind(alias.asname or alias.name, found)
        elif module is None or f"{home}.{alias.name}" in scope.program.modules:
            scope.bind(alias.asname or alias.name, scope.program.external(f"{home}.{alias.name}"))


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef, scope: Scope) -> None:
    _bind_decorated(node, define(node, scope), scope)
    first = node.args.args[0].annotation if node.args.args else None
    if first is not None and any(identifier(decorator) == "register" for decorator in node.decorator_list):
        Operation(scope, first).by_class(read(first, scope))


def _bind_decorated(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, value: Value, scope: Scope) -> None:
    scope.bind(node.name, value)
    for decorator in node.decorator_list:
        Operation(scope, decorator, [value]).call(read(decorator, scope))


def _class(node: ast.ClassDef, scope: Scope) -> None:
    program = scope.program
    instance = program.once((node, scope, Role.INSTANCE), lambda: Thing(Role.INSTANCE))
    name = f"{module_name(scope.path)}.{node.name}"
    cls = program.once(
        (node, scope),
        lambda: Class(name=name, program=program, path=scope.path, outer=scope, node=node, instance=instance),
    )
    program.learn(instance, "__class__", Value.of(cls))
    _bind_decorated(node, Value.of(cls), scope)
    for base in join(*(read(base, scope) for base in node.bases)).things:
        if isinstance(base, Class) and base is not cls:
            program.learn(cls, BASES, Value.of(base))
            program.learn(base, DERIVED, Value.of(cls))
    _read_all(node.body, cls)
    if any(identifier(base).endswith("Enum") for base in node.bases):
        program.learn(cls.instance, "value", join(*(cls.get(name) or NOTHING for name in cls.constants)))
        program.learn(cls, ITEM, Value.of(cls.instance))


def _match(node: ast.Match, scope: Scope) -> None:
    subject = read(node.subject, scope)
    for case in node.cases:
        _pattern(case.pattern, subject, scope)
        read(case.guard, scope)
        _read_all(case.body, scope)


def _pattern(pattern: ast.pattern, subject: Value, scope: Scope) -> None:
    """Record what a pattern decides about the subject of a `match`, and bind what it captures."""
    if isinstance(pattern, ast.MatchValue):
        Operation(scope, pattern.value, (subject, read(pattern.value, scope))).run("eq")
    elif isinstance(pattern, ast.MatchClass):
        Operation(scope, pattern.cls).by_class(read(pattern.cls, scope))
        for attr, part in zip(pattern.kwd_attrs, pattern.kwd_patterns, strict=True):
            _pattern(part, Operation(scope, pattern.cls).attribute(subject, attr), scope)
    elif isinstance(pattern, (ast.MatchSequence, ast.MatchOr)):
        for part in pattern.patterns:
            _pattern(part, subject.each if isinstance(pattern, ast.MatchSequence) else subject, scope)
    elif isinstance(pattern, ast.MatchAs) and pattern.pattern is not None:
        _pattern(pattern.pattern, subject, scope)
    if isinstance(pattern, (ast.MatchAs, ast.MatchStar)) and pattern.name is not None:
        scope.bind(pattern.name, subject)


_STATEMENTS: dict[type, Callable[[Any, Scope], None]] = {
    **dict.fromkeys((ast.Assign, ast.AnnAssign), _assignment),
    ast.AugAssign: _augmented,
    **dict.fromkeys((ast.For, ast.AsyncFor), _loop),
    **dict.fromkeys((ast.With, ast.AsyncWith), _with),
    ast.Return: _return,
    ast.Import: _import,
    ast.ImportFrom: _import_from,
    **dict.fromkeys((ast.Global, ast.Nonlocal), lambda node, scope: scope.elsewhere.update(node.names)),
    **dict.fromkeys((ast.FunctionDef, ast.AsyncFunctionDef), _function),
    ast.ClassDef: _class,
    ast.Match: _match,
}
