"""Proves the tags of a case: an eager run and a run of the graph give a verdict on every call.

The first attempt runs the model once, as `torch.export` captures it, and the graph once; where nodes are fused and a
call is left dissolved or unproven, the graph runs a second time. The first attempt leaves no call unproven on the zoo
and 500 random architectures. Retries follow while a call is left unproven; docs/proof.md says which models need which.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import product
from pathlib import Path

import onnx
import torch

from pytest_hierexport._calls.attribution import Attribution, Evidence
from pytest_hierexport._display import Shown, Table
from pytest_hierexport._errors import UsageError
from pytest_hierexport._onnx.models import Model, as_proto
from pytest_hierexport._proof.both_runs import BothRuns
from pytest_hierexport._proof.call_values import EagerCall
from pytest_hierexport._proof.candidates import find_candidates
from pytest_hierexport._proof.choices import following_choices, has_choices
from pytest_hierexport._proof.eager import Mode, ModelError, Runnable, in_each, run_eager
from pytest_hierexport._proof.feeds import feeds_of
from pytest_hierexport._proof.in_float64 import in_float64
from pytest_hierexport._proof.inlining import inlined
from pytest_hierexport._proof.loose import LooseOwner, loose_owners, pairs
from pytest_hierexport._proof.matching import match
from pytest_hierexport._proof.owners import Graph
from pytest_hierexport._proof.precision import half_precision, rounding_bounds
from pytest_hierexport._proof.session import run_graph
from pytest_hierexport._proof.tolerance import Array, check_tolerances
from pytest_hierexport._proof.values import Values
from pytest_hierexport._proof.verdict import Verdict, VerdictKind, contaminated, judge
from pytest_hierexport._stages import stage


@dataclass(frozen=True)
class Proof(Shown):
    """The verdict on every call that returned a tensor."""

    verdicts: Mapping[str, Verdict]
    """By call name, in the order in which the calls ended."""
    contaminated: Mapping[str, tuple[str, ...]]
    """The keys of nodes tagged with another call than those whose output they compute, each with these calls."""
    loose: tuple[LooseOwner, ...] = ()
    """The owners too many: the call's nodes do not consume the node, it gave no value of it, and another owner does."""
    pairs: int = 0
    """The number of pairs of a node and an owner, of which the loose ones are a share."""

    def __repr__(self) -> str:
        """Return the number of calls by verdict, and the number of loose owners."""
        listed = [f"{kind} {count}" for kind, count in self.counts().items() if count]
        loose = [f"{len(self.loose)} loose owners"] if self.loose else []
        return f"<proof of {len(self.verdicts)} calls: {', '.join([*listed, *loose]) or 'none'}>"

    def _table(self) -> Table:
        shown = ((name, verdict.kind.value, verdict.reason) for name, verdict in self.verdicts.items())
        return Table.of(repr(self), ("call", "verdict", "reason"), sorted(shown, key=lambda row: not row[2]))

    def counts(self) -> dict[str, int]:
        """Count the calls by verdict, every kind among them."""
        counts = Counter(verdict.kind for verdict in self.verdicts.values())
        return {kind.value: counts[kind] for kind in VerdictKind}

    @property
    def share(self) -> float:
        """The share of proven calls among those proven, unproven and ambiguous; 1.0 where there are none."""
        counts = self.counts()
        counted = counts["proven"] + counts["unproven"] + counts["ambiguous"]
        return counts["proven"] / counted if counted else 1.0

    @cached_property
    def unproven(self) -> dict[str, Verdict]:
        """The calls whose tags are shown to be wrong, or cannot be shown to be right."""
        return {name: verdict for name, verdict in self.verdicts.items() if verdict.kind is VerdictKind.UNPROVEN}


