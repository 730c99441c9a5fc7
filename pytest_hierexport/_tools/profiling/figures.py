"""The figures of a profile: by node, by module call, by class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pytest_hierexport._calls.hierarchy import Hierarchy


@dataclass(frozen=True)
class NodeProfile:
    """A node of the optimized graph. Times are medians over the runs, in microseconds."""

    key: str
    name: str
    operator: str
    tag: str | None
    """The primary tag; None for an untagged node."""
    calls: tuple[str, ...]
    """The calls that it comes from, the primary first."""
    evidence: str | None
    """The evidence for the primary; `derived` if its neighbours decided."""
    self_time: float
    """The time of the node itself; the nodes in its subgraphs have their own."""
    kernels: int
    """How often it ran in one run of the model: in a loop once per iteration."""
    output_bytes: int
    """The bytes of its outputs, all kernels added."""
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
    """With the calls that it made."""
    shared_time: float
    """The part of `self_time` in nodes that come from other calls too (merged or fused)."""
    share: float
    """`total_time` as a part of the run's time."""
    kernels: int
    """The runs of its own nodes and of those of the calls that it made."""
    output_bytes: int
    """The bytes that these nodes write."""


@dataclass(frozen=True)
class ClassProfile:
    """All calls of one class. Times in microseconds, per run of the model."""

    cls: str
    calls: int
    self_time: float
    total_time: float
    """With the calls that they made; a call within another of the same class counts once."""
    share: float
    """`self_time` as a part of the run's time: the shares of all classes do not overlap."""
    kernels: int
    """The runs of their own nodes."""
    output_bytes: int


@dataclass(frozen=True)
class KernelSlice:
    """One run of a node on the time line. Times in microseconds from the beginning of the model's run."""

    node: str | None
    """The node's key; None where it is not known."""
    name: str
    operator: str
    start: int
    duration: int
    """With the kernels in its subgraphs, which have slices of their own."""
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
    """In nodes without an origin; this and the next two are parts of the nodes' time."""
    derived_time: float
    """In nodes whose call is guessed from their neighbours."""
    shared_time: float
    """In nodes of several calls, which counts for the first of them."""
    unmatched_time: float
    """In kernels whose node is not known: several could be it, or the optimized graph could not be written."""
    outside_time: float
    """In ONNX Runtime itself, between the kernels."""
    nodes: tuple[NodeProfile, ...]
    """In the order of the graph, those that ran."""
    calls: tuple[CallProfile, ...]
    """In execution order, those that have a node that ran, or made a call that has."""
    classes: tuple[ClassProfile, ...]
    """The slowest first, by the time of their own nodes."""
    timeline: tuple[KernelSlice, ...]
    """The kernels of one run, the one of median length; those of subgraphs after the kernel that ran them."""
    hierarchy: Hierarchy
    graph: str
    """The name of the main graph."""
    coverage: Mapping[str, int]
    """The nodes of the optimized graph by evidence."""
    notes: tuple[str, ...]
    """What makes the figures less certain."""
    versions: Mapping[str, str]
    """Of the packages that ran the model, by name."""

    @property
    def unattributed(self) -> float:
        """The part of the kernels' time that no call accounts for, from 0 to 1."""
        kernels = self.run_time - self.outside_time
        return (self.untagged_time + self.unmatched_time) / kernels if kernels else 0.0
