"""What operators, methods and functions decide about names, and what they give: a table by the operation's name.

`a == b`, `operator.eq(a, b)` and `a.__eq__(b)` are one operation on two arguments, and so are `text.split(".")` and
`map(str.split, texts)`: the arguments of a method begin with what it is called on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from itertools import zip_longest
from typing import TypeAlias

from pytest_hierexport._rules.source import evidence
from pytest_hierexport._rules.source.operation import Operation
from pytest_hierexport._rules.source.program import BASES, Check, Class, Scope
from pytest_hierexport._rules.source.values import (
    COMPUTED,
    GAP,
    ITEM,
    NOTHING,
    VALUE,
    Kind,
    Role,
    Value,
    compose,
    join,
    texts,
)

__all__ = ["OPERATIONS"]

_Handler: TypeAlias = Callable[[Operation], Value]


def _equal(op: Operation) -> Value:
    for subject, other in ((op.arg(0), op.arg(1)), (op.arg(1), op.arg(0))):
        op.decide(Check.EQUAL, subject, other)
        if Kind.CLASS in subject.kinds | subject.each.kinds:
            op.by_class(other)
    return op.arg(0)


def _contains(op: Operation) -> Value:
    container, item = op.arg(0), op.arg(1)
    members = [name for thing in container.things if isinstance(thing, Class) for name in thing.constants]
    op.decide(Check.EQUAL, item, join(container.each, texts(*members)))
    if container.has(Role.COLLECTION):
        op.decide(Check.EQUAL, container.each, item)
    else:
        op.decide(Check.WITHIN, item, container)
        # What is not known to be a text may be a mapping, of which any key may be asked.
        op.decide(Check.PART, container if container.names != {Kind.UNKNOWN} else NOTHING, item)
    if Kind.CLASS in item.kinds:
        op.by_class(container)
    return NOTHING


def _look_up(op: Operation) -> Value:
    if op.arg(0).has(Role.COLLECTION) or not op.arg(0).is_name:
        _contains(op)
    found = [thing.get(VALUE) or Value.of(thing).each for thing in op.arg(0).things]
    return join(op.arg(0).piece, *found, *map(evidence.from_identifier, op.arg(1).literals), *op.args[2:3])


def _add(op: Operation) -> Value:
    op.add(op.args[-1] if op.args else join(*op.keywords.values()), NOTHING)
    return NOTHING


def _update(op: Operation) -> Value:
    op.add(join(texts(*op.keywords), op.arg(1).each), join(op.arg(1).field(VALUE), *op.keywords.values()))
    return NOTHING


def _set_default(op: Operation) -> Value:
    op.add(op.arg(1), op.arg(2))
    return _look_up(op)


def _of_text(check: Check | None = None) -> _Handler:
    """Return the operation of a method of texts, or of the one of patterns or collections that is called the same."""

    def handle(op: Operation) -> Value:
        text, part = op.arg(0), op.arg(1)
        if text.has(Role.PATTERN):
            return _match(op)
        if text.has(Role.COLLECTION) and not text.is_name:
            return _contains(op)
        if check is not None:
            op.decide(check, text, part)
            op.decide(Check.WITHIN, part, text)
        if text.is_name:
            is_whole = check is None and text.kinds != {Kind.UNKNOWN}
            return Value.of(*text.names) if is_whole else text.piece
        words = (word for literal in text.literals for word in re.findall(r"[\w./]+", literal))
        return (
            op.listed(texts(*(word + COMPUTED for word in words))) if check is Check.PART else Value(texts=text.texts)
        )

    return handle


def _match(op: Operation) -> Value:
    """`re.search(pattern, text)` and `pattern.sub(other, text)`."""
    given = [*op.args[1:], op.keywords.get("string", NOTHING)]
    for text in given:
        op.decide(Check.PATTERN, text, op.arg(0).field(VALUE))
    return join(*(text.piece for text in given))


def _joined(op: Operation) -> Value:
    parts = [part for item in op.arg(1).row for part in (op.arg(0), item)]
    return compose(parts[1:]) if parts else op.arg(1).each


def _filled(mark: str) -> _Handler:
    """Return the operation that replaces the marks of a template by texts, names or gaps, in order."""

    def handle(op: Operation) -> Value:
        given = [item for arg in op.args[1:] for item in arg.row or [arg]]
        made = [Value(op.arg(0).names)]
        for template in op.arg(0).literals:
            pieces = [texts(piece) for piece in re.split(mark, template)]
            pairs = zip_longest(pieces, given[: len(pieces) - 1], fillvalue=NOTHING)
            made.append(compose([part for pair in pairs for part in pair][:-1]))
        return join(*made)

    return handle


def _printed(op: Operation) -> Value:
    value = op.arg(0)
    is_object = value.kinds & {Kind.CLASS, Kind.MODULE, Kind.LIKELY_MODULE}
    return Value.of(Kind.NAME) if is_object else Value(value.names, value.texts)


def _with_key(op: Operation) -> Value:
    """`sorted(names, key=TABLE.get)`, and what else gives the items that it is given."""
    if "key" in op.keywords:
        op.on(op.arg(0).each).call(op.keywords["key"])
    return op.arg(0)


def _mapping(op: Operation) -> Value:
    given, pair = op.arg(0), op.arg(0).each.row
    fields: dict[Hashable, Value] = {ITEM: texts(*op.keywords), VALUE: join(*op.keywords.values())}
    if len(pair) == 2:
        given, fields = NOTHING, {ITEM: join(pair[0], fields[ITEM]), VALUE: join(pair[1], fields[VALUE])}
    return join(given, op.thing(Role.COLLECTION, fields))


def _filter(op: Operation) -> Value:
    """`filter(function, names)` and `fnmatch.filter(names, pattern)`."""
    op.decide(Check.PATTERN, op.arg(0), op.arg(1))
    op.on(op.arg(1).each).call(op.arg(0))
    return op.arg(1)


def _is_instance(op: Operation) -> Value:
    op.by_class(op.arg(1))
    return NOTHING


def _glob(op: Operation) -> Value:
    op.decide(Check.PATTERN, op.arg(0), op.arg(1, "pat"))
    return NOTHING


def _getattr(op: Operation) -> Value:
    owner, key = op.arg(0), op.arg(1)
    if owner.kinds & {Kind.MODULE, Kind.LIKELY_MODULE}:
        op.decide(Check.ATTRIBUTE, Value.of(Kind.NAME), key)
    scopes = (scope for scope in join(owner, owner.field("__class__")).things if isinstance(scope, Scope))
    op.decide(Check.MEMBER, key, texts(*(str(name) for scope in scopes for name in scope.fields)))
    return join(*(op.attribute(owner, attr) for attr in key.literals), op.arg(2))


def _import(op: Operation) -> Value:
    """`import_module(f"exporters.{model_type}")`: a name of the model among constant parts."""
    # A parameter called `name` may be that of anything that is imported.
    sure = Value.of(*(op.arg(0).names & {Kind.MODEL_TYPE, Kind.CLASS_NAME}))
    op.decide(Check.IMPORT, sure, texts(*(text for text in op.arg(0).constants if GAP in text)))
    return NOTHING


def _globals(op: Operation) -> Value:
    scope = op.scope
    while scope.outer is not None:
        scope = scope.outer
    return op.thing(Role.COLLECTION, {ITEM: texts(*map(str, scope.fields)), VALUE: join(*scope.fields.values())})


def _super(op: Operation) -> Value:
    cls = op.scope.function.scope if op.scope.function else None
    return Value.of(*(base.instance for base in cls.line(BASES)[1:])) if isinstance(cls, Class) else NOTHING


def _named(names: str, handler: _Handler) -> dict[str, _Handler]:
    return dict.fromkeys(names.split(), handler)


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
    **_named("append add appendleft insert", _add),
    **_named("extend update", _update),
    **_named("fnmatch fnmatchcase", _glob),
    **_named("str repr intern", _printed),
    **_named("list tuple set frozenset sorted reversed iter deque islice copy union keys", _with_key),
    **_named("compile escape", lambda op: op.arg(0)),
    **_named("dict OrderedDict Counter MappingProxyType", _mapping),
    **_named("max min next", lambda op: join(_with_key(op).each, *op.args[1:])),
    **_named("isinstance issubclass", _is_instance),
    **_named("getattr hasattr", _getattr),
    **_named("import_module __import__ find_spec", _import),
    **_named("vars dir", lambda op: evidence.ATTRIBUTES["_modules"] if Kind.MODULE in op.arg(0).kinds else NOTHING),
    **_named("literal_eval loads", lambda op: op.listed(op.arg(0).piece) if op.arg(0).is_name else NOTHING),
    "%": _filled(r"%(?:\(\w+\))?[-#0 +]*\d*(?:\.\d+)?[a-zA-Z]"),
    "format": _filled(r"\{[^{}]*\}"),
    "join": _joined,
    "setdefault": _set_default,
    "items": lambda op: op.listed(op.arg(0).each, op.arg(0).field(VALUE)),
    "values": lambda op: op.listed(op.arg(0).field(VALUE)),
    "map": lambda op: op.listed(op.on(*(arg.each for arg in op.args[1:])).call(op.arg(0))),
    "filter": _filter,
    "enumerate": lambda op: op.listed(NOTHING, op.arg(0).each),
    "zip": lambda op: op.listed(*(arg.each for arg in op.args), NOTHING),
    "chain": lambda op: join(*op.args),
    "type": lambda op: op.arg(0).field("__class__") or Value.of(Kind.CLASS),
    "cast": lambda op: op.arg(1),
    "partial": lambda op: op.thing(Role.PARTIAL, {VALUE: op.arg(0), **dict(enumerate(op.args[1:]))}),
    "defaultdict": lambda op: _mapping(op.on(*op.args[1:])),
    "globals": _globals,
    "super": _super,
}
