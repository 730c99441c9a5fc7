"""What functions from elsewhere do with names and constants: builtins, `operator`, `re`, `functools` and the like."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from pytest_hierexport._rules.source.comparing import by_class, by_member, equal, member, partly, pattern
from pytest_hierexport._rules.source.methods import COMPILED, call_method
from pytest_hierexport._rules.source.reading import attribute
from pytest_hierexport._rules.source.references import Imported, Partial
from pytest_hierexport._rules.source.state import Arguments, Frame, Kind
from pytest_hierexport._rules.source.subjects import METHODS, is_subject, tokens
from pytest_hierexport._rules.source.values import (
    NAME,
    NOTHING,
    PIECE,
    UNSEEN,
    Certainty,
    Value,
    collection,
    join,
    mapping,
    pair,
    refers,
    text,
)

__all__ = ["Call", "from_elsewhere", "unknown"]

# What gives no text that is computed from a text.
_OTHER_RESULTS = frozenset(
    {
        *("len", "int", "float", "bool", "hash", "id", "ord", "isinstance", "issubclass", "callable", "print", "open"),
        *("load", "loads", "read", "run", "import", "resolve", "session", "exists", "stat"),
    }
)
# Where methods of builtin types are called as functions: `str.startswith(name, "x")`.
_BUILTIN_TYPES = frozenset({"builtins.str", "builtins.dict", "builtins.list", "builtins.frozenset", "builtins.set"})
_READ_PATH = Imported("operator.attrgetter()")
_CALL_NAMED = Imported("operator.methodcaller()")


@dataclass(frozen=True)
class Call:
    """A call of a function from elsewhere."""

    frame: Frame
    args: Arguments
    apply: Callable[[Value, Arguments], Value]
    """Calls a function that was passed as an argument."""

    @property
    def first(self) -> Value:
        """The first argument."""
        return self.args.get(0)


_Semantics = Callable[[Call], Value]


def from_elsewhere(dotted: str, call: Call) -> Value:
    """Return what a function of some dotted name gives, and note what it decides."""
    home, _, function = dotted.rpartition(".")
    if home == "re":
        return _regular(function, call)
    if home in _BUILTIN_TYPES:
        found = call_method(call.frame, call.first, function, call.args.after(1))
        return UNSEEN if found is None else found
    if function in METHODS and home:
        return METHODS[function]
    semantics = _TABLE.get(function)
    return unknown(call.args, function) if semantics is None else semantics(call)


def unknown(args: Arguments, called: str) -> Value:
    """Return what a function gives that is not known: computed from a name, it is taken for a piece of one."""
    if any(value.apart for value in args.all):
        return Value(apart=True)
    if is_subject(called):
        return NAME
    if not _OTHER_RESULTS.isdisjoint(tokens(called)):
        return UNSEEN
    level = max(value.named for value in args.all)
    return PIECE if level >= Certainty.YES else text(level, unseen=True)


def _regular(function: str, call: Call) -> Value:
    expression = call.args.get(0, "pattern")
    if function == "compile":
        return Value(strings=expression.strings, references=frozenset({COMPILED}))
    if function == "escape":
        return expression
    subject = call.args.get(2 if function.startswith("sub") else 1, "string")
    pattern(call.frame, expression, subject)
    return PIECE if subject.named >= Certainty.YES else text(subject.named, unseen=True)


def _text(call: Call) -> Value:
    value = call.first
    return NAME if value.module or value.type else text(value.named, value.texts)


def _items(call: Call) -> Value:
    """What gives the same items: `list`, `sorted`, `reversed` and the like."""
    _call_key(call)
    return replace(call.first, mapped=None, references=frozenset(), type=False)


def _one_item(call: Call) -> Value:
    """`max`, `min`, `next`."""
    _call_key(call)
    return join(call.first.items, *call.args.positional[1:])


def _call_key(call: Call) -> None:
    key = call.args.keywords.get("key", NOTHING)
    if key.references:
        call.apply(key, Arguments((call.first.items,)))


def _mapping(call: Call) -> Value:
    keywords = call.args.keywords
    given = mapping(Value(strings=frozenset(keywords)), join(*keywords.values())) if keywords else NOTHING
    if call.first.mapped is not None or not call.args.positional:
        return join(call.first, given, *call.args.positional[1:])
    items = call.first.items
    own = mapping(*items.fields) if len(items.fields) == 2 else mapping(items, items)
    return join(own, given)


def _map(call: Call) -> Value:
    return collection(call.apply(call.first, Arguments(tuple(value.items for value in call.args.positional[1:]))))


def _filter(call: Call) -> Value:
    items = call.args.get(1).items
    call.apply(call.first, Arguments((items,)))
    return collection(items)


def _reduce(call: Call) -> Value:
    items = call.args.get(1).items
    return join(items, call.apply(call.first, Arguments((items, items))))


def _zip(call: Call) -> Value:
    return collection(pair(*(value.items for value in call.args.positional)))


def _chain(call: Call) -> Value:
    return collection(join(*(value.items for value in call.args.positional)))


def _equal(call: Call) -> Value:
    equal(call.frame, call.first, call.args.get(1))
    return NOTHING


def _contains(call: Call) -> Value:
    member(call.frame, call.args.get(1), call.first)
    return NOTHING


def _glob(call: Call) -> Value:
    pattern(call.frame, call.args.get(1, "pat"), call.args.get(0, "name"))
    return NOTHING


def _closest(call: Call) -> Value:
    partly(call.frame, Kind.PART, call.first, call.args.get(1))
    return NOTHING


def _is_instance(call: Call) -> Value:
    by_class(call.frame, call.args.get(1).referred)
    return NOTHING


def _getattr(call: Call) -> Value:
    key = call.args.get(1)
    if call.first.module:
        call.frame.decide(Kind.EQUAL, Certainty.YES, key.texts)
    found = [attribute(call.frame, call.first, attr) for attr in key.strings]
    if not found:
        by_member(call.frame, call.first, key)
    return join(*found, call.args.get(2)) if found else UNSEEN


def _attrgetter(call: Call) -> Value:
    """`attrgetter("__class__.__name__")` gives a callable that reads attributes."""
    return Value(references=frozenset(Partial(_READ_PATH, (value,)) for value in call.args.positional))


def _read_path(call: Call) -> Value:
    value = call.args.get(1)
    for chain in call.first.strings:
        for attr in chain.split("."):
            value = attribute(call.frame, value, attr)
    return value


def _methodcaller(call: Call) -> Value:
    """`methodcaller("startswith", "Bert")` gives a callable that calls a method."""
    return refers(Partial(_CALL_NAMED, call.args.positional))


def _call_named(call: Call) -> Value:
    *given, receiver = call.args.positional
    for method in given[0].strings:
        call_method(call.frame, receiver, method, Arguments(tuple(given[1:])))
    return UNSEEN


def _partial(call: Call) -> Value:
    given = tuple(replace(value, references=frozenset()) for value in call.args.positional[1:])
    return Value(references=frozenset(Partial(target, given) for target in call.first.references))


def _namespace(call: Call) -> Value:
    """`vars(model)`, `dir(model)`."""
    return mapping(NAME, NOTHING) if call.first.module else UNSEEN


def _globals(call: Call) -> Value:
    names = call.frame.state.program.functions_of(call.frame.module)
    return mapping(Value(strings=frozenset(names)), NOTHING)


_TABLE: dict[str, _Semantics] = {
    **dict.fromkeys(("str", "repr", "ascii", "format", "fspath"), _text),
    **dict.fromkeys(("list", "tuple", "set", "frozenset", "sorted", "reversed", "iter", "deque", "islice"), _items),
    **dict.fromkeys(("groupby", "takewhile", "dropwhile", "cycle", "copy", "deepcopy"), _items),
    **dict.fromkeys(("max", "min", "next"), _one_item),
    **dict.fromkeys(("dict", "OrderedDict", "Counter", "MappingProxyType", "ChainMap"), _mapping),
    **dict.fromkeys(("map", "starmap"), _map),
    **dict.fromkeys(("filter", "filterfalse"), _filter),
    **dict.fromkeys(("eq", "ne", "is_", "is_not"), _equal),
    **dict.fromkeys(("contains", "countOf", "indexOf", "getitem"), _contains),
    **dict.fromkeys(("fnmatch", "fnmatchcase"), _glob),
    **dict.fromkeys(("isinstance", "issubclass"), _is_instance),
    **dict.fromkeys(("getattr", "hasattr", "getattr_static"), _getattr),
    **dict.fromkeys(("vars", "dir"), _namespace),
    "reduce": _reduce,
    "globals": _globals,
    "enumerate": lambda call: collection(pair(NOTHING, call.first.items)),
    "zip": _zip,
    "chain": _chain,
    "type": lambda call: Value(apart=True) if call.first.apart else Value(type=True),
    "getmro": lambda _: collection(Value(type=True)),
    "cast": lambda call: call.args.get(1),
    "attrgetter": _attrgetter,
    "attrgetter()": _read_path,
    "partial": _partial,
    "get_close_matches": _closest,
    "defaultdict": lambda call: _mapping(replace(call, args=call.args.after(1))),
    "methodcaller": _methodcaller,
    "methodcaller()": _call_named,
}
