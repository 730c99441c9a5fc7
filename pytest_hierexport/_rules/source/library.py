"""What functions of Python's library decide about names, and return."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pytest_hierexport._rules.source.program import Check
from pytest_hierexport._rules.source.values import (
    GAP,
    NOTHING,
    Instance,
    Kind,
    Partial,
    Value,
    join,
    listed,
    mapped,
    of_kind,
    texts,
)

if TYPE_CHECKING:
    from pytest_hierexport._rules.source.calling import Call

__all__ = ["LIBRARY"]


def _text(call: Call) -> Value:
    value = call.first
    return of_kind(Kind.NAME) if value.kinds & {Kind.CLASS, Kind.MODULE} else Value(value.kinds, value.texts)


def _items(call: Call) -> Value:
    if "key" in call.keywords:
        call.on(call.first.each).of(call.keywords["key"])
    return Value(items=call.first.each, fields=call.first.fields)


def _one(call: Call) -> Value:
    return join(_items(call).each, *call.args[1:])


def _mapping(call: Call) -> Value:
    given = mapped(texts(*call.keywords), join(*call.keywords.values())) if call.keywords else NOTHING
    first = call.first
    if first.values is not None or not first.holds:
        return join(first, given)
    pairs = first.each.fields
    return join(mapped(*pairs) if len(pairs) == 2 else mapped(first.each, NOTHING), given)


def _map(call: Call) -> Value:
    return listed(call.on(*(arg.each for arg in call.args[1:])).of(call.first))


def _filter(call: Call) -> Value:
    call.on(call.arg(1).each).of(call.first)
    return listed(call.arg(1).each)


def _is_instance(call: Call) -> Value:
    call.site.by_class(call.arg(1))
    return NOTHING


def _type(call: Call) -> Value:
    own = frozenset(ref.cls for ref in call.first.refs if isinstance(ref, Instance))
    return Value(refs=own) if own else of_kind(Kind.CLASS)


def _equal(call: Call) -> Value:
    call.site.equal(call.first, call.arg(1))
    return NOTHING


def _contains(call: Call) -> Value:
    return call.site.look_up(call.first, call.arg(1))


def _glob(call: Call) -> Value:
    call.site.decide(Check.PATTERN, call.first.names, call.arg(1, "pat").constants)
    return NOTHING


def _partial(call: Call) -> Value:
    return Value(refs=frozenset(Partial(target, tuple(call.args[1:])) for target in call.first.refs))


def _attributes(call: Call) -> Value:
    return mapped(of_kind(Kind.NAME), NOTHING) if Kind.MODULE in call.first.kinds else NOTHING


def _import(call: Call) -> Value:
    """`import_module(f"exporters.{model_type}")`: a name of the model among constant parts."""
    # A parameter called `name` may be that of anything that is imported.
    sure = call.first.names & {Kind.MODEL_TYPE, Kind.CLASS_NAME}
    call.site.decide(Check.IMPORT, sure, [text for text in call.first.texts if GAP in text])
    return NOTHING


def _parsed(call: Call) -> Value:
    return listed(call.first) if call.first.is_name else NOTHING


LIBRARY: dict[str, Callable[[Call], Value]] = {
    **dict.fromkeys(("str", "repr", "format", "intern", "fspath"), _text),
    **dict.fromkeys(("list", "tuple", "set", "frozenset", "sorted", "reversed", "iter", "deque", "islice"), _items),
    **dict.fromkeys(("max", "min", "next"), _one),
    **dict.fromkeys(("dict", "OrderedDict", "Counter", "MappingProxyType"), _mapping),
    **dict.fromkeys(("map", "starmap"), _map),
    **dict.fromkeys(("filter", "filterfalse"), _filter),
    **dict.fromkeys(("eq", "ne", "is_", "is_not"), _equal),
    **dict.fromkeys(("contains", "countOf", "indexOf", "getitem"), _contains),
    **dict.fromkeys(("fnmatch", "fnmatchcase"), _glob),
    **dict.fromkeys(("isinstance", "issubclass"), _is_instance),
    **dict.fromkeys(("vars", "dir"), _attributes),
    **dict.fromkeys(("import_module", "__import__", "resolve_name", "find_spec"), _import),
    **dict.fromkeys(("literal_eval", "loads"), _parsed),
    "enumerate": lambda call: listed(Value(fields=(NOTHING, call.first.each))),
    "zip": lambda call: listed(Value(fields=tuple(arg.each for arg in call.args))),
    "chain": lambda call: listed(join(*(arg.each for arg in call.args))),
    "type": _type,
    "getmro": lambda _: listed(of_kind(Kind.CLASS)),
    "cast": lambda call: call.arg(1),
    "partial": _partial,
    "defaultdict": lambda call: _mapping(call.on(*call.args[1:])),
}
