"""What attributes, calls and operators give, and what they decide about names: a table by the operation's name.

`a == b`, `operator.eq(a, b)` and `a.__eq__(b)` are one operation on two arguments, and so are `text.split(".")` and
`map(str.split, texts)`: the arguments of a method begin with what it is called on.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import TypeAlias

from pytest_hierexport._rules.source import evidence
from pytest_hierexport._rules.source.facts import (
    COMPUTED,
    GAP,
    ITEM,
    NOTHING,
    PATTERN,
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
    kinds,
    listed,
    literals,
    names,
    of,
    piece,
    values,
)
from pytest_hierexport._rules.source.program import (
    Check,
    Class,
    External,
    Function,
    Instance,
    Scope,
    class_names,
)

__all__ = ["Operation", "attribute", "call", "grow", "run"]

_MOST_DOTS = 5  # of a name outside the source: `node = node.parent` in a loop has no end
_NO_TEXT = re.compile("len|int|float|bool|hash|id|ord|callable|print|open|load|read|run|exists|isinstance")
"""A word of a function that gives no text which is computed from its arguments."""


@dataclass(frozen=True)
class Partial:
    """A method of a value, or a function with its first arguments; they are variables of a scope of their own."""

    held: Scope
    count: int


@dataclass(frozen=True)
class Operation:
    """An operation at a place in the source, on what it is given."""

    scope: Scope
    node: ast.AST
    args: Sequence[Facts] = ()
    keywords: dict[str, Facts] = field(default_factory=dict)

    def arg(self, position: int, keyword: str = "") -> Facts:
        """Return an argument."""
        return self.args[position] if position < len(self.args) else self.keywords.get(keyword, NOTHING)

    def decide(self, check: Check, about: Facts, texts: Facts) -> None:
        """Record that constants decide something about what may be a name."""
        if about and texts and (found := names(about)):
            self.scope.decide(self.node, check, found, constants(texts))

    def partial(self, callee: Facts, args: Sequence[Facts]) -> Facts:
        """Return a function with its first arguments."""
        held = self.scope.source.once((self.node, self.scope, Partial), lambda: Scope(self.scope.source, self.scope.path))
        for name, facts in enumerate([callee, *args]):
            held.learn(str(name), facts)
        return of(Partial(held, len(args)))


_Handler: TypeAlias = Callable[[Operation], Facts]


def attribute(op: Operation, base: Facts, attr: str, before: str = "") -> Facts:
    """Return what `base.attr` may be; `before` is the identifier before the dot."""
    if attr in {"__name__", "__qualname__"}:
        is_class = Kind.CLASS in kinds(base | evidence.from_identifier(before, loose=True))
        known = of(*(name.rpartition(".")[2] for name in class_names(base)))
        return known or (of(Kind.CLASS_NAME) if is_class else NOTHING)
    if Kind.MODULE in kinds(base):
        op.scope.decide(op.node, Check.ATTRIBUTE, {Kind.NAME}, {attr})
    found = at(base, attr) | join(_member(atom, attr) for atom in atoms(base))
    if found:
        return found
    if attr in evidence.ATTRIBUTES:
        return evidence.ATTRIBUTES[attr]
    if attr in evidence.NODE_ATTRIBUTES and (Kind.NODE in kinds(base) or (not base and before.endswith("node"))):
        return evidence.NODE_ATTRIBUTES[attr]
    if attr in evidence.METHODS or (base and attr in OPERATIONS):
        return op.partial(of(External(attr)), [base])
    if is_name(base):
        return NOTHING if attr in evidence.OF_FILES or kinds(base) == {Kind.UNKNOWN} else piece(base)
    if attr == "value" and literals(base):
        return base  # of an enumeration's member
    return evidence.from_identifier(attr)


def _member(atom: object, attr: str) -> Facts:
    if isinstance(atom, External):
        homes = atom.name.split(".")[:-1]
        # What a class has, such as a method, is of no class any more.
        is_end = len(homes) >= _MOST_DOTS or any(home[0].isupper() for home in homes if home)
        return NOTHING if is_end else of(External(f"{atom.name}.{attr}"))
    if isinstance(atom, Instance):
        found = of(atom.cls) if attr == "__class__" else atom.cls.member(attr)
        getters = [f for f in atoms(found) if isinstance(f, Function) and f.decorated("property", "cached_property")]
        return join(getter.call((), {}) for getter in getters) if getters else found
    if isinstance(atom, Class):
        return atom.member(attr)
    return (atom.get(attr) or NOTHING) if isinstance(atom, Scope) else NOTHING


def call(op: Operation, callee: Facts, called: str = "") -> Facts:
    """Return what calling a value gives; `called` is its identifier."""
    known = [atom for atom in atoms(callee) if isinstance(atom, (Function, Class, External, Partial))]
    if not known:
        return callee if is_name(callee) else _unknown(op, called)
    return join(_call(op, atom) for atom in known)


def _call(op: Operation, atom: object) -> Facts:
    if isinstance(atom, Function):
        atom.is_called = True
        return atom.call(op.args, op.keywords)
    if isinstance(atom, Class):
        return _instance(op, atom)
    if isinstance(atom, Partial):
        callee, *args = (atom.held.get(str(position)) or NOTHING for position in range(atom.count + 1))
        whole = frozenset(fact for fact in callee if not isinstance(fact[1], Partial))
        return call(replace(op, args=[*args, *op.args]), whole) if whole else NOTHING
    return _library(op, *atom.name.rpartition(".")[::2]) if isinstance(atom, External) else NOTHING


def _library(op: Operation, home: str, name: str) -> Facts:
    if name in evidence.METHODS:
        asked = op.arg(1, "target") if name.startswith("get_") else NOTHING
        op.decide(Check.ATTRIBUTE, of(Kind.NAME), asked)
        return evidence.METHODS[name]
    if home == "re" and name not in {"compile", "escape"}:
        op = replace(op, args=[below(PATTERN, op.arg(0, "pattern")), *op.args[1:]])
    return run(op, name) if name in OPERATIONS else _unknown(op, name)


def run(op: Operation, name: str) -> Facts:
    """Return what the operation of a name gives, and record what it decides."""
    return OPERATIONS[name](op)


def _instance(op: Operation, cls: Class) -> Facts:
    if cls.is_enum:
        op.decide(Check.EQUAL, op.arg(0), cls.member("value"))
        return of(Instance(cls))
    initializers = [f for f in atoms(cls.member("__init__")) if isinstance(f, Function)]
    for initializer in initializers:
        _call(op, initializer)
    names_ = () if initializers else [name for base in reversed(cls.line(up=True)) for name in base.fields]
    given = [op.arg(position, name) for position, name in enumerate(names_)]
    for name, facts in zip(names_, given, strict=True):
        cls.learn(name, facts)
    return of(Instance(cls)) | join(below(*each) for each in enumerate(given))


def _unknown(op: Operation, called: str) -> Facts:
    """Return what a function gives that cannot be seen: what it makes of a name may be one."""
    _call_back(op)
    keys = literals(op.arg(0)) if called == "get" else ()
    named = join(map(evidence.from_identifier, (called, *keys)))
    if named or any(map(_NO_TEXT.fullmatch, evidence.tokens(called))):
        return named
    return of(Kind.UNKNOWN) if any(map(is_name, op.args)) else NOTHING


def _call_back(op: Operation) -> Facts:
    """Call each function that is given, with the items of what else is given."""
    found = NOTHING
    given = [*op.args, *op.keywords.values()]
    for position, callee in enumerate(given):
        if any(isinstance(atom, (Function, Partial, External)) for atom in atoms(callee)):
            others = [items(other) for other in given[:position] + given[position + 1 :]]
            if any(others):
                found |= call(Operation(op.scope, op.node, others), callee)
    return found


def grow(op: Operation, target: ast.expr, facts: Facts) -> None:
    """Add to the collection that an expression names."""
    if isinstance(target, ast.Name):
        (op.scope.holder(target.id) or op.scope).learn(target.id, facts)
    elif isinstance(target, ast.Attribute):
        for atom in atoms(op.scope.source.read(target.value, op.scope)):
            if isinstance(atom, (Scope, Instance)):
                (atom.cls if isinstance(atom, Instance) else atom).learn(target.attr, facts)
    elif isinstance(target, ast.Subscript):
        grow(op, target.value, below(VALUE, facts))
    elif isinstance(target, ast.Call) and isinstance(target.func, ast.Attribute):
        grow(op, target.func.value, below(VALUE, facts))


def _equal(op: Operation) -> Facts:
    for subject, other in ((op.arg(0), op.arg(1)), (op.arg(1), op.arg(0))):
        op.decide(Check.EQUAL, subject, other)
        if Kind.CLASS in kinds(subject | items(subject)):
            op.scope.decide_by_class(op.node, other)
    return op.arg(0)


def _contains(op: Operation) -> Facts:
    container, item = op.arg(0), op.arg(1)
    members = [name for cls in atoms(container) if isinstance(cls, Class) for name in cls.variables]
    op.decide(Check.EQUAL, item, items(container) | of(*members))
    op.decide(Check.EQUAL, items(container) if not is_name(container) else NOTHING, item)
    if literals(container) or is_name(container):
        op.decide(Check.WITHIN, item, container)
        # What is not known to be a text may be a mapping, of which any key may be asked.
        op.decide(Check.PART, container if names(container) != {Kind.UNKNOWN} else NOTHING, item)
    if Kind.CLASS in kinds(item):
        op.scope.decide_by_class(op.node, container)
    return NOTHING


def _look_up(op: Operation) -> Facts:
    container, key = op.arg(0), op.arg(1)
    if not is_name(container):
        _contains(op)
    held = at(container, VALUE, *literals(key)) if literals(key) else values(container)
    named = join(map(evidence.from_identifier, literals(key)))
    return piece(container) | held | items(frozenset(f for f in container if f[0] and f[0][0] != ITEM)) | named | op.arg(2)


def _adds(made: Callable[[Operation], Facts]) -> _Handler:
    """Return the operation of a method that adds to what it is called on."""

    def handle(op: Operation) -> Facts:
        if isinstance(op.node, ast.Call) and isinstance(op.node.func, ast.Attribute):
            grow(op, op.node.func.value, made(op))
        return NOTHING

    return handle


def _mapping(op: Operation) -> Facts:
    """`dict(pairs, key=value)`; also of `update`, which is called on a mapping."""
    pairs = items(op.arg(-1)) if op.args else NOTHING
    made = below(ITEM, at(pairs, 0)) | below(VALUE, at(pairs, 1)) if at(pairs, 1) else op.args[-1] if op.args else NOTHING
    return made | listed(of(*op.keywords)) | join(below(*keyword) for keyword in op.keywords.items())


def _of_text(check: Check | None = None) -> _Handler:
    """Return the operation of a method of texts, or of the one of patterns or collections that is called the same."""

    def handle(op: Operation) -> Facts:
        text, part = op.arg(0), op.arg(1)
        if at(text, PATTERN):
            return _match(op)
        if not is_name(text) and items(text):
            return _contains(op)
        if check is not None:
            op.decide(check, text, part)
            op.decide(Check.WITHIN, part, text)
        if is_name(text):
            return piece(text) if check is not None or kinds(text) == {Kind.UNKNOWN} else of(*kinds(text))
        if check is not Check.PART:
            return of(*literals(text))
        return listed(of(*(word + COMPUTED for each in literals(text) for word in re.findall(r"[\w./]+", each))))

    return handle


def _match(op: Operation) -> Facts:
    """`re.search(pattern, text)` and `pattern.sub(other, text)`."""
    given = [*op.args[1:], op.keywords.get("string", NOTHING)]
    for text in given:
        op.decide(Check.PATTERN, text, at(op.arg(0), PATTERN))
    return join(map(piece, given))


def _attrgetter(op: Operation) -> Facts:
    """A dotted path is one of modules; a single attribute may be any object's."""
    op.decide(Check.ATTRIBUTE, of(Kind.NAME), of(*(path for path in literals(op.arg(0)) if "." in path)))
    return _unknown(op, "attrgetter")


