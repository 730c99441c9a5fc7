"""Finds the values of the eager run that each value of the graph may be.

In go the graph, the elements of its inputs and the numbered values of the eager run; out come the candidates of every
value of the graph by its name. Only values that have the dtype and shape of a value of the eager run are computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import onnx
import onnx.numpy_helper

from pytest_hierexport._proof.fingerprints import fingerprint
from pytest_hierexport._proof.owners import Graph
from pytest_hierexport._proof.rounding import Rounding, dtype_name
from pytest_hierexport._proof.session import Fetched, run_graph
from pytest_hierexport._proof.tolerance import Array
from pytest_hierexport._proof.values import COARSEST, Candidates, Values

__all__ = ["find_candidates"]


def find_candidates(
    graph: Graph, proto: onnx.ModelProto, feeds: Mapping[str, Array], values: Values, folder: Path | None
) -> dict[str, Candidates]:
    """Return the candidates of the graph's inputs, initializers and computed values, by name.

    Args:
        graph: The graph.
        proto: The same graph as it can be run.
        feeds: The elements of its inputs.
        values: The values of the eager run.
        folder: The folder of the external data, if there is any.

    Raises:
        UsageError: The graph does not run on these inputs.
    """
    # A value whose shape no value of the eager run has equals none of them, and is not computed.
    foreign = {name for name, kind in _stated(proto) if name in graph.producer and not values.has_shape(*kind)}
    wanted = [value for node in graph.nodes for value in node.outputs if value not in foreign]
    found = run_graph(proto, feeds, wanted, folder)
    return {
        **{name: (values.find(fingerprint(array)),) for name, array in feeds.items()},
        **dict(_constants(graph, values, folder)),
        **dict.fromkeys(foreign, (frozenset(),)),
        **dict(_computed(Rounding(proto.graph, values.tolerances), values, found)),
    }


def _stated(proto: onnx.ModelProto) -> Iterator[tuple[str, tuple[str, tuple[int, ...]]]]:
    """Yield name, dtype and shape of every value of which the file states both dtype and shape."""
    for value in (*proto.graph.value_info, *proto.graph.output):
        kind = value.type.tensor_type
        dims = kind.shape.dim
        if kind.elem_type and kind.HasField("shape") and all(dim.HasField("dim_value") for dim in dims):
            yield value.name, (dtype_name(kind.elem_type), tuple(dim.dim_value for dim in dims))


def _constants(graph: Graph, values: Values, folder: Path | None) -> Iterator[tuple[str, Candidates]]:
    """Yield the candidates of the initializers that may be a value of the eager run."""
    for name, tensor in graph.initializers.items():
        dtype = dtype_name(tensor.data_type)
        if values.has_shape(dtype, tuple(tensor.dims)):
            array = onnx.numpy_helper.to_array(tensor, base_dir=str(folder or ""))
            yield name, (values.find(fingerprint(array, dtype)),)


def _computed(rounding: Rounding, values: Values, found: Iterable[Fetched]) -> Iterator[tuple[str, Candidates]]:
    """Yield the candidates of computed values.

    Errors that have grown may grow further, up to a limit: RT-DETR needs it, which has a softmax of large numbers.
    """
    for value in found:
        inherited = rounding.inherited(value.name)
        parts = [fingerprint(array, value.dtype) for array in value.arrays]
        candidates = tuple(values.find(part, inherited) for part in parts)
        distance = max((values.distance(*pair) for pair in zip(parts, candidates, strict=True)), default=0.0)
        own = max((values.tolerance(part.dtype) for part in parts), default=0.0)
        rounding.own[value.name] = max(own, min(_GROWTH * distance, COARSEST))
        yield value.name, candidates


_GROWTH = 4.0
"""The tolerance of a result, as a multiple of the distance at which its input was found."""
