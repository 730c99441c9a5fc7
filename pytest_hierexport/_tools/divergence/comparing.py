"""Finds where two graphs, or a graph and its PyTorch model, part, and which calls add the errors."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_hierexport._calls.attribution import Attribution
from pytest_hierexport._calls.hierarchy import Hierarchy
from pytest_hierexport._errors import TagError, UsageError
from pytest_hierexport._files.temporary import temporary_folder
from pytest_hierexport._tools.divergence.against_graph import compare_with_graph
from pytest_hierexport._tools.divergence.against_model import compare_with_model
from pytest_hierexport._tools.divergence.boundaries import Boundaries
from pytest_hierexport._tools.divergence.compared import Compared
from pytest_hierexport._tools.divergence.cutting import run_parts
from pytest_hierexport._tools.divergence.gaps import gap
from pytest_hierexport._tools.divergence.results import CallGap, Divergence, Gap, ValueGap
from pytest_hierexport._tools.divergence.sides import Inputs, Side, open_side, read_attribution

if TYPE_CHECKING:
    import onnx

    from pytest_hierexport._onnx.models import Model
    from pytest_hierexport._proof.eager import Runnable

__all__ = ["diverge"]


def diverge(
    reference: Model | Runnable,
    other: Model,
    inputs: Inputs | None = None,
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
        inputs: The elements of the inputs by name, or an example that has them; left out where the reference is one.
        attribution: The origins of the tagged graph's nodes; None reads its tags.
        tolerance: The distance beyond which two values part, relative to their magnitude; None takes that of the
            coarser one of both dtypes.
        depth: The deepest level of calls, the root's is 0; nodes of deeper calls count for the call above them there.
            None counts each node for its own call.
        added: Whether to compute the errors that each call adds, too.

    Returns:
        The calls with their errors, in execution order.

    Raises:
        TagError: The tagged graph has no tags, or broken ones.
        UsageError: The inputs do not fit, or a graph or the model does not run on them.
    """
    with ExitStack() as stack:
        spill = Path(stack.enter_context(temporary_folder()))

        def opened(model: Model, given: Inputs, origins: Attribution | None, *, tagged: bool) -> Side:
            read = partial(_attribution, model, origins, tagged)
            return stack.enter_context(open_side(model, given, read))

        compared: Compared[int] | Compared[str]
        if hasattr(reference, "kwargs"):
            side = opened(other, reference, attribution, tagged=True)
            compared = compare_with_model(reference, side, spill, depth, tolerance)
        elif inputs is None:
            raise UsageError("inputs to run both graphs on", found="none", do="give their elements, or an example")
        else:
            first = opened(reference, inputs, attribution, tagged=True)
            side = opened(other, inputs, None, tagged=False)
            compared = compare_with_graph(first, side, spill, depth, tolerance)
        errors = _added(side, compared, tolerance) if added else {}
        return _result(compared, errors)


def _attribution(
    model: Model, stated: Attribution | None, tagged: bool, proto: onnx.ModelProto  # noqa: FBT001  # by partial
) -> Attribution:
    if stated is not None:
        return stated
    try:
        return read_attribution(proto, model)
    except TagError:
        if tagged:
            raise
        return Attribution(Hierarchy(()))


def _added(side: Side, compared: Compared[int] | Compared[str], tolerance: float | None) -> Mapping[str, Gap]:
    """Return the error that each value of the graph gets from its own part alone."""
    pairs = {row.pair.value: row.pair for row in compared.rows if row.pair and not row.pair.gap.reason.startswith("shape")}
    arrays: Mapping[object, object] = compared.arrays
    known = {value: arrays[pair.key].astype(pair.dtype) for value, pair in pairs.items()}
    return {
        value: gap(arrays[pairs[value].key], array, tolerance) for value, array in run_parts(side, known)
    }


def _result(compared: Compared[int] | Compared[str], errors: Mapping[str, Gap]) -> Divergence:
    hierarchy = compared.graph.hierarchy
    own: dict[str, list[ValueGap]] = {}
    for row in compared.rows:
        pair = row.pair
        found = ValueGap(
            row.boundary.name,
            row.boundary.position,
            row.other,
            pair.gap if pair else None,
            errors.get(pair.value) if pair else None,
            row.reason,
        )
        for call in row.calls:
            own.setdefault(call, []).append(found)
    names = Boundaries(compared.graph, compared.depth).names
    calls = [
        CallGap(
            call,
            hierarchy.tag(call),
            hierarchy[call].cls,
            len([*hierarchy.lineage(call)]) - 1,
            names[call],
            tuple(own.get(call, ())),
        )
        for call in names
    ]
    return Divergence(tuple(calls))
