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

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

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


_Open = list[tuple[int, Any]]
"""The kernels, and the graph runs as tuples of kernels, that have ended, each with its start; the graph run or kernel
that contains them has not ended yet."""


def read_runs(events: Iterable[Mapping[str, Any]]) -> list[ModelRun]:
    """Return the runs of the model in a profile, in order."""
    runs: list[ModelRun] = []
    open_: _Open = []
    for event in events:
        name, category = str(event.get("name", "")), event.get("cat")
        if category == "Node" and name.endswith(_KERNEL):
            open_.append((event["ts"], _kernel(event, _pop_since(open_, event["ts"], tuple))))
        elif category == "Session" and name == _GRAPH_RUN:
            open_.append((event["ts"], _pop_since(open_, event["ts"], Kernel)))
        elif category == "Session" and name == _MODEL_RUN:
            graphs = _pop_since(open_, event["ts"], tuple)
            runs.append(ModelRun(event["ts"], event["dur"], tuple(kernel for graph in graphs for kernel in graph)))
            open_.clear()
    return runs


def _pop_since(open_: _Open, start: int, kind: type) -> tuple[Any, ...]:
    """Remove and return the last parts of a kind that began at `start` or later.

    The event that ends now began at `start`, so it contains these parts.
    """
    first = len(open_)
    while first and open_[first - 1][0] >= start and isinstance(open_[first - 1][1], kind):
        first -= 1
    taken = tuple(part for _, part in open_[first:])
    del open_[first:]
    return taken


def _kernel(event: Mapping[str, Any], subgraphs: tuple[tuple[Kernel, ...], ...]) -> Kernel:
    args = event.get("args", {})
    return Kernel(
        name=event["name"].removesuffix(_KERNEL),
        op_type=args.get("op_name", ""),
        index=args.get("node_index", ""),
        provider=args.get("provider", ""),
        start=event["ts"],
        duration=event["dur"],
        output_bytes=int(args.get("output_size", 0)),
        subgraphs=subgraphs,
    )