@stage("proving the tags")
def prove(
    example: Runnable,
    model: Model,
    attribution: Attribution,
    *,
    tolerances: Mapping[str, float] | None = None,
) -> Proof:
    """Show, call by call, that the nodes attributed to a call turn its inputs into its outputs.

    Where a call is left unproven, the model runs in its other modes. Then it is watched operation by operation, then it
    follows the graph's choices (random numbers and orders), and its values are compared with coarser tolerances and as
    far as rounding moves them. At last the graph computes in float64.

    Args:
        example: The model with the inputs to run it on. It is left as :func:`export` leaves it, as are random numbers.
        model: The exported model: a path, a protobuf message or an onnx_ir model. It is not changed.
        attribution: The origins of the graph's nodes.
        tolerances: Relative tolerances by dtype name, in place of the dtypes' own.

    Raises:
        UsageError: The example's inputs do not fit those of the graph, or the graph or the model does not run on them;
            or the example or the model is something else, or a tolerance is of no floating dtype, or below zero.
    """
    check_tolerances(tolerances or {})
    with torch.random.fork_rng(devices=[]), as_proto(model) as (message, folder):
        return _Pairing.of(example, message, attribution, folder, tolerances or {}).best_proof()


def run_both(example: Runnable, proto: onnx.ModelProto, attribution: Attribution, folder: Path | None) -> BothRuns:
    """Run the model as `torch.export` captures it, and the graph, once each.

    Raises:
        UsageError: The example's inputs do not fit those of the graph, or the graph or the model does not run on them.
    """
    pairing, values = _Pairing.of(example, proto, attribution, folder, {}), Values()
    return pairing.both_runs(run_eager(example, pairing.graph.hierarchy, values, Mode.EXPORTING), values)


_COARSER = 10
"""The factor on the tolerances in the retries that measure rounding as well: RT-DETR takes a softmax of large numbers,
VITS an exponential, pe_audio adds small numbers to a product of large ones. DAC needs it for its choices, too: each of
its quantizers takes the nearest code of what is left of large numbers."""


