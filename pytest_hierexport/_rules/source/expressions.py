"""What an expression yields."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from typing import Any

from pytest_hierexport._rules.source.calling import apply
from pytest_hierexport._rules.source.comparing import equal, member
from pytest_hierexport._rules.source.methods import MUTATORS, call_method, put
from pytest_hierexport._rules.source.reading import attribute, identifier, item
from pytest_hierexport._rules.source.references import Class, Function, Instance
from pytest_hierexport._rules.source.state import Arguments, Frame, Store
from pytest_hierexport._rules.source.subjects import METHODS, is_subject
from pytest_hierexport._rules.source.values import (
    NAME,
    NOTHING,
    UNSEEN,
    Value,
    collection,
    constant,
    join,
    mapping,
    pair,
    refers,
    text,
)

__all__ = ["assign", "evaluate"]


def evaluate(node: ast.expr, frame: Frame) -> Value:
    """Return what an expression may yield, and note the decisions in it."""
    handler = _HANDLERS.get(type(node))
    if handler is None:
        return NOTHING
    before, frame.at = frame.at, node
    try:
        return handler(node, frame)
    finally:
        frame.at = before


def assign(target: ast.expr, value: Value, frame: Frame) -> None:
    """Bind what is assigned to a target; an unseen value bound to an identifier of names is one."""
    if isinstance(target, ast.Name):
        frame.bind_name(target.id, join(value, NAME) if _seems_name(target.id, value) else value)
    elif isinstance(target, ast.Attribute):
        owners = [r.number for r in evaluate(target.value, frame).references if isinstance(r, (Class, Instance))]
        for owner in owners or ("",):
            frame.state.learn_attribute(owner, target.attr, value)
    elif isinstance(target, ast.Subscript):
        assign_into(target.value, mapping(evaluate(target.slice, frame), value), frame)
    elif isinstance(target, ast.Starred):
        assign(target.value, collection(value), frame)
    elif isinstance(target, (ast.Tuple, ast.List)):
        starred = any(isinstance(element, ast.Starred) for element in target.elts)
        matches = len(value.fields) == len(target.elts) and not starred
        for position, element in enumerate(target.elts):
            assign(element, value.fields[position] if matches else value.items, frame)


def assign_into(holder: ast.expr, value: Value, frame: Frame) -> None:
    """Add to what a collection holds."""
    value = replace(value, unseen=False)
    if isinstance(holder, ast.Name):
        frame.defining(holder.id).bind_name(holder.id, value)
    elif isinstance(holder, ast.Attribute):
        assign(holder, value, frame)


def _seems_name(name: str, value: Value) -> bool:
    return value.unseen and not value.strings and not value.named and not value.apart and is_subject(name)


def _constant(node: ast.Constant, _: Frame) -> Value:
    if isinstance(node.value, bytes):
        return constant(node.value.decode("latin-1"))
    return constant(node.value) if isinstance(node.value, str) else NOTHING


def _name(node: ast.Name, frame: Frame) -> Value:
    return frame.lookup(node.id)


def _attribute(node: ast.Attribute, frame: Frame) -> Value:
    return attribute(frame, evaluate(node.value, frame), node.attr, identifier(node.value))


def _subscript(node: ast.Subscript, frame: Frame) -> Value:
    return item(frame, evaluate(node.value, frame), evaluate(node.slice, frame), node.slice)


def _slice(node: ast.Slice, frame: Frame) -> Value:
    for part in (node.lower, node.upper, node.step):
        if part is not None:
            evaluate(part, frame)
    return NOTHING


def _sequence(node: ast.List | ast.Tuple | ast.Set, frame: Frame) -> Value:
    if isinstance(node, ast.Set) or any(isinstance(element, ast.Starred) for element in node.elts):
        return collection(join(*(_spread(element, frame) for element in node.elts)))
    return pair(*(evaluate(element, frame) for element in node.elts))


def _spread(node: ast.expr, frame: Frame) -> Value:
    value = evaluate(node.value if isinstance(node, ast.Starred) else node, frame)
    return value.items if isinstance(node, ast.Starred) else value


def _dict(node: ast.Dict, frame: Frame) -> Value:
    keys = [evaluate(key, frame) for key in node.keys if key is not None]
    values = [(key, evaluate(value, frame)) for key, value in zip(node.keys, node.values, strict=True)]
    own = mapping(join(*keys), join(*(value for key, value in values if key is not None)))
    return join(own, *(value for key, value in values if key is None))


def _joined_text(node: ast.JoinedStr, frame: Frame) -> Value:
    parts = [evaluate(value, frame) for value in node.values]
    return _concatenated(parts, frame)


def _formatted(node: ast.FormattedValue, frame: Frame) -> Value:
    value = evaluate(node.value, frame)
    return NAME if value.module or value.type else value


def _concatenated(parts: list[Value], frame: Frame) -> Value:
    level = max((part.named for part in parts), default=NOTHING.name)
    if level:
        return text(level)
    folded = map("".join, product(*(sorted(part.strings) for part in parts)))
    return Value(strings=frame.state.fold(frame.at, folded))


def _binary(node: ast.BinOp, frame: Frame) -> Value:
    left, right = evaluate(node.left, frame), evaluate(node.right, frame)
    if isinstance(node.op, ast.Add) and left.strings and right.strings:
        return _concatenated([left, right], frame)
    if isinstance(node.op, ast.Mod):
        level = max(left.named, right.named)
        return text(level) if level else Value(strings=frame.state.fold(frame.at, _percent(left, right)))
    if isinstance(node.op, (ast.BitAnd, ast.Sub, ast.BitXor)):
        equal(frame, left, right)
    return join(left, right)


def _percent(template: Value, values: Value) -> Iterator[str]:
    choices = [sorted(value.strings) for value in values.fields or (values,)]
    for pattern, *chosen in product(sorted(template.strings), *choices):
        try:
            yield pattern % tuple(chosen)
        except (TypeError, ValueError):
            yield pattern


def _bool(node: ast.BoolOp, frame: Frame) -> Value:
    return join(*(evaluate(value, frame) for value in node.values))


def _choice(node: ast.IfExp, frame: Frame) -> Value:
    evaluate(node.test, frame)
    return join(evaluate(node.body, frame), evaluate(node.orelse, frame))


def _compare(node: ast.Compare, frame: Frame) -> Value:
    left = evaluate(node.left, frame)
    for operator, comparator in zip(node.ops, node.comparators, strict=True):
        right = evaluate(comparator, frame)
        if isinstance(operator, (ast.In, ast.NotIn)):
            member(frame, left, right)
        else:
            equal(frame, left, right)
        left = right
    return NOTHING


def _walrus(node: ast.NamedExpr, frame: Frame) -> Value:
    value = evaluate(node.value, frame)
    assign(node.target, value, frame)
    return value


def _lambda(node: ast.Lambda, frame: Frame) -> Value:
    return refers(Function(frame.state.program.numbers[node]))


def _comprehension(node: ast.ListComp | ast.SetComp | ast.GeneratorExp, frame: Frame) -> Value:
    _generators(node.generators, frame)
    return collection(evaluate(node.elt, frame))


def _dict_comprehension(node: ast.DictComp, frame: Frame) -> Value:
    _generators(node.generators, frame)
    return mapping(evaluate(node.key, frame), evaluate(node.value, frame))


def _generators(generators: list[ast.comprehension], frame: Frame) -> None:
    for generator in generators:
        assign(generator.target, evaluate(generator.iter, frame).items, frame)
        for condition in generator.ifs:
            evaluate(condition, frame)


def _yield(node: ast.Yield, frame: Frame) -> Value:
    value = evaluate(node.value, frame) if node.value is not None else NOTHING
    _returned(frame, collection(value))
    return UNSEEN


def _yield_from(node: ast.YieldFrom, frame: Frame) -> Value:
    _returned(frame, collection(evaluate(node.value, frame).items))
    return UNSEEN


def _returned(frame: Frame, value: Value) -> None:
    if frame.function is not None:
        frame.state.learn((Store.RETURN, frame.function, ""), value)


def _inner(node: ast.Starred | ast.Await, frame: Frame) -> Value:
    return evaluate(node.value, frame)


def _call(node: ast.Call, frame: Frame) -> Value:
    if isinstance(node.func, ast.Attribute):
        return _call_attribute(node, node.func, frame)
    callee = evaluate(node.func, frame)
    return apply(frame, callee, _arguments(node, frame), identifier(node.func))


def _call_attribute(node: ast.Call, func: ast.Attribute, frame: Frame) -> Value:
    receiver = evaluate(func.value, frame)
    args = _arguments(node, frame)
    if func.attr in MUTATORS and not receiver.module:
        assign_into(func.value, put(NOTHING, func.attr, args), frame)
    callee = attribute(frame, receiver, func.attr, identifier(func.value), called=True)
    known = bool(callee.references)
    # Which class an unknown object is of is a guess by the method's name: good enough for what is sure.
    given = args if receiver.references else args.sure()
    results = [apply(frame, callee, given, func.attr)] if known else []
    built_in = call_method(frame, receiver, func.attr, args)
    if built_in is not None and not (known and func.attr not in METHODS and not receiver.named):
        results.append(built_in)
    elif not known:
        results.append(NAME if is_subject(func.attr) else UNSEEN)
    return join(*results)


def _arguments(node: ast.Call, frame: Frame) -> Arguments:
    positional = [evaluate(arg, frame) for arg in node.args if not isinstance(arg, ast.Starred)]
    keywords = {keyword.arg: evaluate(keyword.value, frame) for keyword in node.keywords if keyword.arg is not None}
    rest = [evaluate(arg.value, frame).items for arg in node.args if isinstance(arg, ast.Starred)]
    spread = [evaluate(keyword.value, frame) for keyword in node.keywords if keyword.arg is None]
    rest += [value.mapped for value in spread if value.mapped is not None]
    return Arguments(tuple(positional), keywords, join(*rest))


_HANDLERS: dict[type, Callable[[Any, Frame], Value]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Subscript: _subscript,
    ast.Slice: _slice,
    ast.List: _sequence,
    ast.Tuple: _sequence,
    ast.Set: _sequence,
    ast.Dict: _dict,
    ast.JoinedStr: _joined_text,
    ast.FormattedValue: _formatted,
    ast.BinOp: _binary,
    ast.BoolOp: _bool,
    ast.IfExp: _choice,
    ast.Compare: _compare,
    ast.NamedExpr: _walrus,
    ast.Lambda: _lambda,
    ast.ListComp: _comprehension,
    ast.SetComp: _comprehension,
    ast.GeneratorExp: _comprehension,
    ast.DictComp: _dict_comprehension,
    ast.Yield: _yield,
    ast.YieldFrom: _yield_from,
    ast.Starred: _inner,
    ast.Await: _inner,
    ast.Call: _call,
    ast.UnaryOp: lambda node, frame: (evaluate(node.operand, frame), NOTHING)[1],
}
