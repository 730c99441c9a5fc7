"""From source files to the decisions in them: every statement is read until nothing more is learned.

An analysis that knows scopes and no order: what an expression may be is bound to the variables of its scope, what a
call passes to the parameters of the function, and what that returns to the call.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from pytest_hierexport._rules.source import fact
from pytest_hierexport._rules.source.evidence import of_parameter
from pytest_hierexport._rules.source.expressions import EXPRESSIONS
from pytest_hierexport._rules.source.fact import NOTHING, Facts, Kind
from pytest_hierexport._rules.source.files import too_deep
from pytest_hierexport._rules.source.library import OPERATIONS
from pytest_hierexport._rules.source.program import Decision, Function, Scope, Source
from pytest_hierexport._rules.source.statements import STATEMENTS

_READERS = {**EXPRESSIONS, **STATEMENTS}


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
    source = Source(files, read, OPERATIONS)
    _settle(source)
    first = next(iter(source.modules.values()))
    for function in list(source.functions):
        is_entry = function.scope is first and getattr(function.node, "name", "") == entry
        if is_entry or not function.is_called:
            _open(function, is_entry=is_entry)
    _settle(source)
    return source.decisions


def _settle(source: Source) -> None:
    for scope, body in source.rounds():
        try:
            for statement in body:
                scope.read(statement)
        except RecursionError as error:
            raise too_deep(scope.path) from error


def _open(function: Function, *, is_entry: bool) -> None:
    """Let callers outside the source pass what the parameters' identifiers and annotations say."""
    arguments, given = function.node.args, dict[str, Facts]()
    for arg in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        default = function.defaults.get(arg.arg)
        given[arg.arg] = of_parameter(arg, function.node, has_default=default is not None) | (default or NOTHING)
    if is_entry:
        given.update(zip(function.positional, [fact.of(Kind.MODULE), NOTHING, NOTHING, NOTHING], strict=False))
    function.call((), given)


def read(node: ast.AST | None, scope: Scope) -> Facts:
    """Return what an expression may be, or nothing for a statement, and record the decisions in it."""
    return NOTHING if node is None else _READERS.get(type(node), _any_of)(node, scope)


def _any_of(node: ast.AST, scope: Scope) -> Facts:
    """`a or b`, `await a`, `if a: ...`: any of the expressions in it."""
    return fact.join([scope.read(child) for child in ast.iter_child_nodes(node)])
