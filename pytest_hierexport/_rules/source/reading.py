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

from pytest_hierexport._rules.source.calls import Operation, attribute, call, grow, run
from pytest_hierexport._rules.source.evidence import of_parameter
from pytest_hierexport._rules.source.facts import (
    COMPUTED,
    GAP,
    ITEM,
    NOTHING,
    VALUE,
    Facts,
    Kind,
    at,
    atoms,
    below,
    compose,
    constants,
    is_name,
    items,
    join,
    listed,
    literals,
    of,
    piece,
)
from pytest_hierexport._rules.source.files import imported_module, module_name, too_deep
from pytest_hierexport._rules.source.program import (
    RETURNED,
    Class,
    Decision,
    Function,
    FunctionNode,
    Instance,
    Scope,
    Source,
    last_name,
)

__all__ = ["decisions"]

_OPERATORS: dict[type, str] = {
    **dict.fromkeys((ast.Eq, ast.NotEq, ast.Is, ast.IsNot), "eq"),
    **dict.fromkeys((ast.BitAnd, ast.Sub, ast.BitXor), "intersection"),
    ast.Mod: "%",
}
_LONGEST_ROW = 8
"""The most elements of a list or tuple whose positions matter."""


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
    source = Source(files, read)
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
                read(statement, scope)
        except RecursionError as error:
            raise too_deep(scope.path) from error


def _open(function: Function, *, is_entry: bool) -> None:
    """Let callers outside the source pass what the parameters' identifiers and annotations say."""
    arguments, given = function.node.args, dict[str, Facts]()
    for arg in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        default = function.defaults.get(arg.arg)
        given[arg.arg] = of_parameter(arg, function.node, has_default=default is not None) | (default or NOTHING)
    if is_entry:
        given.update(zip(function.positional, [of(Kind.MODULE), NOTHING, NOTHING, NOTHING], strict=False))
    function.call((), given)


def read(node: ast.AST | None, scope: Scope) -> Facts:
    """Return what an expression may be, or nothing for a statement, and record the decisions in it."""
    return NOTHING if node is None else _READERS.get(type(node), _any_of)(node, scope)


def _any_of(node: ast.AST, scope: Scope) -> Facts:
    """`a or b`, `await a`, `if a: ...`: any of the expressions in it."""
    return join([read(child, scope) for child in ast.iter_child_nodes(node)])


def _read_all(nodes: Iterable[ast.AST], scope: Scope) -> None:
    for node in nodes:
        read(node, scope)


def _nothing(node: ast.AST, scope: Scope) -> Facts:
    _any_of(node, scope)
    return NOTHING


def _assign(target: ast.expr, facts: Facts, scope: Scope) -> None:
    """Bind what stands left of `=`, or after `for`."""
    if isinstance(target, ast.Name):
        scope.bind(target.id, facts)
    elif isinstance(target, ast.Attribute):
        base = read(target.value, scope)
        attribute(Operation(scope, target), base, target.attr)
        grow(Operation(scope, target), target, facts)
    elif isinstance(target, ast.Subscript):
        key = read(target.slice, scope)
        grow(Operation(scope, target), target.value, below(ITEM, key) | below(_step(target.slice), facts))
    elif isinstance(target, ast.Starred):
        _assign(target.value, listed(items(facts)), scope)
    elif isinstance(target, (ast.Tuple, ast.List)):
        is_row = not any(isinstance(element, ast.Starred) for element in target.elts) and at(facts, *range(9))
        for position, element in enumerate(target.elts):
            each = at(facts, position, ITEM) if is_row else items(facts)
            _assign(element, each if isinstance(element, ast.Starred) is False else facts, scope)


def _assignment(node: ast.Assign | ast.AnnAssign | ast.NamedExpr, scope: Scope) -> Facts:
    facts = read(node.value, scope)
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        _assign(target, facts, scope)
    return facts


def _augmented(node: ast.AugAssign, scope: Scope) -> Facts:
    _assign(node.target, read(ast.BinOp(node.target, node.op, node.value), scope), scope)
    return NOTHING


def _loop(node: ast.For | ast.AsyncFor, scope: Scope) -> Facts:
    each = items(read(node.iter, scope))
    _assign(node.target, each, scope)
    # Within the loop its variables are what this loop makes of them, whatever other loops call by their names.
    inner = scope.inner(node, [node.target])
    _assign(node.target, each, inner)
    _read_all([*node.body, *node.orelse], inner)
    return NOTHING


