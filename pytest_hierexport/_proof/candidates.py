"""Finds the values of the eager run that each value of the graph may be.

In go the graph, the elements of its inputs and the numbered values of the eager run; out come the candidates of every
value of the graph by its name. Only values that have the dtype and shape of a value of the eager run are computed,
unless a shape that the file states proves wrong.

A value inherits the largest tolerance of what it is computed from: models with a layer in another precision need it.

    y = Cast<to=FLOAT16>(x)      own 1e-2
    z = Cast<to=FLOAT>(y)        own 1e-4, inherited 1e-2
    u = Add(z, w)                own 1e-4, inherited 1e-2
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path

import onnx
import onnx_ir as ir

from pytest_hierexport._onnx.graph import subgraphs_ir
from pytest_hierexport._onnx.models import with_types
from pytest_hierexport._proof.inlining import captured, name_of
from pytest_hierexport._proof.owners import Graph
from pytest_hierexport._proof.session import run_graph
from pytest_hierexport._proof.tolerance import Array, tolerance_of
from pytest_hierexport._proof.values import COARSEST, Candidates, Values

_GROWTH = 4.0
"""The tolerance of a result, as a multiple of the distance at which its input was found: errors that have grown may
grow further, up to a limit. RT-DETR needs it, which has a softmax of large numbers."""


def find_candidates(
    graph: Graph,
    proto: onnx.ModelProto,
    feeds: Mapping[str, Array],
    values: Values,
    folder: Path | None,
    *,
    rearranged: AbstractSet[str] = frozenset(),
) -> dict[str, Candidates]:
    """Return the candidates of the graph's inputs, initializers and computed values, by name.

    Args:
        graph: The graph.
        proto: The same graph as it can be run.
        feeds: The elements of its inputs.
        values: The values of the eager run.
        folder: The folder of the external data, if there is any.
        rearranged: The values that may be transpositions or reshapes of values of the eager run.

    Raises:
        UsageError: The graph does not run on these inputs.
    """
    outputs = [value for node in graph.model.graph for value in node.outputs]
    unnamed = frozenset(name_of(value) for value in outputs if not value.name)
    # The graph's own results show whether the stated shapes are right.
    other = frozenset(name_of(value) for value in outputs if not _may_equal(value, values)).difference(graph.outputs)
    search = _Search(graph, proto, feeds, values, folder, rearranged)
    found = search.run(unnamed | (other - rearranged))
    # TorchScript states the shape of the branch that is not taken (torchvision's detectors, where NMS finds no box).
    return found if search.as_stated else search.run(unnamed)


@dataclass
class _Search:
    """Computes the values of a graph and looks each up among those of the eager run."""

    graph: Graph
    proto: onnx.ModelProto
    feeds: Mapping[str, Array]
    values: Values
    folder: Path | None
    rearranged: AbstractSet[str]
    as_stated: bool = True
    """Whether every value that was computed has the shape that the file states for it."""

    def run(self, foreign: AbstractSet[str]) -> dict[str, Candidates]:
        """Return the candidates of each value; none of those in `foreign`, which are not computed."""
        graph, values = self.graph, self.values
        names = (name_of(value) for node in graph.model.graph for value in node.outputs)
        computed = run_graph(self.proto, self.feeds, [name for name in names if name not in foreign], self.folder)
        given = {**self.feeds, **dict(_constants(graph, values, self.rearranged))}
        found: dict[str, Candidates] = {name: (self._find(name, array),) for name, array in given.items()}
        found.update(dict.fromkeys(foreign, (frozenset(),)))

        def tolerance(value: ir.Value, inherited: float) -> float:
            """Find the candidates of a value; return the tolerance that its elements show."""
            name = name_of(value)
            if name in foreign:
                return 0.0
            arrays = next(computed).arrays
            shape = _stated_shape(value)
            self.as_stated &= shape is None or all(array.shape == shape for array in arrays)
            parts = list(map(values.fingerprint, arrays))
            candidates = found[name] = tuple(self._find(name, array, inherited) for array in arrays)
            distances = (values.distance(*pair) for pair in zip(parts, candidates, strict=True))
            grown = min(_GROWTH * max(distances, default=0.0), COARSEST)
            return max([grown, *(values.tolerance(part.dtype) for part in parts)])

        coarsest(graph.model.graph, lambda value: values.tolerance(dtype_name(value)), tolerance)
        return found

    def _find(self, name: str, array: Array, inherited: float = 0) -> frozenset[int]:
        if name in self.rearranged:
            return self.values.find_rearranged(array, inherited)
        return self.values.find(self.values.fingerprint(array), inherited)


def _stated_shape(value: ir.Value) -> tuple[int, ...] | None:
    """Return the shape that the file states for a tensor; None where it leaves it open."""
    shape = value.shape if isinstance(value.type, ir.TensorType) else None
    return tuple(shape.numpy()) if shape is not None and shape.is_static() else None


def _may_equal(value: ir.Value, values: Values) -> bool:
    """Whether the file leaves open the shape of a value, or a value of the eager run has its dtype and shape."""
    shape = _stated_shape(value)
    return shape is None or values.has_shape(dtype_name(value), shape)


def _constants(graph: Graph, values: Values, rearranged: AbstractSet[str]) -> Iterator[tuple[str, Array]]:
    """Yield the initializers that may be a value of the eager run."""
    for name, value in graph.initializers.items():
        tensor = value.const_value
        if tensor is None:
            continue
        if name in rearranged or values.has_shape(tensor.dtype.numpy().name, tuple(tensor.shape.numpy())):
            yield name, tensor.numpy()


def coarsest(
    graph: ir.Graph,
    stated: Callable[[ir.Value], float],
    measured: Callable[[ir.Value, float], float] = lambda _value, _inherited: 0.0,
) -> dict[str, float]:
    """Return the largest tolerance among each computed value and all that it is computed from.

    What branches and loops compute is among that.

    Args:
        graph: The graph, its nodes in topological order.
        stated: Gives the tolerance of a value by what the file says of it.
        measured: Gives another one, given the inherited one. Values come in the order of the nodes.
    """
    found: dict[str, float] = {}
    for node in graph:
        inputs = (*map(name_of, node.inputs), *captured(node))
        inner = (value for _, body in subgraphs_ir(node) for each in body.all_nodes() for value in each.outputs)
        inherited = max([0.0, *(found.get(value, 0.0) for value in inputs), *map(stated, inner)])
        for value in node.outputs:
            found[name_of(value)] = max(inherited, stated(value), measured(value, inherited))
    return found


def stated_tolerances(proto: onnx.ModelProto, stated: Mapping[str, float]) -> dict[str, float]:
    """Return the tolerance of each computed value, its inherited one among that, by the dtypes that the file states.

    Args:
        proto: The graph.
        stated: Tolerances by dtype name that replace the dtypes' own.
    """
    return coarsest(with_types(proto).graph, lambda value: tolerance_of(dtype_name(value), stated))


def dtype_name(value: ir.Value) -> str:
    """Return the name of the dtype that the file states for a value; empty where it states none."""
    return str(value.dtype.numpy().name) if value.dtype else ""
