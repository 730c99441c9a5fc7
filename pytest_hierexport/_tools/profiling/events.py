"""Reads the events of an ONNX Runtime profile as nested kernel runs.

ONNX Runtime writes an event when what it describes ends, so the events are in postorder. Each run of a graph ends with
an event of its own, and the event of a node that runs subgraphs follows those of their runs:

    MatMul                                  Run: MatMul
    Sin                                          If: [[Sin, Relu]]
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
from typing import Any

__all__ = ["Kernel", "Run", "read_runs", "walk_kernels"]

_KERNEL = "_kernel_time"
_GRAPH_RUN = "SequentialExecutor::Execute"
_MODEL_RUN = "model_run"


@dataclass(frozen=True, eq=False)
class Kernel:
    """One run of a node."""

    name: str
    """The node's name; of a node without one, its operator and an index: `Relu_1`."""
    op_type: str
    index: str
    """The node's index in its graph, which restarts in each subgraph."""
    provider: str
    start: int
    """Microseconds since the session began."""
    duration: int
    """Microseconds, those of its subgraphs included."""
    output_bytes: int
    subgraphs: tuple[tuple[Kernel, ...], ...] = ()
    """The kernels of each run of a subgraph: of the branch that was taken, of each iteration of a loop."""

    @cached_property
    def self_time(self) -> int:
        """Microseconds in the node itself, those of the nodes in its subgraphs left out."""
        return max(0, self.duration - sum(kernel.duration for graph in self.subgraphs for kernel in graph))


@dataclass(frozen=True)
class Run:
    """One run of the model."""

    start: int
    duration: int
    kernels: tuple[Kernel, ...]
    """Those of the main graph."""

    @property
    def outside(self) -> int:
        """Microseconds between the kernels of the main graph: what ONNX Runtime itself takes."""
        return max(0, self.duration - sum(kernel.duration for kernel in self.kernels))


def walk_kernels(kernels: Iterable[Kernel]) -> Iterator[Kernel]:
    """Yield kernels and those of their subgraphs."""
    for kernel in kernels:
        yield kernel
        for graph in kernel.subgraphs:
            yield from walk_kernels(graph)


def read_runs(events: Iterable[Mapping[str, Any]]) -> list[Run]:
    """Return the runs of the model in a profile, in order."""
    runs: list[Run] = []
    # The kernels and graph runs that ended and that nothing contains so far.
    open_: list[Kernel | tuple[Kernel, ...]] = []
    for event in events:
        name, category = str(event.get("name", "")), event.get("cat")
        if category == "Node" and name.endswith(_KERNEL):
            open_.append(_kernel(name.removesuffix(_KERNEL), event, _pop_graphs(open_)))
        elif category == "Session" and name == _GRAPH_RUN:
            open_.append(_pop_since(open_, event["ts"]))
        elif category == "Session" and name == _MODEL_RUN:
            kernels = tuple(kernel for graph in _pop_graphs(open_) for kernel in graph)
            runs.append(Run(event["ts"], event["dur"], kernels))
            open_.clear()
    return runs


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


def _pop_graphs(open_: list[Kernel | tuple[Kernel, ...]]) -> list[tuple[Kernel, ...]]:
    """Take the graph runs at the end: they are those of the node whose event comes next."""
    found: list[tuple[Kernel, ...]] = []
    while open_ and isinstance(graph := open_[-1], tuple):
        found.insert(0, graph)
        open_.pop()
    return found


def _pop_since(open_: list[Kernel | tuple[Kernel, ...]], start: int) -> tuple[Kernel, ...]:
    """Take the kernels at the end that began with the graph's run or later."""
    first = len(open_)
    while first and isinstance(kernel := open_[first - 1], Kernel) and kernel.start >= start:
        first -= 1
    taken = tuple(kernel for kernel in open_[first:] if isinstance(kernel, Kernel))
    del open_[first:]
    return taken
