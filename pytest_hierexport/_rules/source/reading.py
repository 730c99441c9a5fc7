"""From source files to the decisions in them: every statement is read until nothing more is learned.

An analysis that knows scopes and no order: what an expression may be is bound to the variables of its scope, what a
call passes to the parameters of the function, and what that returns to the call.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from pytest_hierexport._rules.source import fact
from pytest_hierexport._rules.source.evidence import last_name, of_parameter
from pytest_hierexport._rules.source.fact import ITEM, NOTHING, VALUE, Facts
from pytest_hierexport._rules.source.files import imported_module, module_name
from pytest_hierexport._rules.source.operations import Operation, attribute, call, run
from pytest_hierexport._rules.source.scopes import RETURNED, Class, Decision, Function, Instance, Scope, Source

_OPERATORS: dict[type, str] = {
    **dict.fromkeys((ast.Eq, ast.NotEq, ast.Is, ast.IsNot), "eq"),
    **dict.fromkeys((ast.BitAnd, ast.Sub, ast.BitXor), "intersection"),
    ast.Mod: "%",
}


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
    source = Source(files)
    source.settle(_read_all)
    first = next(iter(source.modules.values()))
    for function in list(source.functions):
        if function.scope is first and getattr(function.node, "name", "") == entry:
            function.call((), {})
        elif not function.is_called:
            # What callers outside the source pass is judged by the parameters' identifiers and annotations.
            arguments = function.node.args
            parameters = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
            given = {arg.arg: known for arg in parameters if (known := of_parameter(arg))}
            function.call((), given)
    source.settle(_read_all)
    # What decides is told once nothing more is learned.
    source.found.clear()
    source.stale.update(source.bodies)
    source.settle(_read_all)
    found = [
        Decision(path, getattr(node, "lineno", 0), " ".join(ast.unparse(node).split()), check, about, frozenset(texts))
        for (path, node, check, about), texts in source.found.items()
    ]
    return sorted(found, key=lambda d: (str(d.path), d.line, d.code, d.check.name, sorted(k.name for k in d.kinds)))


def read(node: ast.AST | None, scope: Scope) -> Facts:
    """Return what an expression may be, or nothing for a statement, and record the decisions in it."""
    return NOTHING if node is None else _READERS.get(type(node), _any_of)(node, scope)


def _any_of(node: ast.AST, scope: Scope) -> Facts:
    """`a or b`, `await a`, `if a: ...`: any of the expressions in it."""
    return fact.join([read(child, scope) for child in ast.iter_child_nodes(node)])


def _read_all(nodes: Iterable[ast.AST], scope: Scope) -> None:
    for node in nodes:
        read(node, scope)


def _assign(target: ast.AST, facts: Facts, scope: Scope, *, grows: bool = False) -> None:
    """Bind what stands left of `=`, or after `for`; or add to the collection that an expression names."""
    if isinstance(target, ast.Name):
        holder = scope.holder(target.id) if grows else None
        (holder.learn if holder else scope.bind)(target.id, facts)
    elif isinstance(target, ast.Attribute):
        for atom in fact.atoms(read(target.value, scope)):
            if isinstance(atom, (Scope, Instance)):
                (atom.cls if isinstance(atom, Instance) else atom).learn(target.attr, facts)
    elif isinstance(target, ast.Subscript):
        made = fact.below(ITEM, read(target.slice, scope)) | fact.below(_step(target.slice), facts)
        _assign(target.value, made, scope, grows=True)
    elif isinstance(target, ast.Starred):
        _assign(target.value, fact.listed(facts), scope)
    elif isinstance(target, (ast.Tuple, ast.List)):
        is_row = not any(isinstance(element, ast.Starred) for element in target.elts) and fact.at(facts, *range(9))
        for position, element in enumerate(target.elts):
            _assign(element, fact.at(facts, position, ITEM) if is_row else fact.items(facts), scope)


def _subscript(node: ast.Subscript, scope: Scope) -> Facts:
    base, key = read(node.value, scope), read(node.slice, scope)
    if fact.is_name(base):
        return fact.piece(base)
    if isinstance(node.slice, ast.Slice):
        return frozenset(fact for fact in base if fact[0])
    position = getattr(node.slice, "value", None)
    if isinstance(position, int) or isinstance(node.slice, ast.UnaryOp):
        return fact.at(base, position) or fact.items(base) | fact.at(base, VALUE)
    return run(Operation(scope, node, (base, key)), "getitem")


def _sequence(node: ast.List | ast.Tuple | ast.Set, scope: Scope) -> Facts:
    if any(isinstance(element, ast.Starred) for element in node.elts):
        return fact.listed(fact.join(read(element, scope) for element in node.elts))
    return fact.join(fact.below(position, read(element, scope)) for position, element in enumerate(node.elts))


def _dict(node: ast.Dict, scope: Scope) -> Facts:
    found = NOTHING
    for key, value in zip(node.keys, node.values, strict=True):
        at_key, held = read(key, scope), read(value, scope)
        found |= held if key is None else fact.below(ITEM, at_key) | fact.below(_step(key), held)
    return found


def _step(key: ast.expr) -> str:
    """Return the step to what a mapping holds at a key."""
    return key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else VALUE


def _binary(node: ast.BinOp, scope: Scope) -> Facts:
    left, right = read(node.left, scope), read(node.right, scope)
    if type(node.op) in _OPERATORS:
        return run(Operation(scope, node, (left, right)), _OPERATORS[type(node.op)])
    if isinstance(node.op, ast.Add) and not any(path for path, _ in left | right):
        return fact.compose((left, right)) if left or right else NOTHING
    return left | right if isinstance(node.op, (ast.Add, ast.BitOr)) else NOTHING


def _compare(node: ast.Compare, scope: Scope) -> Facts:
    sides = [read(each, scope) for each in (node.left, *node.comparators)]
    for operator, left, right in zip(node.ops, sides[:-1], sides[1:], strict=True):
        if isinstance(operator, (ast.In, ast.NotIn)):
            run(Operation(scope, node, (right, left)), "contains")
        elif type(operator) in _OPERATORS or any(path for path, _ in left | right):
            # An order of texts decides nothing; one of sets is whether one holds the other.
            run(Operation(scope, node, (left, right)), "eq")
    return NOTHING


def _comprehension(node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, scope: Scope) -> Facts:
    inner = scope.inner(node, [generator.target for generator in node.generators])
    for generator in node.generators:
        _assign(generator.target, fact.items(read(generator.iter, inner)), inner)
        _read_all(generator.ifs, inner)
    if isinstance(node, ast.DictComp):
        return fact.mapped(read(node.key, inner), read(node.value, inner))
    return fact.listed(read(node.elt, inner))


def _call(node: ast.Call, scope: Scope) -> Facts:
    callee, called, args = read(node.func, scope), last_name(node.func), [read(arg, scope) for arg in node.args]
    operation = Operation(scope, node, args, {k.arg: read(k.value, scope) for k in node.keywords if k.arg})
    if called in _ADDED and isinstance(node.func, ast.Attribute) and (args or node.keywords):
        _assign(node.func.value, _ADDED[called](operation), scope, grows=True)
    elif called == "register" and args:
        # `functools.singledispatch`
        scope.decide_by_class(node, args[0])
    return call(operation, callee, called)


_ADDED: dict[str, Callable[[Operation], Facts]] = {
    **dict.fromkeys(("append", "add", "appendleft", "insert"), lambda op: fact.listed(fact.join(op.args))),
    **dict.fromkeys(("extend", "update"), lambda op: run(op, "dict")),
    "setdefault": lambda op: fact.mapped(op.arg(0), op.arg(1)),
}
"""What methods add to the collection that they are called on."""


def _assignment(node: ast.Assign | ast.AnnAssign | ast.AugAssign | ast.NamedExpr, scope: Scope) -> Facts:
    facts = read(node.value, scope)
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        _assign(target, facts, scope)
    return facts


def _loop(node: ast.For | ast.AsyncFor, scope: Scope) -> Facts:
    # Within the loop its variables are what this loop makes of them, whatever other loops call by their names.
    inner = scope.inner(node, [node.target])
    _assign(node.target, fact.items(read(node.iter, scope)), inner)
    _read_all([*node.body, *node.orelse], inner)
    return NOTHING


def _return(node: ast.Return | ast.Yield | ast.YieldFrom, scope: Scope) -> Facts:
    facts = read(node.value, scope)
    scope.bind(RETURNED, fact.listed(facts) if isinstance(node, ast.Yield) else facts)
    return NOTHING


def _import(node: ast.Import | ast.ImportFrom, scope: Scope) -> Facts:
    home = f"{imported_module(scope.path, node)}." if isinstance(node, ast.ImportFrom) else ""
    module = scope.source.modules.get(home.removesuffix("."))
    for alias in node.names:
        if module is not None and alias.name == "*":
            for name in list(module.variables):
                scope.bind(name, module.get(name) or NOTHING)
            continue
        dotted = home + (alias.name if home or alias.asname else alias.name.partition(".")[0])
        held = None if module is None or dotted in scope.source.modules else module.get(alias.name) or NOTHING
        scope.bind(alias.asname or dotted.removeprefix(home), scope.source.external(dotted) if held is None else held)
    return NOTHING


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, scope: Scope) -> Facts:
    """Bind a function; its defaults and annotations are read where it stands."""
    arguments = node.args
    function: Function = scope.source.once((node, scope), lambda: Function(node, scope))
    scope.source.functions[function] = None
    parameters = [*arguments.posonlyargs, *arguments.args]
    defaults = [*[None] * (len(parameters) - len(arguments.defaults)), *arguments.defaults, *arguments.kw_defaults]
    for parameter, default in zip((*parameters, *arguments.kwonlyargs), defaults, strict=True):
        annotated = read(parameter.annotation, scope)
        classes = (Instance(cls) for cls in fact.atoms(annotated) if isinstance(cls, Class))
        function.defaults[parameter.arg] = read(default, scope) | fact.of(*classes)
        if "register" in function.decorators and parameter is parameters[0]:
            # `functools.singledispatch`
            scope.decide_by_class(node, annotated)
    if not function.is_called:
        function.call((), {})
    return fact.of(function) if isinstance(node, ast.Lambda) else _decorated(node, fact.of(function), scope)


def _decorated(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, facts: Facts, scope: Scope) -> Facts:
    scope.bind(node.name, facts)
    for decorator in node.decorator_list:
        call(Operation(scope, decorator, [facts]), read(decorator, scope))
    return NOTHING


def _class(node: ast.ClassDef, scope: Scope) -> Facts:
    name = f"{module_name(scope.path)}.{node.name}"
    cls: Class = scope.source.once((node, scope), lambda: Class(scope.source, scope.path, scope, name=name))
    for base in fact.atoms(fact.join(read(base, scope) for base in node.bases)):
        if isinstance(base, Class):
            cls.derive(base)
    _read_all(node.body, cls)
    targets = [s.targets[0] if isinstance(s, ast.Assign) else getattr(s, "target", None) for s in node.body]
    cls.fields = [target.id for target in targets if isinstance(target, ast.Name)]
    return _decorated(node, fact.of(cls), scope)


def _match(node: ast.Match, scope: Scope) -> Facts:
    subject = read(node.subject, scope)
    for case in node.cases:
        for pattern in ast.walk(case.pattern):
            if isinstance(pattern, ast.MatchValue):
                each = subject | (fact.items(subject) if isinstance(case.pattern, ast.MatchSequence) else NOTHING)
                run(Operation(scope, pattern.value, (each, read(pattern.value, scope))), "eq")
            elif isinstance(pattern, ast.MatchClass):
                scope.decide_by_class(pattern.cls, read(pattern.cls, scope))
            elif isinstance(pattern, (ast.MatchAs, ast.MatchStar)) and pattern.name is not None:
                scope.bind(pattern.name, subject)
        read(case.guard, scope)
        _read_all(case.body, scope)
    return NOTHING


_READERS: dict[type, Callable[[Any, Scope], Facts]] = {
    ast.Name: lambda node, scope: scope.lookup(node.id),
    ast.Constant: lambda node, _: fact.of(node.value) if isinstance(node.value, str) else NOTHING,
    ast.JoinedStr: lambda node, scope: fact.compose(read(part, scope) for part in node.values),
    ast.FormattedValue: lambda node, scope: read(node.value, scope),
    ast.Attribute: lambda node, scope: attribute(read(node.value, scope), node.attr, last_name(node.value)),
    ast.Starred: lambda node, scope: fact.items(read(node.value, scope)),
    ast.Subscript: _subscript,
    **dict.fromkeys((ast.List, ast.Tuple, ast.Set), _sequence),
    ast.Dict: _dict,
    ast.BinOp: _binary,
    ast.Compare: _compare,
    **dict.fromkeys((ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp), _comprehension),
    ast.Call: _call,
    ast.Lambda: _function,
    **dict.fromkeys((ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr), _assignment),
    **dict.fromkeys((ast.For, ast.AsyncFor), _loop),
    **dict.fromkeys((ast.Return, ast.Yield, ast.YieldFrom), _return),
    **dict.fromkeys((ast.Import, ast.ImportFrom), _import),
    **dict.fromkeys((ast.FunctionDef, ast.AsyncFunctionDef), _function),
    ast.ClassDef: _class,
    ast.Match: _match,
}
"""What reads a statement or an expression, by its type; of any other, all that is in it is read."""
