"""Prepares a graph to be run: its functions and the taken branches are expanded, the inputs are fitted to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_hierexport._calls.attribution import Attribution
from pytest_hierexport._onnx.graph import fitted_inputs, graph_inputs
from pytest_hierexport._onnx.models import Model, as_proto
from pytest_hierexport._proof.candidates import coarsest, dtype_name
from pytest_hierexport._proof.choices import drawn, holding
from pytest_hierexport._proof.eager import Runnable
from pytest_hierexport._proof.feeds import feeds_of
from pytest_hierexport._proof.inlining import inlined
from pytest_hierexport._proof.owners import Graph
from pytest_hierexport._proof.session import run_graph
from pytest_hierexport._proof.tolerance import Array, tolerance_of
from pytest_hierexport._tools.divergence.gaps import gap
from pytest_hierexport._tools.divergence.results import Gap

TEXTS = "OSU"
"""The kinds of arrays of texts in NumPy, which have no distances."""

if TYPE_CHECKING:
    import onnx
    import onnx_ir as ir

Inputs = Mapping[str, Array] | Runnable


@dataclass(frozen=True)
class Side:
    """A graph with its inputs."""

    graph: Graph
    proto: onnx.ModelProto
    feeds: Mapping[str, Array]
    folder: Path | None
    """The folder of its external data."""
    tolerance: float | None
    """The relative tolerance, in place of the dtypes' own."""

    def gap(self, value: str, reference: Array, array: Array) -> Gap:
        """Measure how far a value of this name lies from the reference."""
        return gap(reference, array, self.tolerance, self._inherited.get(value, 0.0))

    @cached_property
    def _inherited(self) -> Mapping[str, float]:
        """The largest tolerance of each value and of all that it is computed from, where the file states dtypes."""

        def stated(value: ir.Value | None) -> float:
            return 0.0 if value is None or value.dtype is None else tolerance_of(dtype_name(value))

        def of_inputs(value: ir.Value, _: float) -> float:
            producer = value.producer()
            return max(map(stated, producer.inputs if producer else ()), default=0.0)

        return coarsest(self.graph.model.graph, stated, of_inputs)

    def fetch(self, names: Iterable[str]) -> Iterator[tuple[str, Array]]:
        """Yield the named tensors of numbers: those that nodes compute, then inputs and initializers."""
        wanted = dict.fromkeys(names)
        computed = [name for name in wanted if name in self.graph.producer]
        for found in run_graph(self.proto, self.feeds, computed, self.folder):
            if found.arrays and not found.is_sequence and found.arrays[0].dtype.kind not in TEXTS:
                yield found.name, found.arrays[0]
        for name in (name for name in wanted if name not in self.graph.producer):
            tensor = self.graph.initializers[name].const_value if name in self.graph.initializers else None
            array = self.feeds.get(name) if tensor is None else tensor.numpy()
            if array is not None and array.dtype.kind not in TEXTS:
                yield name, array


@contextmanager
def open_side(model: Model, inputs: Inputs | Side, attribution: Attribution, tolerance: float | None) -> Iterator[Side]:
    """Give a graph with its inputs: an example, elements by name, or those of another graph, which may name them anew.

    Raises:
        UsageError: The inputs do not fit, or the graph does not run on them.
    """
    with as_proto(model) as (message, folder):
        if isinstance(inputs, Side):
            named: Mapping[str, Array] = _renamed(message, inputs.feeds)
        else:
            named = inputs if isinstance(inputs, Mapping) else feeds_of(inputs, message)
        feeds = fitted_inputs(message.graph, named)
        flat, proto = inlined(message, feeds, folder)
        yield Side(Graph(flat, attribution), proto, feeds, folder, tolerance)


@contextmanager
def equal_draws(reference: Side, other: Side) -> Iterator[None]:
    """Let the other graph draw the random numbers of the reference, and each graph the same in all its runs."""
    first, own = (dict(side.fetch(drawn(side.proto))) for side in (reference, other))
    for name in first.keys() & own.keys():
        if first[name].shape == own[name].shape:
            own[name] = first[name].astype(own[name].dtype)
    with holding(reference.proto, first), holding(other.proto, own):
        yield


def _renamed(proto: onnx.ModelProto, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Return the inputs of a reference by another graph's names: a tool may drop inputs, or rename them in order."""
    names = [value.name for value in graph_inputs(proto.graph)]
    return {name: inputs[old] for old, name in matched_names([*inputs], names)}


def matched_names(reference: Sequence[str], other: Sequence[str]) -> list[tuple[str, str]]:
    """Return the inputs or outputs of two graphs that correspond: those of one name, and the others in order.

    The others are left out where one graph has more of them.
    """
    known, given = dict.fromkeys(reference), dict.fromkeys(other)
    same = [(name, name) for name in known if name in given]
    lost = [name for name in reference if name not in given]
    new = [name for name in other if name not in known]
    return [*same, *zip(lost, new, strict=True)] if len(lost) == len(new) else same
