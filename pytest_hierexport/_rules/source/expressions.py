"""What expressions may be, and the decisions in them."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from pytest_hierexport._rules.source.operation import Operation
from pytest_hierexport._rules.source.program import RETURNED, Class, Function, FunctionNode, Scope, identifier
from pytest_hierexport._rules.source.values import COMPUTED, ITEM, NOTHING, VALUE, Role, Value, compose, join, texts

__all__ = ["assign", "define", "read", "returned"]

_OPERATORS: dict[type, str] = {
    **dict.fromkeys((ast.Eq, ast.NotEq, ast.Is, ast.IsNot), "eq"),
    **dict.fromkeys((ast.BitAnd, ast.Sub, ast.BitXor), "intersection"),
    ast.Mod: "%",
}


def read(node: ast.expr | None, scope: Scope) -> Value:
    """Return what an expression may be, and record the decisions in it."""
    return NOTHING if node is None else _READERS.get(type(node), _other)(node, scope)


def assign(target: ast.expr, value: Value, scope: Scope) -> None:
    """Bind a value to what stands left of `=`, or after `for`."""
    if isinstance(target, ast.Name):
        scope.bind(target.id, value)
    elif isinstance(target, ast.Attribute):
        for thing in read(target.value, scope).things:
            scope.program.learn(thing, target.attr, value)
    elif isinstance(target, ast.Subscript):
        Operation(scope, target, [read(target.value, scope)]).add(read(target.slice, scope), value)
    elif isinstance(target, ast.Starred):
        assign(target.value, Operation(scope, target).listed(value.each), scope)
    elif isinstance(target, (ast.Tuple, ast.List)):
        row = value.row
        for position, element in enumerate(target.elts):
            assign(element, row[position] if len(row) == len(target.elts) else value.each, scope)


def define(node: FunctionNode, scope: Scope) -> Value:
    """Return the function that a definition gives; its defaults and annotations are read where it stands."""
    arguments, name = node.args, getattr(node, "name", "")
    function = scope.program.once((node, scope), lambda: Function(node=node, scope=scope, name=name))
    parameters = [*arguments.posonlyargs, *arguments.args]
    defaults = [*[None] * (len(parameters) - len(arguments.defaults)), *arguments.defaults, *arguments.kw_defaults]
    for parameter, default in zip((*parameters, *arguments.kwonlyargs), defaults, strict=True):
        classes = (cls for cls in read(parameter.annotation, scope).things if isinstance(cls, Class))
        value = join(read(default, scope), Value.of(*(cls.instance for cls in classes)))
        if value or default is not None:
            scope.program.learn(function, parameter.arg, value)
    if not function.is_called:
        function.activation(node)
    return Value.of(function)


def returned(value: Value, scope: Scope) -> None:
    """Add what the function that a scope is in returns."""
    while scope.outer is not None and scope.outer.function is scope.function:
        scope = scope.outer
    scope.program.learn(scope, RETURNED, value)


def _other(node: ast.expr, scope: Scope) -> Value:
    _any_of(node, scope)
    return NOTHING


def _any_of(node: ast.expr, scope: Scope) -> Value:
    """`a or b`, `await a`: any of the expressions in it."""
    return join(*(read(child, scope) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)))


def _attribute(node: ast.Attribute, scope: Scope) -> Value:
    return Operation(scope, node).attribute(read(node.value, scope), node.attr, identifier(node.value))


def _subscript(node: ast.Subscript, scope: Scope) -> Value:
    base, key = read(node.value, scope), read(node.slice, scope)
    if base.is_name:
        return base.piece
    if isinstance(node.slice, ast.Slice):
        return _sliced(base, node.slice)
    position = getattr(node.slice, "value", None)
    if isinstance(position, int) and position < len(base.row):
        return base.row[position]
    return Operation(scope, node, (base, key)).run("getitem")


def _sliced(base: Value, node: ast.Slice) -> Value:
    try:
        cut = slice(*(ast.literal_eval(part) if part else None for part in (node.lower, node.upper, node.step)))
    except (ValueError, TypeError):
        return base
    return join(texts(*(text[cut] + COMPUTED for text in base.literals)), Value(things=base.things))


def _sequence(node: ast.List | ast.Tuple | ast.Set, scope: Scope) -> Value:
    found = [read(e.value, scope).each if isinstance(e, ast.Starred) else read(e, scope) for e in node.elts]
    is_starred = any(isinstance(element, ast.Starred) for element in node.elts)
    return Operation(scope, node).thing(Role.COLLECTION, {ITEM: join(*found)} if is_starred else dict(enumerate(found)))


def _dict(node: ast.Dict, scope: Scope) -> Value:
    pairs = [(key, read(value, scope)) for key, value in zip(node.keys, node.values, strict=True)]
    own = join(*(value for key, value in pairs if key is not None))
    made = Operation(scope, node).thing(Role.COLLECTION, {ITEM: join(*(read(k, scope) for k in node.keys)), VALUE: own})
    return join(made, *(value for key, value in pairs if key is None))


def _binary(node: ast.BinOp, scope: Scope) -> Value:
    left, right = read(node.left, scope), read(node.right, scope)
    if type(node.op) in _OPERATORS:
        return Operation(scope, node, (left, right)).run(_OPERATORS[type(node.op)])
    if isinstance(node.op, ast.Add) and not join(left, right).has(Role.COLLECTION):
        return compose((left, right))
    return join(left, right) if isinstance(node.op, (ast.Add, ast.BitOr)) else NOTHING


def _choice(node: ast.IfExp, scope: Scope) -> Value:
    read(node.test, scope)
    return join(read(node.body, scope), read(node.orelse, scope))


def _compare(node: ast.Compare, scope: Scope) -> Value:
    values = [read(each, scope) for each in (node.left, *node.comparators)]
    for operator, left, right in zip(node.ops, values[:-1], values[1:], strict=True):
        if isinstance(operator, (ast.In, ast.NotIn)):
            Operation(scope, node, (right, left)).run("contains")
        elif type(operator) in _OPERATORS or left.has(Role.COLLECTION) or right.has(Role.COLLECTION):
            # An order of texts decides nothing; one of sets is whether one holds the other.
            Operation(scope, node, (left, right)).run("eq")
    return NOTHING


def _walrus(node: ast.NamedExpr, scope: Scope) -> Value:
    assign(node.target, value := read(node.value, scope), scope)
    return value


def _comprehension(node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, scope: Scope) -> Value:
    inner = scope.inner(node, scope.function, [generator.target for generator in node.generators])
    for generator in node.generators:
        assign(generator.target, read(generator.iter, inner).each, inner)
        for condition in generator.ifs:
            read(condition, inner)
    made = Operation(scope, node)
    if isinstance(node, ast.DictComp):
        return made.thing(Role.COLLECTION, {ITEM: read(node.key, inner), VALUE: read(node.value, inner)})
    return made.listed(read(node.elt, inner))


def _yield(node: ast.Yield | ast.YieldFrom, scope: Scope) -> Value:
    value = read(node.value, scope)
    returned(value if isinstance(node, ast.YieldFrom) else Operation(scope, node).listed(value), scope)
    return NOTHING


def _call(node: ast.Call, scope: Scope) -> Value:
    callee, called = read(node.func, scope), identifier(node.func)
    args = [read(a.value, scope).each if isinstance(a, ast.Starred) else read(a, scope) for a in node.args]
    keywords = {keyword.arg or "**": read(keyword.value, scope) for keyword in node.keywords}
    operation = Operation(scope, node, args, keywords)
    if called == "register":
        # `functools.singledispatch`
        operation.by_class(operation.arg(0))
    return operation.call(callee, called)


_READERS: dict[type, Callable[[Any, Scope], Value]] = {
    ast.Name: lambda node, scope: scope.lookup(node.id),
    ast.Constant: lambda node, _: texts(node.value) if isinstance(node.value, str) else NOTHING,
    ast.JoinedStr: lambda node, scope: compose(read(part, scope) for part in node.values),
    ast.FormattedValue: lambda node, scope: Operation(scope, node, [read(node.value, scope)]).run("str"),
    ast.Attribute: _attribute,
    ast.Subscript: _subscript,
    **dict.fromkeys((ast.List, ast.Tuple, ast.Set), _sequence),
    **dict.fromkeys((ast.BoolOp, ast.Await), _any_of),
    ast.Dict: _dict,
    ast.BinOp: _binary,
    ast.IfExp: _choice,
    ast.Compare: _compare,
    ast.NamedExpr: _walrus,
    ast.Lambda: define,
    **dict.fromkeys((ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp), _comprehension),
    **dict.fromkeys((ast.Yield, ast.YieldFrom), _yield),
    ast.Call: _call,
}