@dataclass(frozen=True)
class _Pairing:
    """A graph and its model."""

    example: Runnable
    graph: Graph
    proto: onnx.ModelProto
    feeds: Mapping[str, Array]
    folder: Path | None
    tolerances: Mapping[str, float]

    @classmethod
    def of(
        cls,
        example: Runnable,
        message: onnx.ModelProto,
        attribution: Attribution,
        folder: Path | None,
        tolerances: Mapping[str, float],
    ) -> _Pairing:
        """Pair a model with its graph, functions and taken branches inlined."""
        feeds = feeds_of(example, message)
        flat, proto = inlined(message, feeds, folder)
        return cls(example, Graph(flat, attribution), proto, feeds, folder, tolerances)

    def best_proof(self) -> Proof:
        """Return the first proof that leaves no call unproven, else the one that leaves the fewest, or dissolved.

        Raises:
            ModelError: The model runs in no mode.
        """
        proofs = self.proofs()
        best = next(proofs)
        if self.precision and best.counts()["dissolved"]:
            # A value that a tool computes in another dtype looks lost, so its calls are dissolved, not unproven (a
            # layer normalisation, a linear layer and GELU in float16). The next attempt compares across dtypes; a call
            # that is still dissolved there lost its value to a fusion.
            best = min(best, next(proofs, best), key=self._left)
        while best.unproven and (proof := next(proofs, None)) is not None:
            best = min(best, proof, key=self._left)
        return best

    def _left(self, proof: Proof) -> tuple[bool, int, int]:
        """Return whether a proof fails, which half precision leaves open, and the calls left unproven or dissolved.

        A call is dissolved, too, where an attempt hides its values: behind other random numbers, or in another dtype.
        """
        dissolved = proof.counts()["dissolved"]
        return bool(proof.unproven) and not self.precision, len(proof.unproven) + dissolved, dissolved

    @cached_property
    def precision(self) -> str:
        """The dtype of half precision in the model or the graph; empty where there is none."""
        return half_precision(self.example, self.proto)

    @cached_property
    def fused(self) -> frozenset[str]:
        """The values that fused nodes produce or consume, and those that constant folding left."""
        fused = (node for node in self.graph.nodes if any(o.origin.evidence is Evidence.FUSED for o in node.owners))
        found = (value for node in fused for value in (*node.inputs, *node.outputs))
        return self.graph.folded_initializers.union(found)

    def proofs(self) -> Iterator[Proof]:
        """Yield proofs, the one that most often suffices first.

        Raises:
            ModelError: The model runs in no mode.
        """
        best: tuple[tuple[bool, int, int], tuple[Mode, str]] | None = None
        known: list[object] = []
        ways = product(Mode, ("", self.precision) if self.precision else ("",))
        for way, (calls, values) in in_each(ways, lambda way: self._eager_run(*way)):
            # Most models give equal values in all modes: the graph need not run again (40 s of efficientnet).
            if (evidence := (values.precision, values.digests, calls)) in known:
                continue
            known.append(evidence)
            yield (proof := self._judged(calls, values))
            if best is None or self._left(proof) < best[0]:
                best = self._left(proof), way
        assert best is not None, "the model runs in one mode, or an error was raised"  # noqa: S101
        left, way = best
        by_operation = False
        with suppress(ModelError):
            calls, values = self._eager_run(*way, by_operation=True)
            if (values.precision, values.digests, calls) not in known:
                yield (proof := self._judged(calls, values))
                by_operation = self._left(proof) < left
        run = partial(run_graph, self.proto, self.feeds, folder=self.folder)
        with suppress(UsageError):
            for measured in (False, True) if has_choices(self.proto) else (True,):
                tolerance = Values(self.tolerances, _COARSER if measured else 1).tolerance
                with following_choices(self.proto, run, tolerance) as restart:
                    found = self._eager_run(*way, restart if measured else None, by_operation=by_operation)
                    proof = self._judged(*found)
                    finer = replace(self, proto=in_float64(self.proto)) if measured else self
                yield proof
            # Of its own, for what it rounds otherwise: RT-DETR needs the float32 of the graph (3 calls), YOLO float64.
            yield finer._judged(*found)

    def _eager_run(
        self, mode: Mode, precision: str, restart: Callable[[], None] | None = None, *, by_operation: bool = False
    ) -> tuple[list[EagerCall], Values]:
        """Run the model in a mode; return its calls and their values.

        Args:
            mode: The way in which the model runs.
            precision: The dtype of half precision that tensors are rounded to; empty: each keeps its own.
            restart: Called before a second run, which measures how far rounding moves the values: it makes the graph's
                choices again. Without it, only half precision is measured, and no tolerance is coarser.
            by_operation: Whether calls also have the values that their operations take from each other.
        """
        values = Values(self.tolerances, 1 if restart is None else _COARSER, precision)
        calls = run_eager(self.example, self.graph.hierarchy, values, mode, by_operation=by_operation)
        # A tolerance of the user's is not widened.
        if not self.tolerances and (precision or restart is not None):
            if restart is not None:
                restart()
            values.bounds = rounding_bounds(self.example, self.graph.hierarchy, mode, values, calls)
        return calls, values

    def _judged(self, calls: Sequence[EagerCall], values: Values) -> Proof:
        """Run the graph beside a run of the model, and judge the calls.

        Where a call is left unproven or dissolved, values at fused nodes may have other forms: ONNX Runtime keeps the
        channels of images in blocks, and simplifiers put reshapes around a `Gemm`. Then the verdicts are those of all
        forms, for more of the graph is seen: of ResNet in ONNX Runtime, 17 calls are proven so and not 5.
        """
        runs = self.both_runs(calls, values)
        proof = _proof(runs)
        counts = proof.counts()
        if self.fused and counts["unproven"] + counts["dissolved"]:
            found = find_candidates(self.graph, self.proto, self.feeds, values, self.folder, rearranged=self.fused)
            runs = replace(runs, rearranged={name: found[name] for name in self.fused & found.keys()})
            proof = _proof(runs)
        return proof

    def both_runs(self, calls: Sequence[EagerCall], values: Values) -> BothRuns:
        """Run the graph, and put it beside a run of the model."""
        candidates = find_candidates(self.graph, self.proto, self.feeds, values, self.folder)
        return BothRuns(self.graph, match(self.graph, calls), values, candidates)


def _proof(runs: BothRuns) -> Proof:
    verdicts = ((call, judge(runs, call)) for call in runs.calls)
    found = {call: verdict for call, verdict in verdicts if verdict is not None}
    return Proof(found, contaminated(runs), tuple(loose_owners(runs)), pairs(runs))
