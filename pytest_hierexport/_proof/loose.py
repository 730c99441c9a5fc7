"""Finds loose owners: a node is the result or an input of another owner, and neither of the loose one.

    model    h = a(x); y = b(h, x)
    graph    t = Exp(x) [a, b]    h = Neg(t) [a]    y = Mul(h, x) [b]

`b` is a loose owner of `t`: only a node of `a` consumes it, and `b` did not return it. No verdict shows this: `b` was
given `x`, so it is proven. The same holds where `b` lost to a fusion what `t` is computed from.

A fusion computes what a call returned without giving it. Neither `q` nor `k`, with its bias, is one too many here:

    graph    p = MatMul(x, w) [k]    y = Attention(x, p, bias) [attention, q, k]    z = MatMul(y, v) [attention]

In go both runs; out come the loose owners, by :func:`loose_owners`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pytest_hierexport._calls.attribution import Evidence
from pytest_hierexport._proof.both_runs import BothRuns
from pytest_hierexport._proof.owners import Node


@dataclass(frozen=True, slots=True)
class LooseOwner:
    """An origin of a node that is one too many."""

    node: str
    """The key of the node."""
    call: str
    """The name of the call."""


def pairs(runs: BothRuns) -> int:
    """Return the number of pairs of a node and a call among its origins."""
    return sum(len({owner.origin.call for owner in node.owners}) for node in runs.graph.nodes)


def loose_owners(runs: BothRuns) -> Iterator[LooseOwner]:
    """Yield the calls that neither consume nor gave what a node of theirs gives, where another owner did so."""
    for node in runs.graph.nodes:
        origins = {owner.origin.call: owner.origin for owner in node.owners}
        if len(origins) > 1:
            consumers = [runs.graph.nodes[i] for value in node.outputs for i in runs.graph.consumers.get(value, ())]
            consuming = {call for call in origins if any(call in consumer.calls for consumer in consumers)}
            giving = {call for call in origins if _gave(runs, call, node)}
            # A fusion gives the last call's result, also of those before it (segformer in ONNX Runtime).
            known = consuming or {call for call in giving if origins[call].evidence is not Evidence.FUSED}
            unused = [call for call in origins if call not in consuming | giving] if known else []
            yield from (LooseOwner(node.key, call) for call in unused if not _may_end_in(runs, call, node))


def _gave(runs: BothRuns, call: str, node: Node) -> bool:
    """Whether a call gave a value of a node."""
    if call not in runs.calls:
        return False
    seen = runs.calls[call]
    computed = (number for value in node.outputs for number in runs.numbers_in_any_form(value))
    return not (seen.returned.keys() | seen.effects - seen.inputs.keys()).isdisjoint(computed)


def _may_end_in(runs: BothRuns, call: str, node: Node) -> bool:
    """Whether a fusion may compute what a call returned inside a node; one in a loop may have returned anything."""
    if call not in runs.calls:
        return True
    kept = runs.names.keys() | runs.stored
    if runs.calls[call].returned.keys() <= kept:
        return False
    alone = len(runs.graph.members[call]) == 1
    return alone or any(_works_on(runs, call, node, value) for value in node.inputs)


def _works_on(runs: BothRuns, call: str, node: Node, value: str) -> bool:
    """Whether a value that a node takes is inside a call: given to it, or computed by its nodes before it returned.

    What a call above was given, whose own work is in the node too, comes before: the `Pad` of MobileNetV1's layers went
    into their convolutions. The call had returned where one beside it returned the value, or where one that was given
    its results owns the producer.
    """
    graph, above = runs.graph, runs.lineage(call)
    around = (owner.origin.call for owner in node.owners if owner.origin.call in above)
    # Any call may compute what depends on no elements.
    if value in graph.by_elements and any(runs.was_given(each, value) for each in around):
        return True
    producer = graph.producer.get(value, -1)
    if producer not in graph.members[call]:
        return False
    givers = (giver for number in runs.numbers(value) for giver in runs.givers.get(number, ()))
    owners = (owner.origin.call for owner in graph.nodes[producer].owners)
    after = (owner for owner in owners if runs.given(owner) & runs.calls[call].returned.keys())
    return all(call in runs.lineage(each) for each in (*givers, *after) if each in graph.hierarchy)
