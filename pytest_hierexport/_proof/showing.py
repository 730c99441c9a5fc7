"""Which values of the eager run the values of a graph may be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
import onnx.numpy_helper

from pytest_hierexport._proof.boundary import Graph, Node
from pytest_hierexport._proof.session import Fetched, run_graph
from pytest_hierexport._proof.values import COARSEST, Array, Shown, Values, snapshot

__all__ = ["show_graph"]

_Kinds = Mapping[str, tuple[str, tuple[int, ...]]]
"""The dtype and shape of values by their names."""


def show_graph(
    graph: Graph, proto: onnx.ModelProto, feeds: Mapping[str, Array], values: Values, folder: Path | None
) -> dict[str, Shown]:
    """Return what the graph's inputs, initializers and computed values show, by name.

    Args:
        graph: The graph.
        proto: The same graph as it can be run.
        feeds: The elements of its inputs.
        values: The values of the eager run.
        folder: Where the external data lies, if there is any.

    Raises:
        UsageError: The graph does not run on these inputs.
    """
    stated = _stated(proto)
    # A value of another shape than all of the eager run's is none of them, and not worth computing.
    foreign = {name for name, kind in stated.items() if name in graph.maker and not values.has_shape(*kind)}
    wanted = [value for node in graph.nodes for value in node.outputs if value not in foreign]
    found = run_graph(proto, feeds, wanted, folder)
    return {
        **{name: (values.find(snapshot(array)),) for name, array in feeds.items()},
        **dict(_constants(graph, values, folder)),
        **dict.fromkeys(foreign, (frozenset(),)),
        **dict(_computed(graph, values, stated, found)),
    }


def _stated(proto: onnx.ModelProto) -> _Kinds:
    """Return the kind of every value of which the file states both dtype and shape."""
    stated: dict[str, tuple[str, tuple[int, ...]]] = {}
    for value in (*proto.graph.value_info, *proto.graph.output):
        kind = value.type.tensor_type
        dims = kind.shape.dim
        if kind.elem_type and kind.HasField("shape") and all(dim.HasField("dim_value") for dim in dims):
            stated[value.name] = _dtype(kind.elem_type), tuple(dim.dim_value for dim in dims)
    return stated


def _dtype(code: int) -> str:
    return str(np.dtype(onnx.helper.tensor_dtype_to_np_dtype(code)).name)


def _constants(graph: Graph, values: Values, folder: Path | None) -> Iterator[tuple[str, Shown]]:
    """Look at the initializers that may be a value of the eager run; the others equal none."""
    for name, tensor in graph.initializers.items():
        dtype = _dtype(tensor.data_type)
        if values.has_shape(dtype, tuple(tensor.dims)):
            array = onnx.numpy_helper.to_array(tensor, base_dir=str(folder or ""))
            yield name, (values.find(snapshot(array, dtype)),)


def _computed(graph: Graph, values: Values, stated: _Kinds, found: Iterable[Fetched]) -> Iterator[tuple[str, Shown]]:
    """Look at what the nodes computed; what comes of coarsely rounded values is as coarse.

    How coarse a value is its dtype says, and how far it lies from the one that it was found to be: rounding errors
    grow on their way through a deep model.
    """
    rounding = _Rounding(graph, {value: values.tolerance(dtype) for value, (dtype, _) in stated.items()})
    for value in found:
        inherited = rounding.inherited(value.name)
        seen = [snapshot(array, value.dtype) for array in value.arrays]
        shown = tuple(values.find(part, inherited) for part in seen)
        apart = max((values.distance(*pair) for pair in zip(seen, shown, strict=True)), default=0.0)
        own = max((values.tolerance(part.dtype) for part in seen), default=0.0)
        rounding.own[value.name] = max(own, min(_GROWTH * apart, COARSEST))
        yield value.name, shown


_GROWTH = 4.0
"""How many times as far apart as what they are computed from two equal values may lie."""


@dataclass
class _Rounding:
    """How coarsely the values of a graph are rounded; they are asked for in the order of its nodes."""

    graph: Graph
    own: dict[str, float]
    """The tolerance of each value's own dtype, where that is known."""
    _all: dict[str, float] = field(default_factory=dict)
    _next: int = 0

    def inherited(self, value: str) -> float:
        """Return the largest tolerance of what a value is computed from."""
        maker = self.graph.maker[value]
        for node in self.graph.nodes[self._next : maker]:
            read = self._read(node)
            self._all.update((made, max(read, self.own.get(made, 0.0))) for made in node.outputs)
        self._next = maker
        return self._read(self.graph.nodes[maker])

    def _read(self, node: Node) -> float:
        return max((self._all.get(value, 0.0) for value in node.inputs), default=0.0)
