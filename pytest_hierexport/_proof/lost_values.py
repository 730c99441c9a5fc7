"""Finds the inputs and outputs of a call that a fusion removed.

    model   h = norm(x); y = linear(h)          linear was given h
    graph   y = Gemm(x, folded weight)          origins norm and linear, both fused
    lost    h, which `norm` gave: no node of `linear` reads it, so `linear` may read x

ResNet and RegNet (convolutions), GPT-2 (`Conv1D`) and Swin (a pair of transposes) need lost inputs: without them 123
calls of the recorded zoo, types and 500 random architectures are unproven.

    model   h = linear(x); y = norm(h + r)       `block` calls both and adds
    graph   p = MatMul(x, w)                     origin linear
            y = SkipLayerNormalization(p, r, bias)    origins linear, block and norm, all fused
    lost    h, which `block` added to r: `linear` may read r, which it was not given

GPT-OSS after onnxscript's fusions needs lost outputs: its attention returns its weights too, and these are still there.

In go a call, a node and a value that this reads; out come the lost values, each with the other call, by
:func:`lost_inputs` and :func:`lost_outputs`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain

from pytest_hierexport._proof.both_runs import BothRuns
from pytest_hierexport._proof.owners import Node, Owner


def lost_inputs(runs: BothRuns, call: str, node: Node, value: str) -> Iterator[tuple[int, str]]:
    """Yield the inputs that a call lost to the fusion at a node, each with its giver, which computes it from `value`.

    Others may read such an input still: a `Pad` that went into one convolution, and that a pooling reads. So may the
    call itself, where a call below it lost the input that it had passed on (vit_pytorch's XCiT).
    """
    partners = () if ends_before(runs, call, node) else tuple(runs.graph.fused_with(node, call))
    below = (owner.origin.call for owner in node.owners if call in owner.calls)
    for loser in dict.fromkeys([call, *below]):
        lost = _lost(runs, loser, partners, value, frozenset())
        yield from ((number, giver) for number, giver in lost if number in runs.given(call))


def ends_before(runs: BothRuns, call: str, node: Node) -> bool:
    """Whether a node gives only what the call was given: it computes nothing of the call, so nothing was fused.

    graph   h = Gemm(x, w)  [norm, linear, fused]     y = Exp(h)  [linear]     `linear` was given h

    A pair of transposes that cancelled is in the node before it: so the node gives, in another form, what the first of
    them returned, and it is a node of the calls above as well.
    """
    below = {owner.origin.call for owner in node.owners if call in owner.calls} & runs.calls.keys()
    return all(_gives_only_inputs(runs, each, node) for each in {call, *below})


def _gives_only_inputs(runs: BothRuns, call: str, node: Node) -> bool:
    seen = runs.calls[call]
    if any(number in seen.returned for value in node.outputs for number in runs.numbers_in_any_form(value)):
        return False
    given = {number for number in seen.inputs if not runs.values[number].constant}
    outputs = (frozenset(runs.numbers(value)) for value in node.outputs)
    return all(numbers and numbers <= given for numbers in outputs)


def _lost(
    runs: BothRuns, call: str, partners: Sequence[Owner], value: str, through: AbstractSet[str]
) -> Iterator[tuple[int, str]]:
    if call not in runs.calls or not partners:  # a giver may have raised, and been caught by its caller
        return
    seen = runs.calls[call]
    nodes = [runs.graph.nodes[i] for i in runs.graph.members.get(call, ())]
    produced = {value for node in nodes for value in node.outputs}
    # The fused node may compute the lost input for the call's other nodes (Llama after onnxscript's fusions).
    read = (value for node in nodes for value in node.elements if value not in produced)
    kept = {*seen.settings, *runs.stored, *chain.from_iterable(map(runs.numbers, read))}
    for number in (number for number in seen.inputs if number not in kept):
        for giver in _givers(runs, call, number, partners):
            # D-FINE: where several calls were fused into one node, the giver may have lost its own input to it.
            further = giver not in through and any(_lost(runs, giver, partners, value, through | {call}))
            if further or _computes_with(runs, giver, value):
                yield number, giver


def _givers(runs: BothRuns, call: str, number: int, partners: Sequence[Owner]) -> Iterator[str]:
    """Yield the partners that gave an input; if no call returned it, the nearest call above that was not given it.

    GPT-2 needs the call above: its attention transposes by an operation of its own.
    """
    if number in runs.givers:
        yield from (giver for giver in runs.givers[number] if any(giver in partner.calls for partner in partners))
        return
    for name in runs.lineage(call):
        if number not in runs.given(name):
            if any(name == partner.origin.call for partner in partners):
                yield name
            if name in runs.calls:  # a call that raised may have had the input from above
                return


def _computes_with(runs: BothRuns, call: str, value: str) -> bool:
    """Whether a call was given a value of the graph, or owns the producer of it."""
    return runs.was_given(call, value) or runs.graph.producer.get(value) in runs.graph.members.get(call, ())


def lost_outputs(runs: BothRuns, call: str, node: Node, value: str) -> Iterator[tuple[int, str]]:
    """Yield the outputs that a call lost to the fusion at a node, each with the call that took it.

    There are none unless a call that was fused into the node computes with the value that the call was not given.
    """
    partners = list(dict.fromkeys(owner.origin.call for owner in runs.graph.fused_with(node, call)))
    if any(_computes_with(runs, partner, value) for partner in partners):
        seen, above = runs.calls[call], set(runs.lineage(call))
        kept = seen.inputs.keys() | runs.computed.keys() | runs.stored
        # The own operations of a call above may take what the call returned.
        takers = ((n, each) for n in seen.returned for each in partners if each in above or n in runs.given(each))
        yield from ((number, taker) for number, taker in takers if number not in kept)