def _glob(op: Operation) -> Facts:
    op.decide(Check.PATTERN, op.arg(0), op.arg(1, "pat"))
    return NOTHING


def _joined(op: Operation) -> Facts:
    row = _row(op.arg(1))
    parts = [part for item in row for part in (op.arg(0), item)]
    return compose(parts[1:]) if parts else items(op.arg(1))


def _row(facts: Facts) -> list[Facts]:
    positions = [path[0] for path, _ in facts if path and isinstance(path[0], int)]
    return [at(facts, position) for position in range(max(positions, default=-1) + 1)]


def _filled(mark: str) -> _Handler:
    """Return the operation that replaces the marks of a template by texts, names or gaps, in order."""

    def handle(op: Operation) -> Facts:
        given = [item for arg in op.args[1:] for item in _row(arg) or [arg]]
        made = of(*names(op.arg(0)))
        for template in literals(op.arg(0)):
            pieces = [of(text) for text in re.split(mark, template)]
            pairs = zip_longest(pieces, given[: len(pieces) - 1], fillvalue=NOTHING)
            made |= compose([part for pair in pairs for part in pair][:-1])
        return made

    return handle


def _printed(op: Operation) -> Facts:
    is_object = kinds(op.arg(0)) & {Kind.CLASS, Kind.MODULE, Kind.LIKELY_MODULE}
    return of(Kind.NAME) if is_object else of(*names(op.arg(0)), *literals(op.arg(0)))