def _with_item(node: ast.withitem, scope: Scope) -> Facts:
    facts = read(node.context_expr, scope)
    if node.optional_vars is not None:
        _assign(node.optional_vars, facts, scope)
    return NOTHING


def _return(node: ast.Return | ast.Yield | ast.YieldFrom, scope: Scope) -> Facts:
    facts, home = read(node.value, scope), scope
    while home.own is not None and home.outer is not None:
        home = home.outer
    home.learn(RETURNED, listed(facts) if isinstance(node, ast.Yield) else facts)
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
        classes = (Instance(cls) for cls in atoms(read(parameter.annotation, scope)) if isinstance(cls, Class))
        facts = read(default, scope) | of(*classes)
        if facts or default is not None:
            function.defaults[parameter.arg] = facts
    if not function.is_called:
        function.call((), {})
    if isinstance(node, ast.Lambda):
        return of(function)
    _bind_decorated(node, of(function), scope)
    if any(last_name(decorator) == "register" for decorator in node.decorator_list) and parameters:
        # `functools.singledispatch`
        scope.decide_by_class(parameters[0].annotation or node, read(parameters[0].annotation, scope))
    return NOTHING


def _bind_decorated(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, facts: Facts, scope: Scope) -> None:
    scope.bind(node.name, facts)
    for decorator in node.decorator_list:
        call(Operation(scope, decorator, [facts]), read(decorator, scope))


def _class(node: ast.ClassDef, scope: Scope) -> Facts:
    name = f"{module_name(scope.path)}.{node.name}"
    cls = scope.source.once((node, scope), lambda: Class(scope.source, scope.path, scope, name=name))
    for base in atoms(join(read(base, scope) for base in node.bases)):
        if isinstance(base, Class) and base is not cls:
            cls.bases[base] = base.derived[cls] = None
            keywords = {keyword.arg or "**": read(keyword.value, scope) for keyword in node.keywords}
            call(Operation(scope, node, keywords=keywords), base.member("__init_subclass__"))
    _read_all(node.body, cls)
    targets = [s.targets[0] if isinstance(s, ast.Assign) else getattr(s, "target", None) for s in node.body]
    cls.fields = [target.id for target in targets if isinstance(target, ast.Name)]
    facts = of(cls)
    cls.is_enum = any(last_name(base).endswith("Enum") for base in node.bases)
    if cls.is_enum:
        members = join(cls.get(field) or NOTHING for field in cls.fields)
        cls.learn("value", members)
        facts |= listed(of(Instance(cls)))
    _bind_decorated(node, facts, scope)
    return NOTHING


def _match(node: ast.Match, scope: Scope) -> Facts:
    subject = read(node.subject, scope)
    for case in node.cases:
        _pattern(case.pattern, subject, scope)
        read(case.guard, scope)
        _read_all(case.body, scope)
    return NOTHING


def _pattern(pattern: ast.pattern, subject: Facts, scope: Scope) -> None:
    """Record what a pattern decides about the subject of a `match`, and bind what it captures."""
    if isinstance(pattern, ast.MatchValue):
        run(Operation(scope, pattern.value, (subject, read(pattern.value, scope))), "eq")
    elif isinstance(pattern, ast.MatchClass):
        scope.decide_by_class(pattern.cls, read(pattern.cls, scope))
    elif isinstance(pattern, (ast.MatchSequence, ast.MatchOr)):
        for part in pattern.patterns:
            _pattern(part, items(subject) if isinstance(pattern, ast.MatchSequence) else subject, scope)
    elif isinstance(pattern, ast.MatchAs) and pattern.pattern is not None:
        _pattern(pattern.pattern, subject, scope)
    if isinstance(pattern, (ast.MatchAs, ast.MatchStar)) and pattern.name is not None:
        scope.bind(pattern.name, subject)


def _attribute(node: ast.Attribute, scope: Scope) -> Facts:
    return attribute(Operation(scope, node), read(node.value, scope), node.attr, last_name(node.value))


def _subscript(node: ast.Subscript, scope: Scope) -> Facts:
    base, key = read(node.value, scope), read(node.slice, scope)
    if is_name(base):
        return piece(base)
    if isinstance(node.slice, ast.Slice):
        return _sliced(base, node.slice)
    position = getattr(node.slice, "value", None)
    if isinstance(position, int) and (found := at(base, position)):
        return found
    if isinstance(position, int):
        return items(base) | at(base, VALUE)
    return run(Operation(scope, node, (base, key)), "getitem")


