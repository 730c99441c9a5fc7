"""Where a name meets a constant: equality, membership, lookups, prefixes, patterns, classes."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_hierexport._rules.source.references import Class, Imported, Instance, Reference, Source
from pytest_hierexport._rules.source.state import Frame, Kind
from pytest_hierexport._rules.source.values import NAME, Certainty, Value, join

__all__ = ["by_class", "by_member", "equal", "look_up", "member", "partly", "pattern"]


def equal(frame: Frame, a: Value, b: Value) -> None:
    """`a == b`, `a is b`."""
    for subject, other in ((a, b), (b, a)):
        # What holds names itself is data to compare with, whatever constants it was mixed with.
        if other.named < Certainty.YES:
            frame.decide(Kind.EQUAL, subject.named, other.texts)
        if subject.type:
            by_class(frame, other.referred)


def member(frame: Frame, item: Value, container: Value) -> None:
    """`item in container`."""
    if container.element is None and not container.fields:
        frame.decide(Kind.WITHIN, item.named, container.strings)
    frame.decide(Kind.EQUAL, item.named, container.held | _members(frame, container))
    frame.decide(Kind.PART if container.name else Kind.EQUAL, container.named, item.texts)
    if item.type:
        by_class(frame, container.referred)


def look_up(frame: Frame, table: Value, key: Value) -> Value:
    """`table[key]` and `table.get(key)`; gives what is found."""
    frame.decide(Kind.EQUAL, key.named, table.held | _members(frame, table))
    if table.mapped is not None:
        frame.decide(Kind.EQUAL, table.items.named, key.texts)
    if key.type:
        by_class(frame, table.items.referred)
    found = table.mapped if table.mapped is not None else table.items
    return join(found, Value(references=frozenset(r for r in table.references if isinstance(r, Class))))


def partly(frame: Frame, kind: Kind, text: Value, part: Value) -> None:
    """`text.startswith(part)` and its like."""
    frame.decide(kind, text.named, part.texts)
    frame.decide(Kind.WITHIN, part.named, text.strings)


def pattern(frame: Frame, expression: Value, text: Value) -> None:
    """`re.match(expression, text)`, `fnmatch(text, expression)`."""
    frame.decide(Kind.PATTERN, text.named, expression.texts)


def by_class(frame: Frame, references: Iterable[Reference]) -> None:
    """`isinstance(x, cls)`, `type(x) is cls`: whether that class is of a model is for the words to say."""
    dotted = {frame.state.dotted(reference) for reference in references if isinstance(reference, (Class, Imported))}
    frame.decide(Kind.CLASS, NAME.name, (name for name in dotted if name and not name.startswith("builtins.")))


def by_member(frame: Frame, owner: Value, key: Value) -> None:
    """`getattr(owner, key)` with a key that is computed: a dispatch on names of methods or functions."""
    program = frame.state.program
    names: set[str] = set()
    for reference in owner.references:
        if isinstance(reference, Source):
            names.update(program.functions_of(reference.dotted))
        elif isinstance(reference, (Class, Instance)):
            names.update(program.methods_of(reference.number), program.classes[reference.number].constants)
    frame.decide(Kind.MEMBER, key.named, names)


def _members(frame: Frame, container: Value) -> frozenset[str]:
    """The names of an enumeration's members."""
    classes = (r.number for r in container.references if isinstance(r, Class))
    return frozenset(name for number in classes for name in frame.state.program.classes[number].constants)
