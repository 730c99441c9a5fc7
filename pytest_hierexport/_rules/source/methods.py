"""What the methods of texts, lists, sets, dicts and compiled patterns do with names and constants."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product

from pytest_hierexport._rules.source.comparing import equal, look_up, member, partly, pattern
from pytest_hierexport._rules.source.references import Imported
from pytest_hierexport._rules.source.state import Arguments, Frame, Kind
from pytest_hierexport._rules.source.subjects import METHODS
from pytest_hierexport._rules.source.values import (
    NOTHING,
    PIECE,
    Certainty,
    Value,
    collection,
    join,
    mapping,
    pair,
    text,
)

__all__ = ["COMPILED", "MUTATORS", "call_method", "is_text_method", "put"]

COMPILED = Imported("re.Pattern")
MUTATORS = frozenset({"append", "add", "appendleft", "extend", "insert", "update", "setdefault"})
"""Methods that put something into the collection that they are called on."""

_PARTLY = {
    **dict.fromkeys(("startswith", "removeprefix"), Kind.PREFIX),
    **dict.fromkeys(("endswith", "removesuffix"), Kind.SUFFIX),
    **dict.fromkeys(("find", "rfind", "index", "rindex", "count", "replace"), Kind.PART),
    **dict.fromkeys(("split", "rsplit", "partition", "rpartition"), Kind.PART),
}
_WHOLE = frozenset({"lower", "upper", "casefold", "title", "capitalize", "swapcase", "encode", "decode", "join"})
"""What gives the whole text again."""
_SETS = frozenset(
    {
        *("intersection", "union", "difference", "symmetric_difference", "isdisjoint", "issubset", "issuperset"),
        *("intersection_update", "difference_update", "symmetric_difference_update"),
    }
)
_LOOKUPS = frozenset({"get", "pop", "setdefault", "__getitem__", "remove", "discard"})
_PATTERNS = frozenset({"match", "search", "fullmatch", "findall", "finditer", "sub", "subn", "split"})
_VIEWS: dict[str, Callable[[Value], Value]] = {
    "items": lambda receiver: collection(pair(receiver.items, _mapped(receiver))),
    "keys": lambda receiver: collection(receiver.items),
    "values": lambda receiver: collection(_mapped(receiver)),
    "copy": lambda receiver: receiver,
}


def call_method(frame: Frame, receiver: Value, method: str, args: Arguments) -> Value | None:
    """Return what a method of a builtin type, or of a module, gives; None where the method is none of theirs."""
    if method in METHODS:
        # `model.get_submodule("encoder")` looks a name up in the model.
        frame.decide(Kind.EQUAL, Certainty.YES, args.get(0, "target").texts)
        return METHODS[method]
    _decide(frame, receiver, method, args)
    found = None if receiver.name else _of_collection(frame, receiver, method, args)
    return _of_text(frame, receiver, method, args) if found is None else found


def _of_collection(frame: Frame, receiver: Value, method: str, args: Arguments) -> Value | None:
    if method in _VIEWS:
        return _VIEWS[method](receiver)
    if method in _LOOKUPS:
        return join(look_up(frame, receiver, args.get(0, "key")), args.get(1, "default"))
    return None


def _of_text(frame: Frame, receiver: Value, method: str, args: Arguments) -> Value | None:
    if method == "join":
        return _joined(frame, receiver, args.get(0))
    if method == "format":
        level = max(value.named for value in (receiver, *args.all))
        return text(level, frozenset() if level else receiver.strings)
    if is_text_method(method):
        return _text(frame, receiver, method, args)
    return receiver if method in _SETS else None


def is_text_method(method: str) -> bool:
    """Whether texts have such a method."""
    return hasattr(str, method) or method == "decode"


def _decide(frame: Frame, receiver: Value, method: str, args: Arguments) -> None:
    first = args.get(0)
    if method in _PATTERNS and COMPILED in receiver.references:
        pattern(frame, Value(strings=receiver.strings), args.get(1 if method in ("sub", "subn") else 0))
        return
    if method in ("__contains__", "index", "count") and (receiver.element is not None or receiver.fields):
        member(frame, first, receiver)
    elif method in _PARTLY:
        partly(frame, _PARTLY[method], receiver, first)
    elif method == "__contains__":
        member(frame, first, receiver)
    elif method in ("__eq__", "__ne__") or method in _SETS:
        equal(frame, receiver, first)


def _mapped(receiver: Value) -> Value:
    return receiver.mapped if receiver.mapped is not None else receiver.items


def _joined(frame: Frame, separator: Value, parts: Value) -> Value:
    if parts.named:
        return text(parts.named)
    choices = [sorted(part.strings) for part in parts.fields]
    folded = (s.join(chosen) for s in separator.strings for chosen in product(*choices))
    return Value(strings=frame.state.fold(frame.at, folded) if parts.fields else parts.texts)


def _text(frame: Frame, receiver: Value, method: str, args: Arguments) -> Value:
    """A text computed from a text; predicates are covered, for what they give is never a text."""
    level = max(receiver.named, *(value.name for value in args.all))
    if level >= Certainty.YES:
        return text(level) if method in _WHOLE else PIECE
    if method in ("split", "rsplit", "splitlines", "partition", "rpartition"):
        pieces = frame.state.fold(
            frame.at, (piece for string in receiver.strings for piece in _split(string, method, args))
        )
        return Value(name=level, element=text(level, pieces) if pieces else None)
    return text(level, frame.state.fold(frame.at, _folded(receiver, method, args)))


def _split(string: str, method: str, args: Arguments) -> list[str]:
    separators = sorted(separator for separator in args.get(0).strings if separator) or [" "]
    if "partition" in method:
        return [piece for separator in separators for piece in string.partition(separator)]
    return [piece for separator in separators for piece in string.split(separator)]


def _folded(receiver: Value, method: str, args: Arguments) -> Iterator[str]:
    """Yield the constant texts that a method of constant texts gives; the texts as they are where it is unclear."""
    choices = [sorted(argument.strings) for argument in args.positional]
    if not all(choices):
        yield from receiver.strings
        return
    for string, *chosen in product(sorted(receiver.strings), *choices):
        try:
            result = getattr(string, method)(*chosen)
        except (TypeError, ValueError, LookupError, AttributeError):
            result = string
        if isinstance(result, str):
            yield result


def put(receiver: Value, method: str, args: Arguments) -> Value:
    """Return what a collection may be after a mutating method."""
    first = args.get(0)
    if method in ("extend", "update"):
        named = args.keywords
        keys = Value(strings=frozenset(named))
        return join(replace(receiver, fields=()), first, mapping(keys, join(*named.values())) if named else NOTHING)
    if method == "setdefault":
        return join(receiver, mapping(first, args.get(1)))
    return join(receiver, collection(args.get(1) if method == "insert" else first))