def _same(op: Operation) -> Facts:
    """`sorted(names, key=TABLE.get)`, and what else gives the items that it is given."""
    _call_back(op)
    return op.arg(0)


def _filter(op: Operation) -> Facts:
    """`filter(function, names)` and `fnmatch.filter(names, pattern)`."""
    op.decide(Check.PATTERN, op.arg(0), op.arg(1))
    _call_back(op)
    return op.arg(1)


def _is_instance(op: Operation) -> Facts:
    op.scope.decide_by_class(op.node, op.arg(1))
    return NOTHING


def _getattr(op: Operation) -> Facts:
    owner, key = op.arg(0), op.arg(1)
    if kinds(owner) & {Kind.MODULE, Kind.LIKELY_MODULE}:
        op.decide(Check.ATTRIBUTE, of(Kind.NAME), key)
    scopes = [atom.cls if isinstance(atom, Instance) else atom for atom in atoms(owner)]
    members = (name for scope in scopes if isinstance(scope, Scope) for name in scope.variables)
    op.decide(Check.MEMBER, key, of(*members))
    return op.arg(2) | join(attribute(op, owner, attr) for attr in literals(key))


def _import(op: Operation) -> Facts:
    """`import_module(f"exporters.{model_type}")`: a name of the model among constant parts."""
    # A parameter called `name` may be that of anything that is imported.
    sure = of(*(names(op.arg(0)) & {Kind.MODEL_TYPE, Kind.CLASS_NAME}))
    op.decide(Check.IMPORT, sure, of(*(text for text in constants(op.arg(0)) if GAP in text)))
    return NOTHING


