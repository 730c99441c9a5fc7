"""Finds aliases: values that a transformation dropped or added, and that are equal to another value.

Example. The optimizer drops a Squeeze of a value that has no axis of length 1; `y` keeps its operator and name, and
takes `x` where it took `c`. So `c` is an alias of `x`, which makes `y` equal in both graphs:

    before                  after
    c = Squeeze(x)
    y = Relu(c)             y = Relu(x)

The call of the Squeeze passes its input through: it does not co-own `y`.

In go both flat graphs; out come the numbers of all values, by :func:`number_values`, which runs the rounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from pytest_hierexport._carry.bodies import Bodies
from pytest_hierexport._carry.constants import Constants
from pytest_hierexport._carry.flat import Flat, Node, Value, same_operator, types_may_agree
from pytest_hierexport._carry.inputs import pair_inputs
from pytest_hierexport._carry.numbering import Numbering, Round, share_knowledge
from pytest_hierexport._carry.restored import gives_back, restored
from pytest_hierexport._carry.slices import backward_slice

_CHAIN = 16
"""How far back the source of a dropped chain of operations is looked for, which bounds the time of the search."""

_PAIRS = 16
"""How many pairs of values are compared on the way to an equal source, which bounds the time of that search."""

Alias = tuple[Value, Value]
"""A value of either graph, and the equal one that stands for it."""


def number_values(before: Flat, after: Flat) -> Numbering:
    """Number the values of both graphs, in rounds until no alias is new; complete their names, types and leaves."""
    share_knowledge(before, after)
    constants = Constants()
    bodies = Bodies(before, after)
    aliases = pair_inputs(before, after, bodies.named)
    while True:
        numbering = Round(before, after, dict(aliases), constants, bodies).run()
        order = {value: i for i, value in enumerate(numbering.old)}
        learned: dict[Value, Value] = {}
        for value, other in _with_restored(before, numbering, _dropped(before, after, numbering)):
            own, source = numbering.equal(value), numbering.first_before[numbering.old[other]]
            equals = [value, *own]
            if own and order[own[0]] < order[source]:
                # The first one stands for all others: a folded constant may equal a later one (CoLT5).
                source, equals = own[0], numbering.equal(source)
            for equal in equals:
                if equal not in aliases:
                    learned.setdefault(equal, source)
        if not learned:
            return numbering
        aliases.update(learned)


def _with_restored(before: Flat, numbering: Numbering, aliases: Iterable[Alias]) -> Iterator[Alias]:
    """Yield each alias, and one for each value that equals its source on the way to it."""
    for value, source in aliases:
        yield value, source
        if value in numbering.old:
            yield from ((inner, source) for inner in restored(before, numbering, value, source))


def _dropped(before: Flat, after: Flat, numbering: Numbering) -> Iterator[Alias]:
    """Yield the aliases that nodes after teach, each compared with the node before of the same name."""
    for node in after.nodes:
        same_name = before.producer_of(node.first_name)
        if same_name is None:
            continue
        # A value before has given its name to one that it is computed from: what lay between was dropped. One that is
        # still computed has another name now.
        for new, named in zip(node.outputs, same_name.outputs, strict=False):
            if numbering.old[named] not in numbering.alive and not _is_equal(numbering, new, named):
                source = _source(before, numbering, named, numbering.new[new])
                if source is not None:
                    yield named, source
        if not _has_its_operator(before, node, same_name):
            continue
        inputs = zip(node.inputs, same_name.inputs, strict=False)
        pairs = [(new, old) for new, old in inputs if not _is_equal(numbering, new, old)]
        changed = [(new, old) for new, old in pairs if new and old]
        aliases = [_bypassed(before, after, numbering, new, old) for new, old in changed]
        # One input that is no alias, or absent in one graph, makes the node another operation: a fusion.
        if len(changed) == len(pairs) and all(aliases) and not _went_into_a_constant(before, changed):
            yield from chain.from_iterable(aliases)


def _has_its_operator(before: Flat, node: Node, other: Node) -> bool:
    """Whether a node has the operator, attributes and inputs of one before, but for constants at the end.

    An optimizer drops a bias of zeros, even where these have the type of a value that is computed (FocalNet).
    """
    if (node.operator, node.attributes) != (other.operator, other.attributes) or len(node.inputs) > len(other.inputs):
        return False
    dropped = [value for value in other.inputs[len(node.inputs) :] if value]
    computing = backward_slice(before, dropped, lambda value: not value.varying)
    leaves = (*dropped, *(operand for each in computing for operand in each.data_operands))
    return not any(leaf.varying for leaf in leaves if leaf not in before.producer)


def _went_into_a_constant(before: Flat, changed: Iterable[tuple[Value, Value]]) -> bool:
    """Whether a constant changed beside another input: what computed that input went into the constant.

    A constant that has the name of a computed one was folded (wav2vec2).
    """
    folded = {new for new, old in changed if new.name == old.name and old in before.producer}
    return len({new.varying for new, _ in changed if new not in folded}) > 1


def _is_equal(numbering: Numbering, new: Value | None, old: Value | None) -> bool:
    if new is None or old is None:
        return new is old
    return numbering.new[new] == numbering.old[old]


def _bypassed(before: Flat, after: Flat, numbering: Numbering, new: Value, old: Value) -> list[Alias]:
    """Return the aliases by which a node takes a new input in place of an old one; none where they are not equal."""
    if numbering.old[old] in numbering.alive:
        return []
    number = numbering.new[new]
    if number not in numbering.first_before:
        # No value before equals the new one: the lost value has a new producer. A constant is not computed from inputs
        # now: a branch of a constant condition took the place and the name of the branch that held it.
        return [(new, old)] if types_may_agree(new, old) and old.varying >= new.varying else []
    source = _source(before, numbering, old, number) if new.varying else numbering.first_before[number]
    if source is None:
        return _further_up(before, numbering, old, numbering.first_before[number])
    if not types_may_agree(source, old):
        return []
    # The new value has other constants, too, where a normalisation before the source went into it (monai's VNet, whose
    # activations multiply by one).
    took = _took_constants(before, after, numbering, new, (old, source))
    return [(new, old) if took and not gives_back(before, numbering, old, source) else (old, source)]


def _further_up(before: Flat, numbering: Numbering, lost: Value, kept: Value) -> list[Alias]:
    """Return the aliases above a lost value that make it equal to a kept one; none where they do not.

    The consumers of an alias were merged with those of its source, so that no node after shows the alias itself:

        before                                after
        a = Relu(x)                           a = Relu(x)
        c = Squeeze(x)
        b = Relu(c)
        d = Squeeze(b)
        y = Add(a, d)                         y = Add(a, a)

    The lost value may be an alias itself, as `d` of `b`. Two of 680 random architectures need it, transpositions that
    cancel out in front of equal operations; one of 1,928 has such ones behind them, too.
    """
    aliases: list[Alias] = []
    pairs = [(lost, kept)]
    for value, equal in pairs:
        compared = (_operands_of_equals(before, each, equal) for each in _sources(before, value))
        operands = next((each for each in compared if each is not None), None)
        if operands is None or len(pairs) > _PAIRS:
            return []
        for operand, counterpart in operands:
            number = numbering.old[counterpart]
            if numbering.old[operand] == number:
                continue  # equal already
            source = _source(before, numbering, operand, number)
            if source is not None:
                aliases.append((operand, source))
            elif (operand, counterpart) not in pairs:
                pairs.append((operand, counterpart))
    return aliases


def _operands_of_equals(before: Flat, value: Value, other: Value) -> list[tuple[Value, Value]] | None:
    """Return the operands of two values in pairs; None where other operations compute them."""
    one, another = before.producer.get(value), before.producer.get(other)
    if one is None or another is None or not same_operator(one, another):
        return None
    return list(zip(one.operands, another.operands, strict=False))


def _took_constants(before: Flat, after: Flat, numbering: Numbering, new: Value, alias: Alias) -> bool:
    """Whether a new value takes what lay between a lost value and its source: as new weights, or as its constants.

    onnxslim puts the scale of a layer into the `Linear` before it, whose name the scaled value has then (DINOv2);
    onnxoptimizer gives the bias of an `Add` to the convolution before it, which keeps its name.
    """
    old, source = alias
    lost = _constants(backward_slice(before, [old], lambda value: value is source))
    replaced = _constants(backward_slice(before, [source], lambda value: numbering.old[value] in numbering.alive))
    moved = {numbering.old[value] for value in lost} - {numbering.old[value] for value in replaced}
    taken = _constants(backward_slice(after, [new], lambda value: numbering.new[value] in numbering.first_before))
    return any(numbering.new[value] not in numbering.first_before or numbering.new[value] in moved for value in taken)


def _constants(nodes: Iterable[Node]) -> Iterator[Value]:
    return (value for node in nodes for value in node.operands if not value.varying)


def _source(before: Flat, numbering: Numbering, value: Value, number: int) -> Value | None:
    """Return the nearest of a value's :func:`_sources` that has a number; None where none has it."""
    return next((source for source in _sources(before, value) if numbering.old[source] == number), None)


def _sources(before: Flat, value: Value) -> Iterator[Value]:
    """Yield a value, and the values from which it is computed that may have its type, the nearest first."""
    level, seen = [value], {value}
    for _ in range(_CHAIN + 1):
        # A value that takes the name of its transposition is no alias: two transposes became one.
        yield from (each for each in level if types_may_agree(each, value))
        producers = (before.producer[each] for each in level if each in before.producer)
        operands = dict.fromkeys(operand for producer in producers for operand in producer.operands)
        # Residual sums reach a value on ways of many lengths: each is looked at once.
        level = [operand for operand in operands if operand not in seen]
        seen.update(level)
