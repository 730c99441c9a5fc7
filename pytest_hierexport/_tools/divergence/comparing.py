"""Finds the calls where two graphs, or a graph and its PyTorch model, part, and those that add the errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, TypeGuard, cast

from pytest_hierexport._calls.attribution import Attribution
from pytest_hierexport._calls.hierarchy import Hierarchy
from pytest_hierexport._errors import TagError, UsageError
from pytest_hierexport._onnx.models import Model
from pytest_hierexport._proof.tolerance import Array
from pytest_hierexport._tools.divergence.added import impacts, run_parts
from pytest_hierexport._tools.divergence.against_graph import compare_with_graph
from pytest_hierexport._tools.divergence.against_model import compare_with_model
from pytest_hierexport._tools.divergence.compared import Arrays, Compared, Row
from pytest_hierexport._tools.divergence.merging import merged
from pytest_hierexport._tools.divergence.pairs import Key, Matched, Pair
from pytest_hierexport._tools.divergence.results import CallGap, Divergence, Gap, ValueGap
from pytest_hierexport._tools.divergence.sides import Inputs, Side, equal_draws, open_side
from pytest_hierexport._tools.selection import quantized_names
from pytest_hierexport._tools.tagged_file import attribution_of

if TYPE_CHECKING:
    from pytest_hierexport._proof.eager import Runnable


def diverge(
    reference: Model | Runnable,
    other: Model,
    inputs: Inputs | Sequence[Inputs] | None = None,
    *,
    attribution: Attribution | None = None,
    tolerance: float | None = None,
    depth: int | None = None,
    added: bool = True,
) -> Divergence:
    """Find where a graph parts from a reference, and which module calls add the errors.

    Args:
        reference: A tagged graph, or an example: the PyTorch model with its inputs.
        other: The graph to compare: quantized, optimized or changed. Against an example it is the tagged graph.
        inputs: The elements of the inputs by name, or an example that has them; left out where the reference is one. Of
            a sequence of these both graphs are compared on each: noise is averaged, all else is the worst of all.
        attribution: The origins of the tagged graph's nodes; None reads its tags.
        tolerance: The distance beyond which two values part, relative to their magnitude; None takes that of the
            coarser one of both dtypes.
        depth: The deepest level of calls, the root's is 0; nodes of deeper calls count for the call above them there.
            None counts each node for its own call.
        added: Whether to compute the errors that each call adds, too, and between graphs what each does to the outputs.

    Returns:
        The calls with their errors, in execution order.

    Raises:
        TagError: The tagged graph has no tags, or broken ones.
        UsageError: The inputs do not fit, a graph or the model does not run on them, or no call could be compared.
    """
    if _is_example(reference):
        with open_side(other, reference, attribution_of(other, attribution), tolerance) as side:
            return _compared(_divergence(side, compare_with_model(reference, side, depth), added=added))
    several = inputs if isinstance(inputs, Sequence) else [] if inputs is None else [inputs]
    if not several:
        raise UsageError("inputs to run both graphs on", found="none", do="give their elements, or an example")
    graph = cast("Model", reference)
    origins, others = attribution_of(graph, attribution), _attribution(other)
    matched: Matched = {}

    def on_inputs(given: Inputs) -> Divergence:
        with (
            open_side(graph, given, origins, tolerance) as first,
            open_side(other, first, others, tolerance) as side,
            equal_draws(first, side),
        ):
            compared = compare_with_graph(first, side, depth, matched)
            return _divergence(side, compared, first, added=added)

    return _compared(merged([*map(on_inputs, several)]))


def _compared(found: Divergence) -> Divergence:
    """Return what was found; where nothing is known, "no call parts" would be taken for a verdict."""
    if any(_tells(value) for call in found.calls for value in call.values):
        return found
    known = {call: call.accumulated.reason for call in found.calls if call.accumulated is not None}
    reasons, count = Counter(known.get(call, call.reason) for call in found.calls), len(found.calls)
    raise UsageError(
        "a module call of which values can be compared",
        found=f"none: {'; '.join(f'{reason} ({n} of {count} calls)' for reason, n in reasons.most_common())}",
        do="check that this is the model that the file was exported from, or a graph that a tool made of the file",
    )


def _tells(value: ValueGap) -> bool:
    """Whether a value was compared; an output of another shape and name says nothing but that the graphs differ."""
    return value.accumulated is not None and not (value.accumulated.reshaped and value.other != value.name)


def _is_example(reference: Model | Runnable) -> TypeGuard[Runnable]:
    return hasattr(reference, "kwargs")


def _attribution(model: Model) -> Attribution:
    try:
        return attribution_of(model, None)
    except TagError:
        return Attribution(Hierarchy(()))


def _parts(side: Side, compared: Compared) -> Mapping[Key, Array]:
    """Return each value of the graph as its own part computes it from the reference's values."""
    pairs: dict[str, Pair] = {}
    for pair in (row.pair for row in compared.rows if row.pair is not None):
        pairs.setdefault(pair.value, pair)
    fitting = [pair for pair in pairs.values() if pair.fits and pair.value in side.graph.producer]
    known = {pair.value: compared.arrays[pair.key].astype(pair.dtype, copy=False) for pair in fitting}
    parts = Arrays()
    for value, array in run_parts(side, known):
        parts.add(value, array)
    return parts


def _impacts(side: Side, compared: Compared, parts: Mapping[Key, Array]) -> dict[str, Gap]:
    """Return the errors of the outputs by each call; none where ONNX Runtime cannot run the changed graph."""
    changed = {
        call: {str(p.key): parts[p.value] for p in (row.pair for row in rows) if p and p.fits and p.value in parts}
        for call, rows in compared.by_call.items()
    }
    with suppress(UsageError):
        return dict(impacts(side, compared.arrays, changed))
    return {}


def _divergence(side: Side, compared: Compared, reference: Side | None = None, *, added: bool) -> Divergence:
    """Return the calls of the tagged graph.

    `side` is the graph that is compared, `reference` the one that it is compared with, if that is a graph. `added` says
    whether to compute the errors that each call adds.
    """
    parts = _parts(side, compared) if added else {}
    found = _impacts(reference, compared, parts) if reference is not None and parts else {}
    graph = compared.boundaries.graph
    hierarchy, sources = graph.hierarchy, {node.name: node for node in graph.model.graph}

    def error(row: Row) -> Gap | None:
        if row.pair is None or row.pair.value not in parts:
            return None
        return side.gap(row.pair.value, compared.arrays[row.pair.key], parts[row.pair.value])

    calls = []
    for call in dict.fromkeys((*compared.boundaries.names, *compared.by_call)):
        nodes = compared.boundaries.names.get(call, ())
        values = tuple(replace(row.value, added=error(row)) for row in compared.by_call.get(call, ()))
        adds = any(value.added for value in values)
        calls.append(
            CallGap(
                call,
                hierarchy.tag(call),
                hierarchy[call].cls,
                depth=len([*hierarchy.lineage(call)]) - 1,
                end=compared.boundaries.ends.get(call, len(graph.nodes)),
                nodes=nodes,
                values=values,
                impact=found.get(call),
                parts=tuple(quantized_names(sources[name] for name in nodes)) if adds else (),
            )
        )
    return Divergence(tuple(calls))
