"""What attributes, operators, methods and functions give, and what they decide about names.

`a == b` and `operator.eq(a, b)` are one operation on two arguments, and so are `text.split(".")` and
`map(str.split, texts)`: the arguments of a method begin with what it is called on.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from pytest_hierexport._rules.source import evidence, fact
from pytest_hierexport._rules.source.fact import GAP, NOTHING, VALUE, Facts, Kind
from pytest_hierexport._rules.source.scopes import Bound, Check, Class, External, Function, Instance, Scope, class_names

_MOST_DOTS = 5  # of a name outside the source: `node = node.parent` in a loop has no end


@dataclass(frozen=True)
class Operation:
    """An operation at a place in the source, on what it is given."""

    scope: Scope
    node: ast.AST
    args: Sequence[Facts] = ()
    keywords: dict[str, Facts] = field(default_factory=dict)

    def arg(self, position: int) -> Facts:
        """Return an argument."""
        return self.args[position] if position < len(self.args) else NOTHING

    def decide(self, check: Check, about: Facts, texts: Facts) -> Facts:
        """Record that constants decide something about what may be a name; it gives nothing."""
        return (
            self.scope.decide(self.node, check, fact.names(about), fact.constants(texts))
            if about and texts
            else NOTHING
        )


_Handler: TypeAlias = Callable[[Operation], Facts]


def attribute(base: Facts, attr: str, before: str = "") -> Facts:
    """Return what `base.attr` may be; `before` is the identifier before the dot."""
    if attr in {"__name__", "__qualname__"}:
        known = fact.of(*(name.rpartition(".")[2] for name in class_names(base)))
        is_class = Kind.CLASS in fact.kinds(base | evidence.from_identifier(before, loose=True))
        return known or (evidence.CLASS_NAME if is_class else NOTHING)
    found = fact.at(base, attr) | fact.join(_member(atom, attr) for atom in fact.atoms(base))
    if found or attr in evidence.ATTRIBUTES:
        return found or evidence.ATTRIBUTES[attr]
    if attr in evidence.OF_NODE and Kind.NODE in fact.kinds(base):
        return evidence.NAME
    if attr in OPERATIONS:
        plain = frozenset(fact for fact in base if not isinstance(fact[1], Bound))
        return fact.of(Bound(fact.of(External(attr)), (plain,)))
    return evidence.from_identifier(attr)


def _member(atom: object, attr: str) -> Facts:
    if isinstance(atom, External):
        return fact.of(External(f"{atom.name}.{attr}")) if atom.name.count(".") < _MOST_DOTS else NOTHING
    if isinstance(atom, (Instance, Class)):
        return (atom.cls if isinstance(atom, Instance) else atom).member(attr)
    return (atom.get(attr) or NOTHING) if isinstance(atom, Scope) else NOTHING


def call(op: Operation, callee: Facts, called: str = "") -> Facts:
    """Return what calling a value gives; `called` is its identifier."""
    known = [atom for atom in fact.atoms(callee) if isinstance(atom, (Function, Class, External, Bound))]
    if not known:
        _call_back(op)
        return callee if fact.is_name(callee) else evidence.from_identifier(called)
    return fact.join(_call(op, atom) for atom in known)


def _call(op: Operation, atom: Function | Class | External | Bound) -> Facts:
    if isinstance(atom, Function):
        atom.is_called = True
        return atom.call(op.args, op.keywords)
    if isinstance(atom, Bound):
        return call(replace(op, args=[*atom.args, *op.args]), atom.callee)
    if isinstance(atom, Class):
        initializers = [f for f in fact.atoms(atom.member("__init__")) if isinstance(f, Function)]
        for initializer in initializers:
            _call(op, initializer)
        fields = [] if initializers else [name for cls in (*reversed(atom.bases), atom) for name in cls.fields]
        for name, facts in {**dict(zip(fields, op.args, strict=False)), **op.keywords}.items():
            if name in fields:
                atom.learn(name, facts)
        return fact.of(Instance(atom))
    name, called_back = atom.name.rpartition(".")[2], fact.listed(_call_back(op))
    return called_back | (run(op, name) if name in OPERATIONS else evidence.from_identifier(name))


def run(op: Operation, name: str) -> Facts:
    """Return what the operation of a name gives, and record what it decides."""
    return OPERATIONS[name](op)


def _call_back(op: Operation) -> Facts:
    """Call each function that is given, with the items of what else is given."""
    given, found = [*op.args, *op.keywords.values()], NOTHING
    for callee in given:
        if any(isinstance(atom, (Function, Bound)) for atom in fact.atoms(callee)):
            others = [fact.items(other) for other in given if other is not callee]
            found |= call(Operation(op.scope, op.node, others), callee) if any(others) else NOTHING
    return found


def _equal(op: Operation) -> Facts:
    for subject, other in ((op.arg(0), op.arg(1)), (op.arg(1), op.arg(0))):
        op.decide(Check.EQUAL, subject, other)
        if Kind.CLASS in fact.kinds(subject | fact.items(subject)):
            op.scope.decide_by_class(op.node, other)
    return op.arg(0)


def _contains(op: Operation) -> Facts:
    container, item = op.arg(0), op.arg(1)
    op.decide(Check.EQUAL, item, fact.items(container))
    op.decide(Check.PART if fact.is_name(container) else Check.EQUAL, container, item)
    return op.scope.decide_by_class(op.node, container) if Kind.CLASS in fact.kinds(item) else NOTHING


def _look_up(op: Operation) -> Facts:
    container, keys = op.arg(0), fact.literals(op.arg(1))
    if not fact.is_name(container):
        _contains(op)
    held = fact.at(container, VALUE, *keys) if keys else fact.values(container)
    return fact.piece(container) | held | op.arg(2) | fact.join(map(evidence.from_identifier, keys))


def _mapping(op: Operation) -> Facts:
    """`dict(pairs, key=value)`."""
    pairs = fact.items(op.arg(0))
    made = fact.mapped(fact.at(pairs, 0), fact.at(pairs, 1)) if fact.at(pairs, 1) else op.arg(0)
    return made | fact.mapped(fact.of(*op.keywords), fact.join(op.keywords.values()))


def _of_text(check: Check | None = None) -> _Handler:
    """Return the operation of a method of texts, or of the one of collections that is called the same."""

    def handle(op: Operation) -> Facts:
        text, part = op.arg(0), op.arg(1)
        if not fact.is_name(text) and fact.items(text):
            return _contains(op)
        if check is not None:
            op.decide(check, text, part)
            # `re.split(pattern, text)` has the text last.
            return fact.piece(text) | fact.piece(part) or fact.listed(fact.of(*fact.literals(text)))
        # `str(type(module))` is a text with the name of the class.
        printed = {Kind.NAME if kind is Kind.CLASS else kind for kind in fact.kinds(text)}
        return fact.of(*printed, *fact.literals(text))

    return handle


def _pattern(of_pattern: int) -> _Handler:
    """Return the operation that looks for a pattern in texts; a compiled pattern is known by its text."""

    def handle(op: Operation) -> Facts:
        given = [*op.args, *op.keywords.values()]
        pattern = given.pop(of_pattern) if len(given) > of_pattern else NOTHING
        for text in given:
            op.decide(Check.PATTERN, text, pattern)
        return fact.join(map(fact.piece, given))

    return handle


def _getattr(op: Operation) -> Facts:
    """`getattr(self, f"visit_{name}")` decides by the ends of the names of all methods."""
    owner, key = op.arg(0), op.arg(1)
    scopes = [atom.cls if isinstance(atom, Instance) else atom for atom in fact.atoms(owner)]
    members = [name for scope in scopes if isinstance(scope, Scope) for name in scope.variables]
    op.decide(Check.EQUAL, key, fact.of(*(n[m.end() :] for n in members for m in re.finditer("_", n))))
    return op.arg(2) | fact.join(attribute(owner, attr) for attr in fact.literals(key))


def _import(op: Operation) -> Facts:
    """`import_module(f"exporters.{model_type}")`: a name of the model among constant parts."""
    # A parameter called `name` may be that of anything that is imported.
    sure = fact.of(*(fact.names(op.arg(0)) & {Kind.MODEL_TYPE, Kind.CLASS_NAME}))
    return op.decide(Check.IMPORT, sure, fact.of(*(text for text in fact.constants(op.arg(0)) if GAP in text)))


def _template(op: Operation) -> Facts:
    """`"layer.%d" % i` and `"layer.{}".format(i)`."""
    marks = r"%(?:\(\w+\))?[-#0 +]*\d*(?:\.\d+)?[a-zA-Z]|\{[^{}]*\}"
    return fact.of(*fact.kinds(op.arg(0)), *(re.sub(marks, GAP, text) for text in fact.literals(op.arg(0))))


def _named(text: str, handler: _Handler) -> dict[str, _Handler]:
    return dict.fromkeys(text.split(), handler)


OPERATIONS: dict[str, _Handler] = {
    **{name: lambda _, facts=facts: facts for name, facts in evidence.METHODS.items()},  # type: ignore[misc]
    **_named("lower upper casefold title capitalize strip lstrip rstrip encode decode str repr intern", _of_text()),
    **_named("startswith removeprefix", _of_text(Check.PREFIX)),
    **_named("endswith removesuffix", _of_text(Check.SUFFIX)),
    **_named("find rfind index rindex count replace split rsplit partition rpartition", _of_text(Check.PART)),
    **_named("match search fullmatch findall finditer sub subn", _pattern(0)),
    **_named("fnmatch fnmatchcase", _pattern(1)),
    **_named("eq ne isdisjoint issubset issuperset intersection difference symmetric_difference", _equal),
    **_named("contains remove discard", _contains),
    **_named("getitem get pop setdefault", _look_up),
    **_named("append add appendleft insert extend update map", lambda _: NOTHING),
    **_named("filter", lambda op: op.arg(1)),
    **_named(
        "list tuple set frozenset sorted reversed iter deque islice copy keys compile escape",
        lambda op: op.arg(0),
    ),
    **_named("chain ChainMap union", lambda op: fact.join(op.args)),
    **_named("dict OrderedDict Counter MappingProxyType", _mapping),
    **_named("max min next", lambda op: fact.items(op.arg(0)) | op.arg(1)),
    **_named("isinstance issubclass", lambda op: op.scope.decide_by_class(op.node, op.arg(1))),
    **_named("getattr hasattr", _getattr),
    **_named("import_module __import__ find_spec", _import),
    **_named("literal_eval loads", lambda op: fact.listed(fact.piece(op.arg(0)))),
    **_named("cast defaultdict", lambda op: op.arg(1)),
    **_named("% format", _template),
    "join": lambda op: fact.items(op.arg(1)),
    "items": lambda op: fact.listed(fact.items(op.arg(0)), fact.values(op.arg(0))),
    "values": lambda op: fact.listed(fact.values(op.arg(0))),
    "enumerate": lambda op: fact.listed(NOTHING, fact.items(op.arg(0))),
    "zip": lambda op: fact.listed(*map(fact.items, op.args), NOTHING),
    "type": lambda op: (
        fact.of(*(atom.cls for atom in fact.atoms(op.arg(0)) if isinstance(atom, Instance))) or evidence.CLASS
    ),
    "partial": lambda op: fact.of(Bound(op.arg(0), tuple(op.args[1:]))),
}
