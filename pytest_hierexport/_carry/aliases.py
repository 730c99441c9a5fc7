"""Finds aliases: values that a transformation dropped, whose consumers take an equal value in their place.

Example. The optimizer drops a Cast to the type that was there; `y` keeps its operator and name, and takes `x` where it
took `c`. So `c` is an alias of `x`, which makes `y` equal in both graphs:

    before                  after
    c = Cast(x)
    y = Relu(c)             y = Relu(x)

The call of the Cast passes its input through: it does not co-own `y`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from pytest_hierexport._carry.flat import Flat, Node, Value, same_operator, same_type
from pytest_hierexport._carry.numbering import BothConstants, Numbering, number_once, share_knowledge
from pytest_hierexport._carry.pass_throughs import PassThroughs

__all__ = ["namesake", "number_values"]

_CHAIN = 16
"""How far back the source of a dropped chain of operations is looked for."""

Alias = tuple[Value, Value]
"""A value, and the equal one that stands for it."""


def number_values(before: Flat, after: Flat) -> Numbering:
    """Number the values of both graphs, in rounds until no alias is new."""
    share_knowledge(before, after)
    constants = BothConstants.of(before, after)
    trials = PassThroughs(before)
    aliases = dict(trials.found(after.named))
    while True:
        numbering = number_once(before, after, dict(aliases), constants)
        learned: dict[Value, Value] = {}
        for value, other in chain(_of_equal_expressions(numbering), _dropped(before, after, numbering, trials)):
            first = numbering.known[numbering.before[other]]
            for equal in (value, *numbering.equal(value)):
                if equal not in aliases and equal is not first:
                    learned.setdefault(equal, first)
        if not learned:
            return numbering
        aliases.update(learned)


def _of_equal_expressions(numbering: Numbering) -> Iterator[Alias]:
    """Yield the values whose expression is that of an alias, perhaps only since a later round."""
    for expressions in (numbering.expressions_before, numbering.expressions_after):
        computed = [((each, i), value) for node, each in expressions.items() for i, value in enumerate(node.outputs)]
        known = {key: numbering.aliases[value] for key, value in computed if value in numbering.aliases}
        for key, value in computed:
            if value not in numbering.aliases and key in known:
                yield value, known[key]


def _dropped(before: Flat, after: Flat, numbering: Numbering, trials: PassThroughs) -> Iterator[Alias]:
    """Yield the aliases that nodes after teach, each compared with the node before of the same name."""
    for node in after.nodes:
        twin = namesake(before, node)
        if twin is None:
            continue
        yield from _renamed_outputs(before, numbering, node, twin)
        if numbering.expressions_after[node] != numbering.expressions_before[twin] and same_operator(node, twin):
            yield from _bypassed_inputs(before, numbering, node, twin, trials)


def namesake(before: Flat, node: Node) -> Node | None:
    """Return the node before whose first output has the name of this node's first output."""
    value = before.named.get(node.first_name) if node.first_name else None
    return before.producer.get(value) if value is not None else None


def _renamed_outputs(before: Flat, numbering: Numbering, node: Node, twin: Node) -> Iterator[Alias]:
    """Yield values before whose name an ancestor of theirs has taken: what lay between was dropped."""
    for new, named in zip(node.outputs, twin.outputs, strict=False):
        if numbering.after[new] != numbering.before[named]:
            source = _ancestor(before, numbering, named, numbering.after[new])
            if source is not None:
                yield named, source


def _bypassed_inputs(
    before: Flat, numbering: Numbering, node: Node, twin: Node, trials: PassThroughs
) -> Iterator[Alias]:
    """Yield the lost inputs of a twin that differs in its inputs alone, each with the value that it takes instead."""
    changed = [
        (new, old)
        for new, old in zip(node.inputs, twin.inputs, strict=True)
        if new is None or old is None or numbering.after[new] != numbering.before[old]
    ]
    found: list[Alias] = []
    for new, old in changed:
        alias = None if new is None or old is None else _bypassed(before, numbering, new, old, trials)
        if alias is None:
            return
        found.append(alias)
    # A constant that changed beside another input went into the operation: that is a fusion.
    if len({new is not None and new.varying for new, _ in changed}) == 1:
        yield from found


def _bypassed(before: Flat, numbering: Numbering, new: Value, old: Value, trials: PassThroughs) -> Alias | None:
    """Return the alias by which a node takes a new input in place of an old one; None where they are not equal."""
    if numbering.before[old] in numbering.alive:
        return None
    number = numbering.after[new]
    if number not in numbering.known:
        # No value before equals the new one: the lost value has a new producer.
        return (new, old) if same_type(new, old) else None
    source = _ancestor(before, numbering, old, number) if new.varying else numbering.known[number]
    if source is None or not same_type(source, old):
        return None
    if new.varying and trials.is_unchanged(source, old) is False:
        return None
    return old, source


def _ancestor(before: Flat, numbering: Numbering, value: Value, number: int) -> Value | None:
    """Return the value of that number and of `value`'s type from which `value` is computed; None where none is."""
    level, seen = [value], {value}
    for _ in range(_CHAIN):
        producers = (before.producer[each] for each in level if each in before.producer)
        following: list[Value] = []
        for source in (operand for producer in producers for operand in producer.operands):
            if source in seen:
                continue
            if numbering.before[source] == number and same_type(source, value):
                return source
            seen.add(source)
            following.append(source)
        level = following
    return None
