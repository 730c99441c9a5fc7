"""What statements bind to the variables of their scopes."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import Any

from pytest_hierexport._rules.source import fact
from pytest_hierexport._rules.source.calls import Operation, call, run
from pytest_hierexport._rules.source.expressions import assign
from pytest_hierexport._rules.source.fact import NOTHING, Facts
from pytest_hierexport._rules.source.files import imported_module, module_name
from pytest_hierexport._rules.source.program import RETURNED, Class, Function, FunctionNode, Instance, Scope, last_name


def _read_all(nodes: Iterable[ast.AST], scope: Scope) -> None:
    for node in nodes:
        scope.read(node)


def _assignment(node: ast.Assign | ast.AnnAssign | ast.NamedExpr, scope: Scope) -> Facts:
    facts = scope.read(node.value)
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        assign(target, facts, scope)
    return facts


def _augmented(node: ast.AugAssign, scope: Scope) -> Facts:
    assign(node.target, scope.read(ast.BinOp(node.target, node.op, node.value)), scope)
    return NOTHING


def _loop(node: ast.For | ast.AsyncFor, scope: Scope) -> Facts:
    each = fact.items(scope.read(node.iter))
    assign(node.target, each, scope)
    # Within the loop its variables are what this loop makes of them, whatever other loops call by their names.
    inner = scope.inner(node, [node.target])
    assign(node.target, each, inner)
    _read_all([*node.body, *node.orelse], inner)
    return NOTHING


def _return(node: ast.Return | ast.Yield | ast.YieldFrom, scope: Scope) -> Facts:
    facts, home = scope.read(node.value), scope
    while home.own is not None and home.outer is not None:
        home = home.outer
    home.learn(RETURNED, fact.listed(facts) if isinstance(node, ast.Yield) else facts)
    return NOTHING


def _import(node: ast.Import, scope: Scope) -> Facts:
    for alias in node.names:
        dotted = alias.name if alias.asname else alias.name.partition(".")[0]
        scope.bind(alias.asname or dotted, scope.source.external(dotted))
    return NOTHING


def _import_from(node: ast.ImportFrom, scope: Scope) -> Facts:
    home = imported_module(scope.path, node)
    module = scope.source.modules.get(home)
    for alias in node.names:
        dotted = f"{home}.{alias.name}"
        if module is not None and alias.name == "*":
            for name in list(module.variables):
                scope.bind(name, module.get(name) or NOTHING)
        elif module is not None and dotted not in scope.source.modules:
            scope.bind(alias.asname or alias.name, module.get(alias.name) or NOTHING)
        else:
            scope.bind(alias.asname or alias.name, scope.source.external(dotted))
    return NOTHING


def _function(node: FunctionNode, scope: Scope) -> Facts:
    """Bind a function; its defaults and annotations are read where it stands."""
    arguments = node.args
    function = scope.source.once((node, scope), lambda: scope.source.defined(Function(node, scope)))
    parameters = [*arguments.posonlyargs, *arguments.args]
    defaults = [*[None] * (len(parameters) - len(arguments.defaults)), *arguments.defaults, *arguments.kw_defaults]
    for parameter, default in zip((*parameters, *arguments.kwonlyargs), defaults, strict=True):
        classes = (Instance(cls) for cls in fact.atoms(scope.read(parameter.annotation)) if isinstance(cls, Class))
        facts = scope.read(default) | fact.of(*classes)
        if facts or default is not None:
            function.defaults[parameter.arg] = facts
    if not function.is_called:
        function.call((), {})
    if isinstance(node, ast.Lambda):
        return fact.of(function)
    _bind_decorated(node, fact.of(function), scope)
    if any(last_name(decorator) == "register" for decorator in node.decorator_list) and parameters:
        # `functools.singledispatch`
        scope.decide_by_class(parameters[0].annotation or node, scope.read(parameters[0].annotation))
    return NOTHING


def _bind_decorated(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, facts: Facts, scope: Scope) -> None:
    scope.bind(node.name, facts)
    for decorator in node.decorator_list:
        call(Operation(scope, decorator, [facts]), scope.read(decorator))


def _class(node: ast.ClassDef, scope: Scope) -> Facts:
    name = f"{module_name(scope.path)}.{node.name}"
    cls = scope.source.once((node, scope), lambda: Class(scope.source, scope.path, scope, name=name))
    for base in fact.atoms(fact.join(scope.read(base) for base in node.bases)):
        if isinstance(base, Class) and base is not cls:
            cls.bases[base] = base.derived[cls] = None
    _read_all(node.body, cls)
    targets = [s.targets[0] if isinstance(s, ast.Assign) else getattr(s, "target", None) for s in node.body]
    cls.fields = [target.id for target in targets if isinstance(target, ast.Name)]
    facts = fact.of(cls)
    cls.is_enum = any(last_name(base).endswith("Enum") for base in node.bases)
    if cls.is_enum:
        members = fact.join(cls.get(field) or NOTHING for field in cls.fields)
        cls.learn("value", members)
        facts |= fact.listed(fact.of(Instance(cls)))
    _bind_decorated(node, facts, scope)
    return NOTHING


def _match(node: ast.Match, scope: Scope) -> Facts:
    subject = scope.read(node.subject)
    for case in node.cases:
        _pattern(case.pattern, subject, scope)
        scope.read(case.guard)
        _read_all(case.body, scope)
    return NOTHING


def _pattern(pattern: ast.pattern, subject: Facts, scope: Scope) -> None:
    """Record what a pattern decides about the subject of a `match`, and bind what it captures."""
    if isinstance(pattern, ast.MatchValue):
        run(Operation(scope, pattern.value, (subject, scope.read(pattern.value))), "eq")
    elif isinstance(pattern, ast.MatchClass):
        scope.decide_by_class(pattern.cls, scope.read(pattern.cls))
    elif isinstance(pattern, (ast.MatchSequence, ast.MatchOr)):
        for part in pattern.patterns:
            _pattern(part, fact.items(subject) if isinstance(pattern, ast.MatchSequence) else subject, scope)
    elif isinstance(pattern, ast.MatchAs) and pattern.pattern is not None:
        _pattern(pattern.pattern, subject, scope)
    if isinstance(pattern, (ast.MatchAs, ast.MatchStar)) and pattern.name is not None:
        scope.bind(pattern.name, subject)


STATEMENTS: dict[type, Callable[[Any, Scope], Facts]] = {
    ast.Lambda: _function,
    **dict.fromkeys((ast.Assign, ast.AnnAssign, ast.NamedExpr), _assignment),
    ast.AugAssign: _augmented,
    **dict.fromkeys((ast.For, ast.AsyncFor), _loop),
    **dict.fromkeys((ast.Return, ast.Yield, ast.YieldFrom), _return),
    ast.Import: _import,
    ast.ImportFrom: _import_from,
    **dict.fromkeys((ast.FunctionDef, ast.AsyncFunctionDef), _function),
    ast.ClassDef: _class,
    ast.Match: _match,
}
"""What reads a statement, or an expression that binds something, by its type."""
