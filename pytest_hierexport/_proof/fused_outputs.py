"""Finds the outputs of a call that a fusion removed: a bias that went with a residual sum into a normalisation.

    model   h = linear(x); y = norm(h + r)       `block` calls both and adds
    graph   p = MatMul(x, w)                     origin linear
            y = SkipLayerNormalization(p, r, bias)    origins linear, block and norm, all fused
    lost    h, which `block` added to r: `linear` may read r, which it was not given

GPT-OSS after onnxscript's fusions needs it: its attention returns its weights too, and these are still there.
"""

from __future__ import annotations

from collections.abc import Iterator

from pytest_hierexport._proof.both_runs import BothRuns
from pytest_hierexport._proof.owners import Node


def lost_outputs(runs: BothRuns, call: str, node: Node, value: str) -> Iterator[tuple[int, str]]:
    """Yield the outputs that a call lost to the fusion at a node, each with the call that took it.

    There are none unless a call that was fused into the node computes with the value that the call was not given.
    """
    partners = list(dict.fromkeys(owner.origin.call for owner in runs.graph.fused_with(node, call)))
    if call not in runs.calls or not any(runs.computes_with(partner, value) for partner in partners):
        return
    seen = runs.calls[call]
    kept = seen.inputs.keys() | runs.names.keys() | runs.stored
    for number in (number for number in seen.returned if number not in kept):
        yield from ((number, partner) for partner in partners if _takes(runs, partner, call, number))


def _takes(runs: BothRuns, taker: str, giver: str, number: int) -> bool:
    """Whether a call was given a value, or is above the giver: its own operations may take what the giver returned."""
    if giver in runs.graph.hierarchy and taker in runs.graph.hierarchy.lineage(giver):
        return True
    return taker in runs.calls and number in runs.calls[taker].inputs
