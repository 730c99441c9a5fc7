"""Finds the inputs of a call that a fusion removed: batch normalisation in a convolution, a pair of transposes.

    model   h = norm(x); y = linear(h)          linear was given h
    graph   y = Gemm(x, folded weight)          origins norm and linear, both fused
    lost    h, which `norm` gave: no node of `linear` reads it, so `linear` may read x

ResNet and RegNet (convolutions), GPT-2 (`Conv1D`) and Swin need it: without it 123 calls of the recorded zoo, types and
500 random architectures are unproven.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

from pytest_hierexport._proof.both_runs import BothRuns
from pytest_hierexport._proof.owners import Node, Owner


def lost_inputs(runs: BothRuns, call: str, node: Node, value: str) -> Iterator[tuple[int, str]]:
    """Yield the inputs that a call lost to the fusion at a node, each with its giver, which computes it from `value`.

    Others may read such an input still: a `Pad` that went into one convolution, and that a pooling reads.
    """
    return _lost(runs, call, list(runs.graph.fused_with(node, call)), value, frozenset())


def _lost(
    runs: BothRuns, call: str, partners: Sequence[Owner], value: str, through: AbstractSet[str]
) -> Iterator[tuple[int, str]]:
    if call not in runs.calls or not partners:
        return
    seen = runs.calls[call]
    kept = seen.settings | runs.stored | runs.reads(call)
    for number in (number for number in seen.inputs if number not in kept):
        for giver in _givers(runs, call, number, partners):
            # D-FINE: where several calls were fused into one node, the giver may have lost its own input to it.
            further = giver not in through and any(_lost(runs, giver, partners, value, through | {call}))
            if further or runs.computes_with(giver, value):
                yield number, giver


def _givers(runs: BothRuns, call: str, number: int, partners: Sequence[Owner]) -> Iterator[str]:
    """Yield the partners that gave an input; if no call returned it, the nearest call above that was not given it.

    GPT-2 needs the call above: its attention transposes by an operation of its own.
    """
    if number in runs.givers:
        yield from (giver for giver in runs.givers[number] if any(giver in partner.calls for partner in partners))
        return
    lineage = runs.graph.hierarchy.lineage(call) if call in runs.graph.hierarchy else ()
    for name in lineage:
        if name not in runs.calls or number not in runs.calls[name].inputs:
            yield from {partner.origin.call for partner in partners if partner.origin.call == name}
            return
