"""What the methods of texts, collections and compiled patterns decide and return."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pytest_hierexport._rules.source.comparing import Site
from pytest_hierexport._rules.source.program import Check
from pytest_hierexport._rules.source.values import (
    GAP,
    NOTHING,
    Kind,
    Value,
    compose,
    join,
    listed,
    mapped,
    texts,
    words,
)

__all__ = ["ADDING", "PATTERNS", "added", "call_method", "filled", "has_method"]

ADDING = frozenset({"append", "add", "appendleft", "extend", "insert", "update", "setdefault"})
PATTERNS = frozenset({"match", "search", "fullmatch", "findall", "finditer", "sub", "subn", "split"})
_TESTS = {
    **dict.fromkeys(("startswith", "removeprefix"), Check.PREFIX),
    **dict.fromkeys(("endswith", "removesuffix"), Check.SUFFIX),
    **dict.fromkeys(("find", "rfind", "index", "rindex", "count", "replace"), Check.PART),
    **dict.fromkeys(("split", "rsplit", "partition", "rpartition"), Check.PART),
}
_WHOLE = words("lower upper casefold title capitalize swapcase encode decode copy")
_SETS = frozenset(
    f"{operation}{update}"
    for operation in ("intersection", "difference", "symmetric_difference", "isdisjoint", "issubset", "issuperset")
    for update in ("", "_update")
)
_LOOKUPS = frozenset({"get", "pop", "setdefault", "__getitem__", "remove", "discard"})
_VIEWS: dict[str, Callable[[Value], Value]] = {
    "items": lambda table: listed(Value(fields=(table.each, _held(table)))),
    "keys": lambda table: listed(table.each),
    "values": lambda table: listed(_held(table)),
    "union": lambda table: table,
}
_OF_TEXT = frozenset(dir(str)) | {"decode"}


def has_method(receiver: Value, method: str) -> bool:
    """Return whether a value that holds text or names has such a method."""
    has_text = receiver.is_name or receiver.texts
    return bool(
        (has_text and (method in _OF_TEXT or (Kind.REGEX in receiver.kinds and method in PATTERNS)))
        or (receiver.holds and (method in _VIEWS or method in _LOOKUPS | _SETS | {"index", "count", "copy"}))
    )


def call_method(site: Site, receiver: Value, method: str, args: Sequence[Value]) -> Value:
    """Record what a method of a builtin type decides, and return what it gives."""
    first = args[0] if args else NOTHING
    if Kind.REGEX in receiver.kinds and method in PATTERNS:
        return _matched(site, receiver, args[1] if method in {"sub", "subn"} and len(args) > 1 else first)
    if receiver.is_name or not receiver.holds:
        return _of_text(site, receiver, method, args)
    if method in _VIEWS:
        return _VIEWS[method](receiver)
    if method in _LOOKUPS:
        return join(site.look_up(receiver, first), *args[1:2])
    if method in {"__contains__", "index", "count"}:
        site.member(first, receiver)
    elif method in _SETS:
        site.equal(receiver, first)
        return receiver
    return receiver if method == "copy" else NOTHING


def _matched(site: Site, pattern: Value, text: Value) -> Value:
    site.decide(Check.PATTERN, text.names, pattern.texts)
    return text.cut()


def _of_text(site: Site, receiver: Value, method: str, args: Sequence[Value]) -> Value:
    first = args[0] if args else NOTHING
    if method in _TESTS:
        site.part(_TESTS[method], receiver, first)
    elif method == "__contains__":
        site.member(first, receiver)
    elif method in {"__eq__", "__ne__"}:
        site.equal(receiver, first)
    elif method == "join":
        return _joined(receiver, first)
    elif method == "format":
        return filled(receiver, list(args), "{}")
    if receiver.is_name:
        whole = method in _WHOLE and receiver.kinds != {Kind.UNKNOWN}
        return Value(receiver.kinds) if whole else receiver.cut()
    made = [_computed(text, method, [min(arg.constants, default="") for arg in args]) for text in receiver.texts]
    return join(*made)


def _computed(text: str, method: str, args: list[str]) -> Value:
    """Return what a method of a constant text gives."""
    if method not in _OF_TEXT or not all(args):
        return texts(text)
    try:
        result = getattr(text, method)(*args)
    except (TypeError, ValueError, LookupError):
        return texts(text)
    if isinstance(result, (list, tuple)):
        return Value(fields=tuple(map(texts, result)))
    return texts(result) if isinstance(result, str) else NOTHING


def _joined(separator: Value, parts: Value) -> Value:
    if not parts.fields:
        return parts.each
    row = [part for field in parts.fields for part in (separator, field)]
    return compose(row[1:])


def filled(template: Value, args: list[Value], mark: str) -> Value:
    """Return a template with its marks replaced by texts, names or gaps, in order."""
    made = NOTHING
    for text in sorted(template.texts):
        pieces = text.split(mark)
        row = [texts(pieces[0])]
        for number, piece in enumerate(pieces[1:]):
            row += [args[number] if number < len(args) else texts(GAP), texts(piece)]
        made = join(made, compose([part for part in row if part.texts != {""}]))
    return join(made, Value(template.kinds)) if template.is_name else made


def added(method: str, args: Sequence[Value]) -> Value:
    """Return what a method puts into the collection that it is called on."""
    if method == "setdefault":
        return mapped(args[0] if args else NOTHING, args[1] if len(args) > 1 else NOTHING)
    if method in {"extend", "update"}:
        return join(*(Value(items=arg.each, values=arg.values) for arg in args))
    return listed(args[-1] if args else NOTHING)


def _held(table: Value) -> Value:
    return table.each if table.values is None else table.values
