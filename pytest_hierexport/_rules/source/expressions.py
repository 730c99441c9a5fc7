"""What expressions may be, and the decisions in them."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from pytest_hierexport._rules.source import fact
from pytest_hierexport._rules.source.calls import Operation, attribute, call, grow, run
from pytest_hierexport._rules.source.fact import COMPUTED, GAP, ITEM, NOTHING, VALUE, Facts
from pytest_hierexport._rules.source.program import Scope, last_name

_OPERATORS: dict[type, str] = {
    **dict.fromkeys((ast.Eq, ast.NotEq, ast.Is, ast.IsNot), "eq"),
    **dict.fromkeys((ast.BitAnd, ast.Sub, ast.BitXor), "intersection"),
    ast.Mod: "%",
}
_LONGEST_ROW = 8
"""The most elements of a list or tuple whose positions matter."""


def assign(target: ast.expr, facts: Facts, scope: Scope) -> None:
    """Bind what stands left of `=`, or after `for`."""
    if isinstance(target, ast.Name):
        scope.bind(target.id, facts)
    elif isinstance(target, ast.Attribute):
        base = scope.read(target.value)
        attribute(Operation(scope, target), base, target.attr)
        grow(Operation(scope, target), target, facts)
    elif isinstance(target, ast.Subscript):
        key = scope.read(target.slice)
        grow(Operation(scope, target), target.value, fact.below(ITEM, key) | fact.below(_step(target.slice), facts))
    elif isinstance(target, ast.Starred):
        assign(target.value, fact.listed(fact.items(facts)), scope)
    elif isinstance(target, (ast.Tuple, ast.List)):
        is_row = not any(isinstance(element, ast.Starred) for element in target.elts) and fact.at(facts, *range(9))
        for position, element in enumerate(target.elts):
            each = fact.at(facts, position, ITEM) if is_row else fact.items(facts)
            assign(element, each if isinstance(element, ast.Starred) is False else facts, scope)


def _attribute(node: ast.Attribute, scope: Scope) -> Facts:
    return attribute(Operation(scope, node), scope.read(node.value), node.attr, last_name(node.value))


def _subscript(node: ast.Subscript, scope: Scope) -> Facts:
    base, key = scope.read(node.value), scope.read(node.slice)
    if fact.is_name(base):
        return fact.piece(base)
    if isinstance(node.slice, ast.Slice):
        return _sliced(base, node.slice)
    position = getattr(node.slice, "value", None)
    if isinstance(position, int) and (found := fact.at(base, position)):
        return found
    if isinstance(position, int) or isinstance(node.slice, ast.UnaryOp):
        return fact.items(base) | fact.at(base, VALUE)
    return run(Operation(scope, node, (base, key)), "getitem")


def _sliced(base: Facts, node: ast.Slice) -> Facts:
    try:
        cut = slice(*(ast.literal_eval(part) if part else None for part in (node.lower, node.upper, node.step)))
    except (ValueError, TypeError):
        return base
    texts = (text.replace(COMPUTED, "")[cut] + COMPUTED for text in fact.literals(base))
    return fact.of(*texts) | frozenset(fact for fact in base if fact[0])


def _sequence(node: ast.List | ast.Tuple | ast.Set, scope: Scope) -> Facts:
    found = [fact.items(scope.read(e.value)) if isinstance(e, ast.Starred) else scope.read(e) for e in node.elts]
    if len(found) > _LONGEST_ROW or any(isinstance(element, ast.Starred) for element in node.elts):
        return fact.listed(fact.join(found))
    return (
        fact.join(fact.below(position, each or fact.of(GAP)) for position, each in enumerate(found))
        if any(found)
        else NOTHING
    )


def _dict(node: ast.Dict, scope: Scope) -> Facts:
    found = NOTHING
    for key, value in zip(node.keys, node.values, strict=True):
        at_key, held = scope.read(key), scope.read(value)
        found |= held if key is None else fact.below(ITEM, at_key) | fact.below(_step(key), held)
    return found


def _step(key: ast.expr) -> str:
    """Return the step to what a mapping holds at a key."""
    return key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else VALUE


def _binary(node: ast.BinOp, scope: Scope) -> Facts:
    left, right = scope.read(node.left), scope.read(node.right)
    if type(node.op) in _OPERATORS:
        return run(Operation(scope, node, (left, right)), _OPERATORS[type(node.op)])
    if isinstance(node.op, ast.Add) and not any(path for path, _ in left | right):
        return fact.compose((left, right)) if left or right else NOTHING
    return left | right if isinstance(node.op, (ast.Add, ast.BitOr)) else NOTHING


def _compare(node: ast.Compare, scope: Scope) -> Facts:
    sides = [scope.read(each) for each in (node.left, *node.comparators)]
    for operator, left, right in zip(node.ops, sides[:-1], sides[1:], strict=True):
        if not left and not right:
            continue
        if isinstance(operator, (ast.In, ast.NotIn)):
            run(Operation(scope, node, (right, left)), "contains")
        elif type(operator) in _OPERATORS or any(path for path, _ in left | right):
            # An order of texts decides nothing; one of sets is whether one holds the other.
            run(Operation(scope, node, (left, right)), "eq")
    return NOTHING


def _comprehension(node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, scope: Scope) -> Facts:
    inner = scope.inner(node, [generator.target for generator in node.generators])
    for generator in node.generators:
        assign(generator.target, fact.items(inner.read(generator.iter)), inner)
        for condition in generator.ifs:
            inner.read(condition)
    if isinstance(node, ast.DictComp):
        return fact.below(ITEM, inner.read(node.key)) | fact.below(VALUE, inner.read(node.value))
    return fact.listed(inner.read(node.elt))


def _call(node: ast.Call, scope: Scope) -> Facts:
    callee, called = scope.read(node.func), last_name(node.func)
    args = [fact.items(scope.read(a.value)) if isinstance(a, ast.Starred) else scope.read(a) for a in node.args]
    keywords = {keyword.arg or "**": scope.read(keyword.value) for keyword in node.keywords}
    operation = Operation(scope, node, args, keywords)
    if called == "register" and args:
        scope.decide_by_class(node, args[0])
    return call(operation, callee, called)


EXPRESSIONS: dict[type, Callable[[Any, Scope], Facts]] = {
    ast.Name: lambda node, scope: scope.lookup(node.id),
    ast.Constant: lambda node, _: fact.of(node.value) if isinstance(node.value, str) else NOTHING,
    ast.JoinedStr: lambda node, scope: fact.compose(scope.read(part) for part in node.values),
    ast.FormattedValue: lambda node, scope: run(Operation(scope, node, [scope.read(node.value)]), "str"),
    ast.Attribute: _attribute,
    ast.Subscript: _subscript,
    **dict.fromkeys((ast.List, ast.Tuple, ast.Set), _sequence),
    ast.Dict: _dict,
    ast.BinOp: _binary,
    ast.Compare: _compare,
    **dict.fromkeys((ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp), _comprehension),
    ast.Call: _call,
}
"""What reads an expression, by its type; of any other, all that is in it is read."""
