"""Follows rounding errors through a graph: a value inherits the largest tolerance of what it is computed from.

y = Cast<to=FLOAT16>(x)      own 1e-2
z = Cast<to=FLOAT>(y)        own 1e-4, inherited 1e-2
u = Add(z, w)                own 1e-4, inherited 1e-2
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import onnx

from pytest_hierexport._proof.subgraphs import captured
from pytest_hierexport._proof.tolerance import tolerance_of

__all__ = ["Rounding", "dtype_name"]


def dtype_name(code: int) -> str:
    """Return the name of an ONNX element type."""
    return str(np.dtype(onnx.helper.tensor_dtype_to_np_dtype(code)).name)


class Rounding:
    """The tolerances of a graph's values; asking for them in the order of the nodes takes linear time.

    Args:
        graph: The graph, its nodes in topological order.
        tolerances: Tolerances by dtype name, in place of the dtypes' own.
    """

    def __init__(self, graph: onnx.GraphProto, tolerances: Mapping[str, float]) -> None:
        """Begin with the tolerances of the dtypes that the graph states."""
        codes = {value.name: value.type.tensor_type.elem_type for value in (*graph.value_info, *graph.output)}
        self.own = {name: tolerance_of(dtype_name(code), tolerances) for name, code in codes.items() if code}
        """The tolerance of each value itself."""
        self._nodes = [(list(_inputs(node)), list(filter(None, node.output))) for node in graph.node]
        self._producer = {value: i for i, (_, outputs) in enumerate(self._nodes) for value in outputs}
        self._coarsest: dict[str, float] = {}
        self._next = 0

    def inherited(self, value: str) -> float:
        """Return the largest tolerance of what a value is computed from."""
        producer = self._producer.get(value)
        if producer is None:
            return 0.0
        for inputs, outputs in self._nodes[self._next : producer]:
            largest = self._largest(inputs)
            self._coarsest.update((output, max(largest, self.own.get(output, 0.0))) for output in outputs)
        self._next = producer
        return self._largest(self._nodes[producer][0])

    def _largest(self, values: list[str]) -> float:
        return max((self._coarsest.get(value, 0.0) for value in values), default=0.0)


def _inputs(node: onnx.NodeProto) -> Iterator[str]:
    yield from node.input
    yield from captured(node)
