"""What operators, methods and functions decide about names, and what they give: a table by the operation's name.

`a == b`, `operator.eq(a, b)` and `a.__eq__(b)` are one operation on two arguments, and so are `text.split(".")` and
`map(str.split, texts)`: the arguments of a method begin with what it is called on.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import zip_longest
from typing import TypeAlias

from pytest_hierexport._rules.source import evidence, fact
from pytest_hierexport._rules.source.calls import Operation, attribute, call_back, grow
from pytest_hierexport._rules.source.fact import COMPUTED, GAP, ITEM, NOTHING, PATTERN, VALUE, Facts, Kind
from pytest_hierexport._rules.source.program import Check, Class, Instance, Scope

_Handler: TypeAlias = Callable[[Operation], Facts]


def _equal(op: Operation) -> Facts:
    for subject, other in ((op.arg(0), op.arg(1)), (op.arg(1), op.arg(0))):
        op.decide(Check.EQUAL, subject, other)
        if Kind.CLASS in fact.kinds(subject | fact.items(subject)):
            op.scope.decide_by_class(op.node, other)
    return op.arg(0)


def _contains(op: Operation) -> Facts:
    container, item = op.arg(0), op.arg(1)
    members = [name for cls in fact.atoms(container) if isinstance(cls, Class) for name in cls.variables]
    op.decide(Check.EQUAL, item, fact.items(container) | fact.of(*members))
    op.decide(Check.EQUAL, fact.items(container) if not fact.is_name(container) else NOTHING, item)
    if fact.literals(container) or fact.is_name(container):
        op.decide(Check.WITHIN, item, container)
        # What is not known to be a text may be a mapping, of which any key may be asked.
        op.decide(Check.PART, container if fact.names(container) != {Kind.UNKNOWN} else NOTHING, item)
    if Kind.CLASS in fact.kinds(item):
        op.scope.decide_by_class(op.node, container)
    return NOTHING


def _look_up(op: Operation) -> Facts:
    container, key = op.arg(0), op.arg(1)
    if not fact.is_name(container):
        _contains(op)
    held = fact.at(container, VALUE, *fact.literals(key)) if fact.literals(key) else fact.values(container)
    named = fact.join(map(evidence.from_identifier, fact.literals(key)))
    return (
        fact.piece(container)
        | held
        | fact.items(frozenset(f for f in container if f[0] and f[0][0] != ITEM))
        | named
        | op.arg(2)
    )


def _adds(made: Callable[[Operation], Facts]) -> _Handler:
    """Return the operation of a method that adds to what it is called on."""

    def handle(op: Operation) -> Facts:
        if isinstance(op.node, ast.Call) and isinstance(op.node.func, ast.Attribute):
            grow(op, op.node.func.value, made(op))
        return NOTHING

    return handle


def _mapping(op: Operation) -> Facts:
    """`dict(pairs, key=value)`; also of `update`, which is called on a mapping."""
    pairs = fact.items(op.arg(-1)) if op.args else NOTHING
    made = (
        fact.below(ITEM, fact.at(pairs, 0)) | fact.below(VALUE, fact.at(pairs, 1))
        if fact.at(pairs, 1)
        else op.args[-1]
        if op.args
        else NOTHING
    )
    return (
        made | fact.listed(fact.of(*op.keywords)) | fact.join(fact.below(*keyword) for keyword in op.keywords.items())
    )


def _of_text(check: Check | None = None) -> _Handler:
    """Return the operation of a method of texts, or of the one of patterns or collections that is called the same."""

    def handle(op: Operation) -> Facts:
        text, part = op.arg(0), op.arg(1)
        if fact.at(text, PATTERN):
            return _match(op)
        if not fact.is_name(text) and fact.items(text):
            return _contains(op)
        if check is not None:
            op.decide(check, text, part)
            op.decide(Check.WITHIN, part, text)
        if fact.is_name(text):
            return (
                fact.piece(text)
                if check is not None or fact.kinds(text) == {Kind.UNKNOWN}
                else fact.of(*fact.kinds(text))
            )
        if check is not Check.PART:
            return fact.of(*fact.literals(text))
        return fact.listed(
            fact.of(*(word + COMPUTED for each in fact.literals(text) for word in re.findall(r"[\w./]+", each)))
        )

    return handle


def _match(op: Operation) -> Facts:
    """`re.search(pattern, text)` and `pattern.sub(other, text)`."""
    given = [*op.args[1:], op.keywords.get("string", NOTHING)]
    for text in given:
        op.decide(Check.PATTERN, text, fact.at(op.arg(0), PATTERN))
    return fact.join(map(fact.piece, given))


def _glob(op: Operation) -> Facts:
    op.decide(Check.PATTERN, op.arg(0), op.arg(1, "pat"))
    return NOTHING


def _joined(op: Operation) -> Facts:
    row = _row(op.arg(1))
    parts = [part for item in row for part in (op.arg(0), item)]
    return fact.compose(parts[1:]) if parts else fact.items(op.arg(1))


def _row(facts: Facts) -> list[Facts]:
    positions = [path[0] for path, _ in facts if path and isinstance(path[0], int)]
    return [fact.at(facts, position) for position in range(max(positions, default=-1) + 1)]


def _filled(mark: str) -> _Handler:
    """Return the operation that replaces the marks of a template by texts, names or gaps, in order."""

    def handle(op: Operation) -> Facts:
        given = [item for arg in op.args[1:] for item in _row(arg) or [arg]]
        made = fact.of(*fact.names(op.arg(0)))
        for template in fact.literals(op.arg(0)):
            pieces = [fact.of(text) for text in re.split(mark, template)]
            pairs = zip_longest(pieces, given[: len(pieces) - 1], fillvalue=NOTHING)
            made |= fact.compose([part for pair in pairs for part in pair][:-1])
        return made

    return handle


def _printed(op: Operation) -> Facts:
    is_object = fact.kinds(op.arg(0)) & {Kind.CLASS, Kind.MODULE, Kind.LIKELY_MODULE}
    return fact.of(Kind.NAME) if is_object else fact.of(*fact.names(op.arg(0)), *fact.literals(op.arg(0)))


def _same(op: Operation) -> Facts:
    """`sorted(names, key=TABLE.get)`, and what else gives the items that it is given."""
    call_back(op)
    return op.arg(0)


def _filter(op: Operation) -> Facts:
    """`filter(function, names)` and `fnmatch.filter(names, pattern)`."""
    op.decide(Check.PATTERN, op.arg(0), op.arg(1))
    call_back(op)
    return op.arg(1)


def _is_instance(op: Operation) -> Facts:
    op.scope.decide_by_class(op.node, op.arg(1))
    return NOTHING


def _getattr(op: Operation) -> Facts:
    owner, key = op.arg(0), op.arg(1)
    if fact.kinds(owner) & {Kind.MODULE, Kind.LIKELY_MODULE}:
        op.decide(Check.ATTRIBUTE, fact.of(Kind.NAME), key)
    scopes = [atom.cls if isinstance(atom, Instance) else atom for atom in fact.atoms(owner)]
    members = (name for scope in scopes if isinstance(scope, Scope) for name in scope.variables)
    op.decide(Check.MEMBER, key, fact.of(*members))
    return op.arg(2) | fact.join(attribute(op, owner, attr) for attr in fact.literals(key))


def _import(op: Operation) -> Facts:
    """`import_module(f"exporters.{model_type}")`: a name of the model among constant parts."""
    # A parameter called `name` may be that of anything that is imported.
    sure = fact.of(*(fact.names(op.arg(0)) & {Kind.MODEL_TYPE, Kind.CLASS_NAME}))
    op.decide(Check.IMPORT, sure, fact.of(*(text for text in fact.constants(op.arg(0)) if GAP in text)))
    return NOTHING


def _named(text: str, handler: _Handler) -> dict[str, _Handler]:
    return dict.fromkeys(text.split(), handler)


OPERATIONS: dict[str, _Handler] = {
    **_named("lower upper casefold title capitalize strip lstrip rstrip encode decode", _of_text()),
    **_named("startswith removeprefix", _of_text(Check.PREFIX)),
    **_named("endswith removesuffix", _of_text(Check.SUFFIX)),
    **_named("find rfind index rindex count replace split rsplit partition rpartition", _of_text(Check.PART)),
    **_named("match search fullmatch findall finditer sub subn", _match),
    **_named("eq ne is_ is_not __eq__ __ne__ isdisjoint issubset issuperset", _equal),
    **_named("intersection difference symmetric_difference", _equal),
    **_named("contains __contains__ countOf indexOf remove discard", _contains),
    **_named("getitem get pop __getitem__", _look_up),
    **_named(
        "append add appendleft insert", _adds(lambda op: fact.listed(op.args[-1] if len(op.args) > 1 else NOTHING))
    ),
    **_named("extend update", _adds(lambda op: _mapping(replace(op, args=op.args[1:])))),
    **_named("fnmatch fnmatchcase", _glob),
    **_named("str repr intern", _printed),
    **_named("list tuple set frozenset sorted reversed iter deque islice copy union keys", _same),
    **_named("dict OrderedDict Counter MappingProxyType", _mapping),
    **_named("max min next", lambda op: fact.items(_same(op)) | fact.join(op.args[1:])),
    **_named("isinstance issubclass", _is_instance),
    **_named("getattr hasattr", _getattr),
    **_named("import_module __import__ find_spec", _import),
    **_named("literal_eval loads", lambda op: fact.listed(fact.piece(op.arg(0)))),
    "%": _filled(r"%(?:\(\w+\))?[-#0 +]*\d*(?:\.\d+)?[a-zA-Z]"),
    "format": _filled(r"\{[^{}]*\}"),
    "join": _joined,
    "setdefault": lambda op: (
        _adds(lambda op: fact.below(ITEM, op.arg(1)) | fact.below(VALUE, op.arg(2)))(op) | _look_up(op)
    ),
    "compile": lambda op: fact.below(PATTERN, op.arg(0)),
    "escape": lambda op: op.arg(0),
    "items": lambda op: fact.listed(fact.items(op.arg(0)), fact.values(op.arg(0))),
    "values": lambda op: fact.listed(fact.values(op.arg(0))),
    "map": lambda op: fact.listed(call_back(op)),
    "filter": _filter,
    "enumerate": lambda op: fact.listed(NOTHING, fact.items(op.arg(0))),
    "zip": lambda op: fact.listed(*map(fact.items, op.args), NOTHING),
    **_named("chain ChainMap", lambda op: fact.join(op.args)),
    "type": lambda op: (
        fact.of(*(atom.cls for atom in fact.atoms(op.arg(0)) if isinstance(atom, Instance))) or fact.of(Kind.CLASS)
    ),
    "cast": lambda op: op.arg(1),
    "partial": lambda op: op.partial(op.arg(0), op.args[1:]),
    "defaultdict": lambda op: _mapping(replace(op, args=op.args[1:])),
}
