"""From source files to the decisions in them: every statement is read until nothing more is learned."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from pytest_hierexport._rules.source.comparing import Site
from pytest_hierexport._rules.source.evidence import is_file, parameter
from pytest_hierexport._rules.source.expressions import assign, read
from pytest_hierexport._rules.source.files import imported_module, module_name, too_deep
from pytest_hierexport._rules.source.patterns import match_pattern
from pytest_hierexport._rules.source.program import ClassInfo, Decision, FunctionInfo, Program, Scope, identifier
from pytest_hierexport._rules.source.values import NOTHING, Dotted, Instance, Kind, Value, join, of_kind

__all__ = ["decisions"]

# Two to five are enough for all but long chains of calls against the order of the files.
_MOST_PASSES = 8


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
    program = Program(files)
    for _ in range(_MOST_PASSES):
        program.changed = False
        for path, tree in program.trees.items():
            try:
                _read_all(tree.body, program.modules[module_name(path)])
            except RecursionError as error:
                raise too_deep(path) from error
        _enter(program.modules[module_name(files[0])], entry)
        if not program.changed:
            break
    return program.decisions


def _enter(module: Scope, entry: str) -> None:
    for ref in module.names.get(entry, NOTHING).refs:
        if isinstance(ref, FunctionInfo) and ref.parameters:
            ref.scope.bind(ref.parameters[0].arg, of_kind(Kind.MODULE))


def _read_all(statements: Iterable[ast.stmt], scope: Scope) -> None:
    for statement in statements:
        handler = _STATEMENTS.get(type(statement), _other)
        handler(statement, scope)


def _other(node: ast.AST, scope: Scope) -> None:
    """Read the expressions and the statements in a node in their order."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            _STATEMENTS.get(type(child), _other)(child, scope)
        elif isinstance(child, ast.expr):
            read(child, scope)
        else:
            _other(child, scope)


def _assignment(node: ast.Assign, scope: Scope) -> None:
    value = read(node.value, scope)
    for target in node.targets:
        assign(target, value, scope)


def _annotated(node: ast.AnnAssign, scope: Scope) -> None:
    assign(node.target, read(node.value, scope), scope)


def _augmented(node: ast.AugAssign, scope: Scope) -> None:
    value = read(ast.copy_location(ast.BinOp(_loaded(node.target), node.op, node.value), node), scope)
    # A text that grows in a loop has no end: what it began with is enough.
    assign(node.target, value if value.holds or value.is_name else read(node.value, scope), scope)


def _loaded(target: ast.expr) -> ast.expr:
    return ast.Name(target.id, ast.Load()) if isinstance(target, ast.Name) else target


def _loop(node: ast.For | ast.AsyncFor, scope: Scope) -> None:
    program, items = scope.program, read(node.iter, scope).each
    assign(node.target, items, scope)
    # Within the loop a variable is what this loop makes of it, whatever other loops call by its name.
    inner = program.scopes.get(node)
    if inner is None:
        inner = program.scopes[node] = scope.inner()
        inner.globals = _bound(node) - _bound(node.target)
    assign(node.target, items, inner)
    _read_all([*node.body, *node.orelse], inner)


def _bound(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def _with(node: ast.With | ast.AsyncWith, scope: Scope) -> None:
    for item in node.items:
        value = read(item.context_expr, scope)
        if item.optional_vars is not None:
            assign(item.optional_vars, value, scope)
    _read_all(node.body, scope)


def _return(node: ast.Return, scope: Scope) -> None:
    value = read(node.value, scope)
    if scope.function is not None:
        scope.program.learn(scope.function.returns, "", value)


def _import(node: ast.Import, scope: Scope) -> None:
    for alias in node.names:
        dotted = alias.name if alias.asname else alias.name.partition(".")[0]
        scope.bind(alias.asname or dotted, Value(refs=frozenset({Dotted(dotted)})))


def _import_from(node: ast.ImportFrom, scope: Scope) -> None:
    home = imported_module(scope.path, node)
    module = scope.program.modules.get(home)
    for alias in node.names:
        found = module.names.get(alias.name) if module is not None else None
        dotted = Value(refs=frozenset({Dotted(f"{home}.{alias.name}")}))
        known = module is None or f"{home}.{alias.name}" in scope.program.modules
        if found is not None or known:
            scope.bind(alias.asname or alias.name, dotted if found is None else found)


def _global(node: ast.Global | ast.Nonlocal, scope: Scope) -> None:
    scope.globals.update(node.names)


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef, scope: Scope) -> None:
    program = scope.program
    info = program.infos.get(node)
    if not isinstance(info, FunctionInfo):
        info = program.infos[node] = FunctionInfo(node, scope.inner(), scope.owner)
        info.scope.function = info
        if scope.owner is not None:
            program.methods.setdefault(node.name, []).append(info)
        _open_parameters(info)
    for decorator in node.decorator_list:
        read(decorator, scope)
    scope.bind(node.name, Value(refs=frozenset({info})))
    _bind_parameters(info, scope)
    _dispatch(info, scope)
    _read_all(node.body, info.scope)


