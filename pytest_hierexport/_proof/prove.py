"""The proof of a case: one eager pass, one run of the graph, a verdict on every call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property, partial

from pytest_hierexport._calls.attribution import Attribution
from pytest_hierexport._onnx.models import Model, as_proto
from pytest_hierexport._proof.boundary import Graph
from pytest_hierexport._proof.eager import Mode, ModelError, Runnable, run_eager
from pytest_hierexport._proof.feeds import feeds_of
from pytest_hierexport._proof.following import following, leaves_open
from pytest_hierexport._proof.matching import match
from pytest_hierexport._proof.session import run_graph
from pytest_hierexport._proof.showing import show_graph
from pytest_hierexport._proof.unrolling import Unrolling
from pytest_hierexport._proof.values import Values
from pytest_hierexport._proof.verdict import Judge, Kind, Verdict

__all__ = ["Proof", "prove"]


@dataclass(frozen=True)
class Proof:
    """The verdict on every call that returned a tensor."""

    verdicts: Mapping[str, Verdict]
    """By call name, in the order in which the calls ended."""
    contaminated: tuple[str, ...]
    """The keys of nodes tagged with another call than those whose output they compute."""

    def counts(self) -> dict[str, int]:
        """Count the calls by verdict, every kind among them."""
        counts = Counter(verdict.kind for verdict in self.verdicts.values())
        return {kind.value: counts[kind] for kind in Kind}

    @property
    def share(self) -> float:
        """The share of proven calls among those proven, unproven and ambiguous; 1.0 where there are none."""
        counts = self.counts()
        counted = counts["proven"] + counts["unproven"] + counts["ambiguous"]
        return counts["proven"] / counted if counted else 1.0

    @cached_property
    def unproven(self) -> dict[str, Verdict]:
        """The calls whose tags are shown to be wrong, or cannot be shown to be right."""
        return {name: verdict for name, verdict in self.verdicts.items() if verdict.kind is Kind.UNPROVEN}


def prove(
    example: Runnable,
    model: Model,
    attribution: Attribution,
    *,
    tolerances: Mapping[str, float] | None = None,
) -> Proof:
    """Show, call by call, that the nodes attributed to a call turn its inputs into its outputs.

    The model is run as it is captured; where that leaves a call unproven, in the other modes as well, then so that it
    decides as the graph does what its operations leave open, and at last with coarser tolerances.

    Args:
        example: The model with the inputs to run it on. It is left as it was found.
        model: The exported model: a path, a protobuf message or an onnx_ir model. It is not changed.
        attribution: The origins of the graph's nodes.
        tolerances: Relative tolerances by dtype name, where the dtype's own does not suit.

    Raises:
        UsageError: The example's inputs do not fit those of the graph, or the graph or the model does not run on them.
    """
    with as_proto(model) as (proto, folder):
        feeds = feeds_of(example, proto)
        run = partial(run_graph, proto, feeds, folder=folder)
        unrolling = Unrolling(proto, attribution)
        unrolling.follow(lambda names: {value.name: value.arrays[0] for value in run(names)})
        graph = Graph(proto, unrolling.steps, attribution)

        def judged(mode: Mode, coarseness: float = 1) -> Proof:
            values = Values(tolerances, coarseness)
            eager = match(graph, run_eager(example, attribution.hierarchy, values, mode), cut=unrolling.cut)
            return _judged(Judge(graph, eager, values, show_graph(graph, proto, feeds, values, folder)))

        proofs = _in_modes(judged)
        best = min(proofs, key=lambda mode: len(proofs[mode].unproven))
        if not proofs[best].unproven:
            return proofs[best]
        found = [proofs[best]]
        is_open = leaves_open(proto)
        with suppress(ModelError), following(proto, feeds, run) if is_open else nullcontext():
            for coarseness in (1, _COARSER) if is_open else (_COARSER,):
                if found[-1].unproven:
                    found.append(judged(best, coarseness))
        return min(found, key=lambda proof: len(proof.unproven))


_COARSER = 10
"""How many times as far as usual values may lie apart where a model makes much of small differences."""


def _in_modes(judged: Callable[[Mode], Proof]) -> dict[Mode, Proof]:
    """Return the proofs in one mode after the other, until one leaves no call unproven.

    The graph was captured in one of the modes, and does not say in which.
    """
    proofs: dict[Mode, Proof] = {}
    for mode in Mode:
        try:
            proofs[mode] = judged(mode)
        except ModelError as error:
            failure = error
            continue
        if not proofs[mode].unproven:
            break
    if not proofs:
        raise failure
    return proofs


def _judged(judge: Judge) -> Proof:
    verdicts = [(turn.call, verdict) for turn in judge.eager if (verdict := judge.judge(turn)) is not None]
    return Proof(_by_call(verdicts), tuple(judge.contaminated()))


_WEIGHT = (Kind.UNPROVEN, Kind.PROVEN, Kind.AMBIGUOUS, Kind.DISSOLVED, Kind.FOLDED, Kind.PASS_THROUGH)
"""Which verdict on its turns says most of a call."""


def _by_call(judged: Iterable[tuple[str, Verdict]]) -> dict[str, Verdict]:
    verdicts: dict[str, Verdict] = {}
    for call, verdict in judged:
        known = verdicts.get(call, verdict)
        verdicts[call] = min(known, verdict, key=lambda v: _WEIGHT.index(v.kind))
    return verdicts
