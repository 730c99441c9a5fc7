"""Finds the values that leave the own nodes of a call: those that a node of another call consumes, and the outputs.

    h = Linear(x) [layer.proj]    m = Mul(h, h) [layer]    y = Relu(m) [layer.act]

All three leave: `h` the nodes of `layer.proj`, `m` those of `layer`, `y` those of `layer.act`. A value whose producer
and consumers have a common call does not leave. Neither does a size, which depends on the elements of no graph input
and of no weight; a table of positions that a module projects does.

A node that holds others, such as a loop, is one unit: of its outputs nothing tells which call inside computed them. It
counts for the call that all calls of the loop have in common.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from pytest_hierexport._calls.attribution import Evidence
from pytest_hierexport._calls.hierarchy import ROOT
from pytest_hierexport._proof.inlining import key, nodes_inside
from pytest_hierexport._proof.owners import Graph, Node


@dataclass(frozen=True)
class Boundary:
    """A value that leaves the own nodes of a call."""

    name: str
    position: int
    """The place of its producer in the execution order."""
    calls: tuple[str, ...]
    """The calls whose own node its producer is."""
    left: frozenset[str]
    """The calls that return it: they own the producer, but not every consumer."""
    entered: frozenset[str]
    """The calls that are given it: they own a consumer, but not the producer."""
    is_output: bool = False
    """Whether it is an output of the graph."""


@dataclass(frozen=True)
class Boundaries:
    """The own nodes of each call, and the values that leave them."""

    graph: Graph
    depth: int | None = None
    """The deepest level of calls; nodes of deeper calls belong to the call above them on this level."""

    def calls_of(self, node: Node) -> tuple[str, ...]:
        """Return the calls whose own node a node is, the primary first."""
        owners = self.owners_of(node)
        return (self.graph.hierarchy.common(owners),) if owners and node.key in self._holders else owners

    def owners_of(self, node: Node) -> tuple[str, ...]:
        """Return the calls that own a node or one inside it, the primary first."""
        return tuple(dict.fromkeys(self._at_depth(owner.origin.call) for owner in node.owners))

    def computing(self, node: Node) -> tuple[str, ...]:
        """Return the calls that own a node, without those of the equal operations that it replaced."""
        owners = [owner.origin for owner in node.owners if owner.origin.evidence is not Evidence.MERGED]
        return tuple(dict.fromkeys(self._at_depth(origin.call) for origin in owners))

    @cached_property
    def _holders(self) -> frozenset[str]:
        """The keys of the nodes that hold others."""
        model = self.graph.model
        return frozenset(key(node) for node in model.graph if any(nodes_inside(node, model)))

    def _at_depth(self, call: str) -> str:
        if self.depth is None:
            return call
        return [*self.graph.hierarchy.lineage(call)][::-1][: self.depth + 1][-1]

    @cached_property
    def names(self) -> Mapping[str, tuple[str, ...]]:
        """The names of the own nodes of each call, of those that have one; a call inside a loop alone has none."""
        names: dict[str, dict[str, None]] = {}
        for node, source in zip(self.graph.nodes, self.graph.model.graph, strict=True):
            for call in self.calls_of(node):
                own = names.setdefault(call, {})
                if source.name:
                    own[source.name] = None
            for call in self.owners_of(node):
                names.setdefault(call, {})
        return {call: tuple(own) for call, own in names.items()}

    @cached_property
    def ends(self) -> Mapping[str, int]:
        """The place of the last own node of each call in the execution order."""
        return {call: i for i, node in enumerate(self.graph.nodes) for call in self.owners_of(node)}

    @cached_property
    def values(self) -> Mapping[str, Boundary]:
        """The values that leave, by name in execution order."""
        found = (self._leaving(i, value) for i, node in enumerate(self.graph.nodes) for value in node.outputs)
        return {each.name: each for each in found if each is not None}

    @cached_property
    def _by_numbers(self) -> frozenset[str]:
        """The values that depend on the elements of a graph input or of a weight, not on sizes alone."""
        weights = filter(self._is_weight, self.graph.initializers)
        return self.graph.by_elements | self.graph.computed_from(weights)

    def _is_weight(self, name: str) -> bool:
        """Whether an initializer is a floating tensor; a single number is a factor or the fill of a mask."""
        value = self.graph.initializers[name]
        tensor = value.const_value
        return tensor is not None and tensor.dtype.is_floating_point() and tensor.size > 1

    def _leaving(self, position: int, value: str) -> Boundary | None:
        graph, producer = self.graph, self.graph.nodes[position]
        is_output = value in graph.outputs
        if not is_output and value not in self._by_numbers:
            return None
        own = self.calls_of(producer)
        consumers = [graph.nodes[i] for i in graph.consumers.get(value, ())]
        others = [node for node in consumers if set(own).isdisjoint(self.calls_of(node))]
        if not others and not is_output:
            return None
        left = {call for node in others for call in producer.calls - node.calls}
        entered = {call for node in others for call in node.calls - producer.calls}
        if is_output:
            left |= producer.calls
            own = own or (ROOT,)  # of an untagged node: the model gives it
        return Boundary(value, position, own, frozenset(left), frozenset(entered), is_output)
