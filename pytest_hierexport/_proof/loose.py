"""Finds loose owners: calls that own a node which another owner consumes and they do not.

    model    h = a(x); y = b(h)
    graph    t = Exp(x) [a, b]    h = Neg(t) [a]    y = Relu(h) [b]

`b` is a loose owner of `t`: only a node of `a` consumes it, and `b` did not return it. No verdict shows this: `b` was
given all that `t` is computed from, or lost it to a fusion.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pytest_hierexport._proof.both_runs import BothRuns
from pytest_hierexport._proof.owners import Node

__all__ = ["LooseOwner", "loose_owners", "pairs"]


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
    """Yield the calls whose nodes do not consume a node of theirs, which another owner's nodes do consume.

    A call that returned a value of the node needs no consumer, nor does one that a fusion left no other node.
    """
    for node in runs.graph.nodes:
        calls = dict.fromkeys(owner.origin.call for owner in node.owners)
        if len(calls) > 1:
            consumers = [runs.graph.nodes[i] for value in node.outputs for i in runs.graph.consumers.get(value, ())]
            consuming = {call for call in calls if any(call in consumer.calls for consumer in consumers)}
            unused = [call for call in calls if call not in consuming] if consuming else []
            yield from (LooseOwner(node.key, call) for call in unused if not _ends_in(runs, call, node))


def _ends_in(runs: BothRuns, call: str, node: Node) -> bool:
    """Whether a call ends in a node: it returned a value of it, or a fusion left it no other node.

    One in a loop may have returned anything.
    """
    seen = runs.calls.get(call)
    if seen is None or len(runs.graph.members.get(call, ())) == 1:
        return True
    return any(number in seen.returned for value in node.outputs for number in runs.numbers(value))
