"""Reads the events of an ONNX Runtime profile as nested kernel runs.

ONNX Runtime writes an event when a node or the run of a graph ends, so the events are in postorder. The event of a node
with subgraphs follows the events of the subgraphs' runs:

    MatMul                                  ModelRun: MatMul
    Sin                                               If: [[Sin, Relu]]
    Relu
    SequentialExecutor::Execute  (the branch)
    If                           (its time contains the branch's)
    SequentialExecutor::Execute  (the main graph)
    model_run
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

_KERNEL = "_kernel_time"
_GRAPH_RUN = "SequentialExecutor::Execute"
_MODEL_RUN = "model_run"


@dataclass(frozen=True, eq=False)
class Kernel:
    """One run of a node."""

    name: str
    """The node's name; for a node without a name, its operator and an index: `Relu_1`."""
    op_type: str
    index: str
    """The node's index in its graph, which restarts in each subgraph."""
    provider: str
    start: int
    """Microseconds since the session began."""
    duration: int
    """Microseconds, including its subgraphs."""
    output_bytes: int
    subgraphs: tuple[tuple[Kernel, ...], ...] = ()
    """The kernels of each run of a subgraph: of the branch that ran, of each iteration of a loop."""

    @cached_property
    def self_time(self) -> int:
        """Microseconds in the node itself, without the nodes of its subgraphs."""
        return max(0, self.duration - sum(kernel.duration for graph in self.subgraphs for kernel in graph))


@dataclass(frozen=True)
class ModelRun:
    """One run of the model."""

    start: int
    duration: int
    kernels: tuple[Kernel, ...]
    """The kernels of the main graph."""

    @property
    def outside(self) -> int:
        """Microseconds between the kernels of the main graph: the overhead of ONNX Runtime."""
        return max(0, self.duration - sum(kernel.duration for kernel in self.kernels))


def walk_kernels(kernels: Iterable[Kernel]) -> Iterator[Kernel]:
    """Yield kernels, each followed by the kernels of its subgraphs."""
    for kernel in kernels:
        yield kernel
        for graph in kernel.subgraphs:
            yield from walk_kernels(graph)


@dataclass(frozen=True)
class _GraphRun:
    start: int
    kernels: tuple[Kernel, ...]


_Part = TypeVar("_Part", Kernel, _GraphRun)
_Open = list[Kernel | _GraphRun]
"""The kernels and graph runs that have ended; the graph run or kernel that contains them has not ended yet."""


def read_runs(events: Iterable[Mapping[str, Any]]) -> list[ModelRun]:
    """Return the runs of the model in a profile, in order."""
    runs: list[ModelRun] = []
    open_: _Open = []
    for event in events:
        name, category = str(event.get("name", "")), event.get("cat")
        if category == "Node" and name.endswith(_KERNEL):
            graphs = _pop_since(open_, event["ts"], _GraphRun)
            open_.append(_kernel(name.removesuffix(_KERNEL), event, [graph.kernels for graph in graphs]))
        elif category == "Session" and name == _GRAPH_RUN:
            open_.append(_GraphRun(event["ts"], tuple(_pop_since(open_, event["ts"], Kernel))))
        elif category == "Session" and name == _MODEL_RUN:
            graphs = _pop_since(open_, event["ts"], _GraphRun)
            runs.append(
                ModelRun(event["ts"], event["dur"], tuple(kernel for graph in graphs for kernel in graph.kernels))
            )
            open_.clear()
    return runs


def _pop_since(open_: _Open, start: int, kind: type[_Part]) -> list[_Part]:
    """Remove and return the last parts of a kind that began at `start` or later.

    The event that ends now began at `start`, so it contains these parts.
    """
    first = len(open_)
    while first and isinstance(part := open_[first - 1], kind) and part.start >= start:
        first -= 1
    taken = [part for part in open_[first:] if isinstance(part, kind)]
    del open_[first:]
    return taken


def _kernel(name: str, event: Mapping[str, Any], subgraphs: Sequence[tuple[Kernel, ...]]) -> Kernel:
    args = event.get("args", {})
    return Kernel(
        name=name,
        op_type=args.get("op_name", ""),
        index=args.get("node_index", ""),
        provider=args.get("provider", ""),
        start=event["ts"],
        duration=event["dur"],
        output_bytes=int(args.get("output_size", 0)),
        subgraphs=tuple(subgraphs),
    )