def _globals(op: Operation) -> Facts:
    scope = op.scope
    while scope.outer is not None:
        scope = scope.outer
    return listed(of(*scope.variables)) | below(VALUE, join(scope.variables.values()))


def _super(op: Operation) -> Facts:
    cls = op.scope.function.scope if op.scope.function else None
    return of(*map(Instance, cls.line(up=True)[1:])) if isinstance(cls, Class) else NOTHING


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
    **_named("append add appendleft insert", _adds(lambda op: listed(op.args[-1] if len(op.args) > 1 else NOTHING))),
    **_named("extend update", _adds(lambda op: _mapping(replace(op, args=op.args[1:])))),
    **_named("fnmatch fnmatchcase", _glob),
    **_named("str repr intern", _printed),
    **_named("list tuple set frozenset sorted reversed iter deque islice copy union keys", _same),
    **_named("dict OrderedDict Counter MappingProxyType", _mapping),
    **_named("max min next", lambda op: items(_same(op)) | join(op.args[1:])),
    **_named("isinstance issubclass", _is_instance),
    **_named("getattr hasattr", _getattr),
    **_named("import_module __import__ find_spec", _import),
    **_named("vars dir", lambda op: evidence.ATTRIBUTES["_modules"] if Kind.MODULE in kinds(op.arg(0)) else NOTHING),
    **_named("literal_eval loads", lambda op: listed(piece(op.arg(0)))),
    "%": _filled(r"%(?:\(\w+\))?[-#0 +]*\d*(?:\.\d+)?[a-zA-Z]"),
    "format": _filled(r"\{[^{}]*\}"),
    "join": _joined,
    "attrgetter": _attrgetter,
    "setdefault": lambda op: _adds(lambda op: below(ITEM, op.arg(1)) | below(VALUE, op.arg(2)))(op) | _look_up(op),
    "compile": lambda op: below(PATTERN, op.arg(0)),
    "escape": lambda op: op.arg(0),
    "items": lambda op: listed(items(op.arg(0)), values(op.arg(0))),
    "values": lambda op: listed(values(op.arg(0))),
    "map": lambda op: listed(_call_back(op)),
    "filter": _filter,
    "enumerate": lambda op: listed(NOTHING, items(op.arg(0))),
    "zip": lambda op: listed(*map(items, op.args), NOTHING),
    "chain": lambda op: join(op.args),
    "type": lambda op: of(*(atom.cls for atom in atoms(op.arg(0)) if isinstance(atom, Instance))) or of(Kind.CLASS),
    "cast": lambda op: op.arg(1),
    "partial": lambda op: op.partial(op.arg(0), op.args[1:]),
    "defaultdict": lambda op: _mapping(replace(op, args=op.args[1:])),
    "globals": _globals,
    "super": _super,
}
