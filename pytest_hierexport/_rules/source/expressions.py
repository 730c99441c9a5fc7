"""What expressions may be, and the decisions in them."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import Any

from pytest_hierexport._rules.source.attributes import attribute
from pytest_hierexport._rules.source.calling import Call
from pytest_hierexport._rules.source.comparing import Site
from pytest_hierexport._rules.source.evidence import (
    METHODS,
    from_identifier,
    of_operator,
)
from pytest_hierexport._rules.source.methods import ADDING, added, filled
from pytest_hierexport._rules.source.program import Check, ClassInfo, FunctionInfo, Scope, identifier
from pytest_hierexport._rules.source.values import (
    NOTHING,
    Dotted,
    Instance,
    Kind,
    Value,
    compose,
    join,
    listed,
    mapped,
    of_kind,
    texts,
)

__all__ = ["assign", "read"]

_PLACEHOLDER = re.compile(r"%[-#0 +]*\d*(?:\.\d+)?[a-zA-Z]")
_FIELD = re.compile(r"\{[^{}]*\}")


def read(node: ast.expr | None, scope: Scope) -> Value:
    """Return what an expression may be, and record the decisions in it."""
    if node is None:
        return NOTHING
    reader = _READERS.get(type(node))
    if reader is not None:
        return reader(node, scope)
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            read(child, scope)
    return NOTHING


def assign(target: ast.expr, value: Value, scope: Scope) -> None:
    """Bind a value to what stands left of `=`, or after `for`."""
    if isinstance(target, ast.Name):
        scope.bind(target.id, value)
    elif isinstance(target, ast.Attribute):
        for ref in read(target.value, scope).refs:
            cls = ref.cls if isinstance(ref, Instance) else ref
            if isinstance(cls, ClassInfo):
                scope.program.learn(cls.attributes, target.attr, value)
    elif isinstance(target, ast.Subscript):
        _add(target.value, mapped(read(target.slice, scope), value), scope)
    elif isinstance(target, ast.Starred):
        assign(target.value, listed(value.each), scope)
    elif isinstance(target, (ast.Tuple, ast.List)):
        fits = len(value.fields) == len(target.elts)
        for position, element in enumerate(target.elts):
            assign(element, value.fields[position] if fits else value.each, scope)


def _add(holder: ast.expr, value: Value, scope: Scope) -> None:
    """Add to what a collection holds."""
    if isinstance(holder, ast.Attribute):
        assign(holder, value, scope)
    elif isinstance(holder, ast.Name):
        home: Scope | None = scope
        while home is not None and holder.id not in home.names:
            home = home.outer
        (home or scope).bind(holder.id, value)


def _name(node: ast.Name, scope: Scope) -> Value:
    return scope.lookup(node.id)


def _constant(node: ast.Constant, _: Scope) -> Value:
    if isinstance(node.value, bytes):
        return texts(node.value.decode("latin-1"))
    return texts(node.value) if isinstance(node.value, str) else NOTHING


def _attribute(node: ast.Attribute, scope: Scope) -> Value:
    found = attribute(read(node.value, scope), node.attr, scope, identifier(node.value))
    return Value(texts=found.constants) if found.is_name and of_operator(node.attr) else found


def _subscript(node: ast.Subscript, scope: Scope) -> Value:
    base, key = read(node.value, scope), read(node.slice, scope)
    if base.is_name:
        return base.cut()
    if isinstance(node.slice, ast.Slice):
        return _sliced(base, node.slice)
    if (
        isinstance(node.slice, ast.Constant)
        and isinstance(node.slice.value, int)
        and node.slice.value < len(base.fields)
    ):
        return base.fields[node.slice.value]
    found = Site(scope, node).look_up(base, key)
    named = [value for text in sorted(key.constants) if (value := from_identifier(text)) is not NOTHING]
    return join(found, *named) if found is NOTHING or not found.is_name else found


def _sliced(base: Value, node: ast.Slice) -> Value:
    try:
        cut = slice(*(None if part is None else ast.literal_eval(part) for part in (node.lower, node.upper, node.step)))
        return Value(texts=frozenset(text[cut] for text in base.texts), fields=base.fields[cut], items=base.items)
    except (ValueError, TypeError):
        return base


def _sequence(node: ast.List | ast.Tuple | ast.Set, scope: Scope) -> Value:
    found = [(element, read(element, scope)) for element in node.elts]
    if any(isinstance(element, ast.Starred) for element in node.elts):
        return listed(join(*(v.each if isinstance(element, ast.Starred) else v for element, v in found)))
    return Value(fields=tuple(value for _, value in found))


def _starred(node: ast.Starred | ast.Await, scope: Scope) -> Value:
    return read(node.value, scope)


def _dict(node: ast.Dict, scope: Scope) -> Value:
    found = [
        (read(key, scope) if key else None, read(value, scope))
        for key, value in zip(node.keys, node.values, strict=True)
    ]
    own = [mapped(key, value) for key, value in found if key is not None]
    return join(mapped(NOTHING, NOTHING), *own, *(value for key, value in found if key is None))


def _f_string(node: ast.JoinedStr, scope: Scope) -> Value:
    return compose(read(part, scope) for part in node.values)


def _formatted(node: ast.FormattedValue, scope: Scope) -> Value:
    value = read(node.value, scope)
    return of_kind(Kind.NAME) if value.kinds & {Kind.CLASS, Kind.MODULE} else value


def _binary(node: ast.BinOp, scope: Scope) -> Value:
    left, right = read(node.left, scope), read(node.right, scope)
    if isinstance(node.op, ast.Mod) and left.texts:
        marked = Value(left.kinds, frozenset(_PLACEHOLDER.sub("\1", text) for text in left.texts))
        return filled(marked, list(right.fields or (right,)), "\1")
    if isinstance(node.op, ast.Add) and not (left.holds or right.holds):
        return compose([left, right]) if left != NOTHING or right != NOTHING else NOTHING
    if isinstance(node.op, (ast.BitAnd, ast.Sub, ast.BitXor)):
        Site(scope, node).equal(left, right)
    return join(left, right)


def _any_of(node: ast.BoolOp, scope: Scope) -> Value:
    return join(*(read(value, scope) for value in node.values))


def _choice(node: ast.IfExp, scope: Scope) -> Value:
    read(node.test, scope)
    return join(read(node.body, scope), read(node.orelse, scope))


def _compare(node: ast.Compare, scope: Scope) -> Value:
    left, site = read(node.left, scope), Site(scope, node)
    for operator, comparator in zip(node.ops, node.comparators, strict=True):
        right = read(comparator, scope)
        (site.member if isinstance(operator, (ast.In, ast.NotIn)) else site.equal)(left, right)
        left = right
    return NOTHING


def _walrus(node: ast.NamedExpr, scope: Scope) -> Value:
    value = read(node.value, scope)
    scope.bind(node.target.id, value)
    if scope.outer is not None and scope.function is scope.outer.function:
        scope.outer.bind(node.target.id, value)
    return value


def _function(node: ast.Lambda, scope: Scope) -> Value:
    info = scope.program.infos.get(node)
    if info is None:
        info = scope.program.infos[node] = FunctionInfo(node, scope.inner(), None)
        info.scope.function = info
    return Value(refs=frozenset({info}))


def _comprehension(node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, scope: Scope) -> Value:
    # Called with other arguments, a function of one expression has other values in it.
    inner = scope.inner() if scope.depth else scope.program.scopes.setdefault(node, scope.inner())
    for generator in node.generators:
        assign(generator.target, read(generator.iter, inner).each, inner)
        for condition in generator.ifs:
            read(condition, inner)
    if isinstance(node, ast.DictComp):
        return mapped(read(node.key, inner), read(node.value, inner))
    return listed(read(node.elt, inner))


def _yield(node: ast.Yield | ast.YieldFrom, scope: Scope) -> Value:
    value = read(node.value, scope)
    if scope.function is not None:
        given = listed(value.each if isinstance(node, ast.YieldFrom) else value)
        scope.program.learn(scope.function.returns, "", given)
    return NOTHING


def _call(node: ast.Call, scope: Scope) -> Value:
    func = node.func
    receiver = read(func.value, scope) if isinstance(func, ast.Attribute) else NOTHING
    args = [read(arg.value, scope).each if isinstance(arg, ast.Starred) else read(arg, scope) for arg in node.args]
    keywords = {keyword.arg: read(keyword.value, scope) for keyword in node.keywords if keyword.arg is not None}
    call = Call(Site(scope, node), read, args, keywords)
    name = identifier(func)
    if isinstance(func, ast.Attribute):
        _decide_by_method(call, name)
        if name in ADDING and not receiver.refs:
            _add(func.value, added(name, [*args, mapped(texts(*keywords), NOTHING)] if keywords else args), scope)
        callee = attribute(receiver, name, scope, identifier(func.value))
        if name in METHODS and not any(isinstance(ref, FunctionInfo) for ref in callee.refs):
            return METHODS[name]
        if name in {"group", "groups", "get"} and not callee.refs and (receiver.is_name or args):
            return receiver.cut() if receiver.is_name else _item_named(args[0])
    else:
        callee = read(func, scope)
    if callee.is_name and not callee.refs:
        return callee
    special = _SPECIAL.get(name) if all(isinstance(ref, Dotted) for ref in callee.refs) else None
    return call.of(callee, name) if special is None or not callee.refs else special(call, scope)


def _item_named(key: Value) -> Value:
    return join(*(from_identifier(text) for text in sorted(key.constants)))


def _decide_by_method(call: Call, name: str) -> None:
    if name in {"get_submodule", "get_parameter", "get_buffer", "_get_name"}:
        call.site.decide(Check.ATTRIBUTE, frozenset({Kind.NAME}), call.arg(0, "target").constants)
    elif name == "register":
        # `functools.singledispatch`
        call.site.by_class(call.first)


def _getattr(call: Call, scope: Scope) -> Value:
    owner, key = call.first, call.arg(1)
    if Kind.MODULE in owner.kinds:
        call.site.decide(Check.ATTRIBUTE, frozenset({Kind.NAME}), key.constants)
    call.site.by_member(owner, key)
    return join(*(attribute(owner, attr, scope) for attr in sorted(key.constants)), call.arg(2))


def _globals(_: Call, scope: Scope) -> Value:
    module = scope
    while module.outer is not None:
        module = module.outer
    return mapped(texts(*module.names), NOTHING)


_SPECIAL: dict[str, Callable[[Call, Scope], Value]] = {
    **dict.fromkeys(("getattr", "hasattr", "getattr_static"), _getattr),
    "globals": _globals,
}
_READERS: dict[type, Callable[[Any, Scope], Value]] = {
    ast.Name: _name,
    ast.Constant: _constant,
    ast.Attribute: _attribute,
    ast.Subscript: _subscript,
    ast.List: _sequence,
    ast.Tuple: _sequence,
    ast.Set: _sequence,
    ast.Starred: _starred,
    ast.Await: _starred,
    ast.Dict: _dict,
    ast.JoinedStr: _f_string,
    ast.FormattedValue: _formatted,
    ast.BinOp: _binary,
    ast.BoolOp: _any_of,
    ast.IfExp: _choice,
    ast.Compare: _compare,
    ast.NamedExpr: _walrus,
    ast.Lambda: _function,
    ast.ListComp: _comprehension,
    ast.SetComp: _comprehension,
    ast.GeneratorExp: _comprehension,
    ast.DictComp: _comprehension,
    ast.Yield: _yield,
    ast.YieldFrom: _yield,
    ast.Call: _call,
}
