"""Finds the values that leave the own nodes of a call: those that a node of another call consumes, and the outputs.

    h = Linear(x) [layer.proj]    m = Mul(h, h) [layer]    y = Relu(m) [layer.act]

All three leave: `h` the nodes of `layer.proj`, `m` those of `layer`, `y` those of `layer.act`. A value whose producer
and consumers have a common call does not leave. Neither does a size, which depends on the elements of no graph input.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

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


@dataclass(frozen=True)
class Boundaries:
    """The own nodes of each call, and the values that leave them."""

    graph: Graph
    depth: int | None = None
    """The deepest level of calls; nodes of deeper calls belong to the call above them on this level."""

    def calls_of(self, node: Node) -> tuple[str, ...]:
        """Return the calls whose own node a node is, the primary first."""
        return tuple(dict.fromkeys(self._at_depth(owner.origin.call) for owner in node.owners))

    def _at_depth(self, call: str) -> str:
        if self.depth is None:
            return call
        return [*self.graph.hierarchy.lineage(call)][::-1][: self.depth + 1][-1]

    @cached_property
    def names(self) -> Mapping[str, tuple[str, ...]]:
        """The names of the own nodes of each call, of those that have one."""
        names: dict[str, dict[str, None]] = {}
        for node, source in zip(self.graph.nodes, self.graph.model.graph, strict=True):
            for call in self.calls_of(node):
                own = names.setdefault(call, {})
                if source.name:
                    own[source.name] = None
        return {call: tuple(own) for call, own in names.items()}

    @cached_property
    def ends(self) -> Mapping[str, int]:
        """The place of the last own node of each call in the execution order."""
        return {call: i for i, node in enumerate(self.graph.nodes) for call in self.calls_of(node)}

    @cached_property
    def values(self) -> Mapping[str, Boundary]:
        """The values that leave, by name in execution order."""
        found = (self._leaving(i, value) for i, node in enumerate(self.graph.nodes) for value in node.outputs)
        return {each.name: each for each in found if each is not None}

    def _leaving(self, position: int, value: str) -> Boundary | None:
        graph, producer = self.graph, self.graph.nodes[position]
        if value not in graph.by_elements:
            return None
        own = self.calls_of(producer)
        consumers = [graph.nodes[i] for i in graph.consumers.get(value, ())]
        others = [node for node in consumers if set(own).isdisjoint(self.calls_of(node))]
        if not others and value not in graph.outputs:
            return None
        left = {call for node in others for call in producer.calls - node.calls}
        entered = {call for node in others for call in node.calls - producer.calls}
        if value in graph.outputs:
            left |= producer.calls
        return Boundary(value, position, own, frozenset(left), frozenset(entered))