def _sliced(base: Facts, node: ast.Slice) -> Facts:
    try:
        cut = slice(*(ast.literal_eval(part) if part else None for part in (node.lower, node.upper, node.step)))
    except (ValueError, TypeError):
        return base
    texts = (text.replace(COMPUTED, "")[cut] + COMPUTED for text in literals(base))
    return of(*texts) | frozenset(fact for fact in base if fact[0])


def _sequence(node: ast.List | ast.Tuple | ast.Set, scope: Scope) -> Facts:
    found = [items(read(e.value, scope)) if isinstance(e, ast.Starred) else read(e, scope) for e in node.elts]
    if len(found) > _LONGEST_ROW or any(isinstance(element, ast.Starred) for element in node.elts):
        return listed(join(found))
    return join(below(position, each or of(GAP)) for position, each in enumerate(found)) if any(found) else NOTHING


def _dict(node: ast.Dict, scope: Scope) -> Facts:
    found = NOTHING
    for key, value in zip(node.keys, node.values, strict=True):
        at_key, held = read(key, scope), read(value, scope)
        found |= held if key is None else below(ITEM, at_key) | below(_step(key), held)
    return found


def _step(key: ast.expr) -> str:
    """Return the step to what a mapping holds at a key."""
    return key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else VALUE


def _binary(node: ast.BinOp, scope: Scope) -> Facts:
    left, right = read(node.left, scope), read(node.right, scope)
    if type(node.op) in _OPERATORS:
        return run(Operation(scope, node, (left, right)), _OPERATORS[type(node.op)])
    if isinstance(node.op, ast.Add) and not any(path for path, _ in left | right):
        return compose((left, right)) if left or right else NOTHING
    return left | right if isinstance(node.op, (ast.Add, ast.BitOr)) else NOTHING


def _choice(node: ast.IfExp, scope: Scope) -> Facts:
    read(node.test, scope)
    return read(node.body, scope) | read(node.orelse, scope)


def _compare(node: ast.Compare, scope: Scope) -> Facts:
    sides = [read(each, scope) for each in (node.left, *node.comparators)]
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
        _assign(generator.target, items(read(generator.iter, inner)), inner)
        _read_all(generator.ifs, inner)
    if isinstance(node, ast.DictComp):
        return below(ITEM, read(node.key, inner)) | below(VALUE, read(node.value, inner))
    return listed(read(node.elt, inner))


def _call(node: ast.Call, scope: Scope) -> Facts:
    callee, called = read(node.func, scope), last_name(node.func)
    args = [items(read(a.value, scope)) if isinstance(a, ast.Starred) else read(a, scope) for a in node.args]
    keywords = {keyword.arg or "**": read(keyword.value, scope) for keyword in node.keywords}
    operation = Operation(scope, node, args, keywords)
    if called == "register" and args:
        scope.decide_by_class(node, args[0])
    return call(operation, callee, called)


_READERS: dict[type, Callable[[Any, Scope], Facts]] = {
    ast.Name: lambda node, scope: scope.lookup(node.id),
    ast.Constant: lambda node, _: of(node.value) if isinstance(node.value, str) else NOTHING,
    ast.JoinedStr: lambda node, scope: compose(read(part, scope) for part in node.values),
    ast.FormattedValue: lambda node, scope: run(Operation(scope, node, [read(node.value, scope)]), "str"),
    ast.Attribute: _attribute,
    ast.Subscript: _subscript,
    **dict.fromkeys((ast.List, ast.Tuple, ast.Set), _sequence),
    ast.Dict: _dict,
    ast.BinOp: _binary,
    ast.UnaryOp: _nothing,
    ast.IfExp: _choice,
    ast.Compare: _compare,
    ast.Lambda: _function,
    **dict.fromkeys((ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp), _comprehension),
    ast.Call: _call,
    **dict.fromkeys((ast.Assign, ast.AnnAssign, ast.NamedExpr), _assignment),
    ast.AugAssign: _augmented,
    **dict.fromkeys((ast.For, ast.AsyncFor), _loop),
    ast.withitem: _with_item,
    **dict.fromkeys((ast.Return, ast.Yield, ast.YieldFrom), _return),
    ast.Import: _import,
    ast.ImportFrom: _import_from,
    **dict.fromkeys((ast.Global, ast.Nonlocal), lambda node, scope: scope.elsewhere.update(node.names) or NOTHING),
    **dict.fromkeys((ast.FunctionDef, ast.AsyncFunctionDef), _function),
    ast.ClassDef: _class,
    ast.Match: _match,
}