def _open_parameters(info: FunctionInfo) -> None:
    """Let callers outside the source pass what the parameters' identifiers and annotations say."""
    node = info.node
    if isinstance(node, ast.Lambda) or node.name in info.scope.program.called:
        return
    positional = info.parameters
    plain = len(positional) - len(node.args.defaults)
    for position, each in enumerate([*positional, *node.args.kwonlyargs]):
        value = parameter(each.arg, each.annotation, has_default=plain <= position)
        if not (value.is_name and is_file(each.arg, node)):
            info.scope.bind(each.arg, value)


def _bind_parameters(info: FunctionInfo, scope: Scope) -> None:
    arguments = info.node.args
    own = [*arguments.posonlyargs, *arguments.args]
    if info.is_bound and own and info.owner is not None:
        ref = info.owner if info.decorated("classmethod") else Instance(info.owner)
        info.scope.bind(own[0].arg, Value(refs=frozenset({ref})))
    defaults = dict(zip((p.arg for p in reversed(own)), reversed(arguments.defaults), strict=False))
    defaults.update(
        (p.arg, d) for p, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d is not None
    )
    for each in [*info.parameters, *arguments.kwonlyargs]:
        default = read(defaults.get(each.arg), scope)
        info.scope.bind(each.arg, join(default, _instance(each.annotation, scope)))


def _instance(annotation: ast.expr | None, scope: Scope) -> Value:
    if not isinstance(annotation, (ast.Name, ast.Attribute)):
        return NOTHING
    return Value(refs=frozenset(Instance(r) for r in read(annotation, scope).refs if isinstance(r, ClassInfo)))


def _dispatch(info: FunctionInfo, scope: Scope) -> None:
    """`@function.register` of a `functools.singledispatch` takes the class from the first annotation."""
    if info.decorated("register") and info.parameters and info.parameters[0].annotation is not None:
        annotation = info.parameters[0].annotation
        Site(scope, annotation).by_class(read(annotation, scope))


def _class(node: ast.ClassDef, scope: Scope) -> None:
    program = scope.program
    info = program.infos.get(node)
    if not isinstance(info, ClassInfo):
        info = ClassInfo(node, f"{module_name(scope.path)}.{node.name}", scope.inner(is_class=True))
        info.scope.owner = program.infos[node] = info
    bases = [read(base, scope) for base in node.bases]
    info.bases = [ref for base in bases for ref in base.refs if isinstance(ref, ClassInfo)]
    scope.bind(node.name, Value(refs=frozenset({info})))
    _read_all(node.body, info.scope)
    if any(identifier(base).endswith("Enum") for base in node.bases):
        program.learn(info.attributes, "value", join(*(info.scope.names.get(n, NOTHING) for n in info.constants)))
        members = Value(refs=frozenset({Instance(info)}))
        scope.bind(node.name, Value(items=members))


def _match(node: ast.Match, scope: Scope) -> None:
    subject = read(node.subject, scope)
    for case in node.cases:
        match_pattern(case.pattern, subject, scope)
        read(case.guard, scope)
        _read_all(case.body, scope)


_STATEMENTS: dict[type, Callable[[Any, Scope], None]] = {
    ast.Assign: _assignment,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _augmented,
    ast.For: _loop,
    ast.AsyncFor: _loop,
    ast.With: _with,
    ast.AsyncWith: _with,
    ast.Return: _return,
    ast.Import: _import,
    ast.ImportFrom: _import_from,
    ast.Global: _global,
    ast.Nonlocal: _global,
    ast.FunctionDef: _function,
    ast.AsyncFunctionDef: _function,
    ast.ClassDef: _class,
    ast.Match: _match,
}
