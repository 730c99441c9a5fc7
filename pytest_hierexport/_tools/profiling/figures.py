"""The figures of a profile: by node, by module call, by class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pytest_hierexport._calls.hierarchy import Hierarchy


@dataclass(frozen=True)
class NodeProfile:
    """A node of the optimized graph, per run of the model; times in microseconds."""

    key: str
    name: str
    operator: str
    tag: str | None
    """The primary tag; None for an untagged node."""
    calls: tuple[str, ...]
    """The calls of its origins, the primary first."""
    evidence: str | None
    """The evidence for the primary origin; `derived` if the call was guessed from its neighbours."""
    self_time: float
    """The time of the node itself; the nodes in its subgraphs have their own. The median over the runs of the time of
    a kernel, times the kernels."""
    kernels: float
    """The number of times that it ran in one run of the model: in a loop, once per iteration. An average, where runs
    take other branches or iterate more often."""
    output_bytes: float
    """The size of its outputs, summed over all kernels; an average as well."""
    provider: str
    """The execution provider that ran it."""


@dataclass(frozen=True)
class CallProfile:
    """A module call, with the nodes whose primary origin it is. Times in microseconds, per run of the model."""

    call: str
    parent: str | None
    cls: str
    self_time: float
    """The time of the call's own nodes."""
    total_time: float
    """The time of the call and of all calls below it."""
    shared_time: float
    """The part of `self_time` in nodes that have origins in other calls too (merged or fused)."""
    share: float
    """`total_time` as a part of the run's time."""
    kernels: float
    """The kernels of its own nodes and of those of all calls below it."""
    output_bytes: float
    """The size of the outputs of these nodes."""


@dataclass(frozen=True)
class ClassProfile:
    """All calls of one class. Times in microseconds, per run of the model."""

    cls: str
    calls: int
    self_time: float
    total_time: float
    """The time of these calls and of all calls below them; a call below another of the same class counts once."""
    share: float
    """`self_time` as a part of the run's time: the shares of all classes do not overlap."""
    kernels: float
    """The kernels of their own nodes."""
    output_bytes: float


@dataclass(frozen=True)
class KernelSlice:
    """One run of a node on the time line. Times in microseconds from the beginning of the model's run."""

    node: str | None
    """The node's key; None if it is unknown."""
    name: str
    operator: str
    start: int
    duration: int
    """Includes the kernels of its subgraphs, which also have slices of their own."""
    level: int
    """0 in the main graph, 1 in the subgraph of one of its nodes, and so on."""


@dataclass(frozen=True)
class Profile:
    """The time of a model by node, module call and class, as ONNX Runtime ran it.

    Times are in microseconds, per run of the model: each node's median over the runs, and sums of these. The parts
    add up: `run_time` is the time of all nodes, `unmatched_time` and `outside_time`.
    """

    runs: int
    run_time: float
    untagged_time: float
    """The time in nodes without an origin; this time and the next two are parts of the nodes' time."""
    derived_time: float
    """The time in nodes whose call was guessed from their neighbours."""
    shared_time: float
    """The time in nodes of several calls; it counts for the primary."""
    unmatched_time: float
    """The time in kernels of an unknown node: several nodes match, or the optimized graph could not be written."""
    outside_time: float
    """The time between the kernels, in ONNX Runtime itself."""
    nodes: tuple[NodeProfile, ...]
    """The nodes that ran, in graph order."""
    calls: tuple[CallProfile, ...]
    """The calls with a node that ran, and the calls above these, in execution order."""
    classes: tuple[ClassProfile, ...]
    """The classes of these calls, the slowest first, by the time of their own nodes."""
    timeline: tuple[KernelSlice, ...]
    """The kernels of the run with median length, each followed by the kernels of its subgraphs."""
    hierarchy: Hierarchy
    graph: str
    """The name of the main graph."""
    coverage: Mapping[str, int]
    """The nodes of the optimized graph by evidence."""
    notes: tuple[str, ...]
    """Reasons why the figures may be less exact."""
    versions: Mapping[str, str]
    """The versions of the packages that ran the model, by package."""

    @property
    def unattributed(self) -> float:
        """The part of the kernels' time that counts for no call, from 0 to 1."""
        kernels = self.run_time - self.outside_time
        return (self.untagged_time + self.unmatched_time) / kernels if kernels else 0.0
