"""Describes an inlined graph: the producer and consumers of each value, and the calls that own each node.

A call owns the nodes that have an origin in it or in a call below it. For `h = Relu(x)` with the origin `layer.0.act`:

    owners    Owner(layer.0.act, {"layer.0.act", "layer.0", ""})
    members   {"layer.0.act": [0], "layer.0": [0], "": [0]}
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from pytest_hierexport._calls.attribution import Attribution, Evidence, Origin
from pytest_hierexport._calls.hierarchy import ROOT
from pytest_hierexport._onnx.operators import reads_elements
from pytest_hierexport._proof.steps import Step
from pytest_hierexport._proof.subgraphs import captured

if TYPE_CHECKING:
    import onnx

__all__ = ["Graph", "Node", "Owner"]


class Owner(NamedTuple):
    """An origin of a node, with its call and those above it."""

    origin: Origin
    calls: frozenset[str]


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the inlined graph; it counts as a consumer of what its branches read and return."""

    key: str
    operator: str
    inputs: tuple[str, ...]
    elements: tuple[str, ...]
    """The inputs whose elements it reads, not their shape or type alone."""
    outputs: tuple[str, ...]
    owners: tuple[Owner, ...]
    calls: frozenset[str]
    """The calls of all owners."""


class Graph:
    """The inlined graph of a model with the owners of its nodes.

    Args:
        proto: The model.
        steps: Its nodes, functions and branches inlined.
        attribution: The origins of its nodes, by node key.
    """

    def __init__(self, proto: onnx.ModelProto, steps: Sequence[Step], attribution: Attribution) -> None:
        """Index the graph."""
        self.hierarchy = attribution.hierarchy
        self._steps = steps
        self._attribution = attribution
        self._lineages: dict[str, frozenset[str]] = {}
        self.has_loops = any(step.inside for step in steps)
        """Whether bodies run of which no node has a step."""
        self.inputs = [value.name for value in proto.graph.input]
        self.outputs = frozenset(value.name for value in proto.graph.output)
        self.initializers = {tensor.name: tensor for tensor in proto.graph.initializer}
        self.nodes = [self._node(step) for step in steps]
        self.producer = {value: i for i, node in enumerate(self.nodes) for value in node.outputs}

    def _node(self, step: Step) -> Node:
        owners = tuple(Owner(origin, self._lineage(origin.call)) for origin in step.origins(self._attribution))
        node = step.node
        inner = tuple(filter(None, (*captured(node), *step.returned)))
        read = (value for i, value in enumerate(node.input) if reads_elements(node.domain, node.op_type, i))
        return Node(
            step.key,
            node.op_type,
            tuple(dict.fromkeys((*filter(None, node.input), *inner))),
            tuple(dict.fromkeys((*filter(None, read), *inner))),
            tuple(filter(None, node.output)),
            owners,
            frozenset().union(*(owner.calls for owner in owners)),
        )

    def _lineage(self, call: str) -> frozenset[str]:
        if call not in self._lineages:
            self._lineages[call] = frozenset(self.hierarchy.lineage(call))
        return self._lineages[call]

    @cached_property
    def in_bodies(self) -> frozenset[str]:
        """The calls that branches and loops make, whether they are entered or not."""
        found = set(self.entered)
        for key, origins in self._attribution.nodes.items():
            for holder in _holders(key):
                found |= self._above(origins) - self._above(self._attribution.nodes.get(holder, ()))
        return frozenset(found)

    @cached_property
    def entered(self) -> frozenset[str]:
        """The calls that entered branches make."""
        found: set[str] = set()
        for step in self._steps:
            if step.holders and not step.inside:
                callers = (self._above(holder.origins(self._attribution)) for holder in step.holders)
                found |= self._above(step.origins(self._attribution)).difference(*callers)
        return frozenset(found)

    def _above(self, origins: Iterable[Origin]) -> frozenset[str]:
        """Return the calls of origins, those above them and the root."""
        return frozenset((ROOT, *(name for origin in origins for name in self.hierarchy.lineage(origin.call))))

    @cached_property
    def consumers(self) -> dict[str, list[int]]:
        """The nodes that read each value."""
        consumers: dict[str, list[int]] = defaultdict(list)
        for i, node in enumerate(self.nodes):
            for value in node.inputs:
                consumers[value].append(i)
        return dict(consumers)

    @cached_property
    def members(self) -> dict[str, list[int]]:
        """The nodes that each call owns."""
        members: dict[str, list[int]] = defaultdict(list)
        for i, node in enumerate(self.nodes):
            for call in node.calls:
                members[call].append(i)
        return dict(members)

    @cached_property
    def by_elements(self) -> frozenset[str]:
        """The values that depend on the elements of a graph input, not on its shape alone."""
        found = {value for value in self.inputs if value not in self.initializers}
        for node in self.nodes:
            if not found.isdisjoint(node.elements):
                found.update(node.outputs)
        return frozenset(found)

    @cached_property
    def constants(self) -> frozenset[str]:
        """The values that the file stores: initializers and the outputs of `Constant` nodes."""
        stored = (value for node in self.nodes if node.operator == "Constant" for value in node.outputs)
        return frozenset((*self.initializers, *stored))

    def fused_with(self, node: Node, call: str) -> Iterator[Owner]:
        """Yield the owners outside a call that a fusion gave the node together with the call."""
        fused = [owner for owner in node.owners if owner.origin.evidence is Evidence.FUSED]
        if any(call in owner.calls for owner in fused):
            yield from (owner for owner in fused if call not in owner.calls)


def _holders(key: str) -> Iterator[str]:
    """Yield the keys of the nodes whose subgraphs contain a node, the outermost first."""
    start = key.rfind("//") + 2 if "//" in key else 0
    at = key.find("/", start)
    while at >= 0:
        yield key[:at]
        at = key.find("/", key.index("/", at + 1) + 1)
