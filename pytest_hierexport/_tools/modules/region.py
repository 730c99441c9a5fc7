"""Finds the boundary of a set of nodes: the values that enter it, and those that leave it.

    h = MatMul(x, w)     layer.0           nodes     h, y
    y = If(c, then_branch: {Add(h, b)})    entering  x, w, c, b
    z = Relu(y)                            leaving   y

A node and its subgraphs are one unit. A value that a subgraph consumes from outside counts as an input of the node; a
consumer in a subgraph counts as the node that holds the subgraph.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import onnx_ir as ir

from pytest_hierexport._calls.attribution import Attribution, Origins
from pytest_hierexport._calls.hierarchy import Hierarchy
from pytest_hierexport._onnx.graph import inventory_ir, subgraphs_ir
from pytest_hierexport._onnx.order import topological_order

_ORIGINS = "hierexport.origins"


def keep_origins(model: ir.Model, attribution: Attribution) -> None:
    """Store the origins on the nodes and initializers (`meta`): so they survive clones and changes of keys."""
    parts = inventory_ir(model)
    for key, node in parts.nodes:
        node.meta[_ORIGINS] = attribution.nodes.get(key, ())
    for key, value in parts.initializers:
        value.meta[_ORIGINS] = attribution.initializers.get(key, ())


def origins_of(part: ir.Node | ir.Value) -> Origins:
    """Return the origins that are stored on a node or an initializer."""
    origins: Origins = part.meta.get(_ORIGINS, ())
    return origins


def note_origins(part: ir.Node | ir.Value, origins: Origins) -> None:
    """Replace the origins that are stored on a node or an initializer."""
    part.meta[_ORIGINS] = origins


def attribution_on(model: ir.Model, hierarchy: Hierarchy) -> Attribution:
    """Return the attribution by the origins that are stored on the parts of a model."""
    parts = inventory_ir(model)
    return Attribution(
        hierarchy,
        {key: origins_of(node) for key, node in parts.nodes},
        {key: origins_of(value) for key, value in parts.initializers},
    )


def holders(model: ir.Model) -> dict[ir.Graph, ir.Node]:
    """Return the node that holds each subgraph of the main graph."""
    nodes = model.graph.all_nodes()
    return {graph: node for node in nodes for _, graph in subgraphs_ir(node)}


def nodes_inside(nodes: Iterable[ir.Node]) -> Iterator[ir.Node]:
    """Yield nodes, each followed by the nodes of its subgraphs."""
    for node in nodes:
        yield node
        for _, graph in sorted(subgraphs_ir(node), key=lambda item: item[0]):
            yield from nodes_inside(graph)


def values_in(graph: ir.Graph) -> Iterator[ir.Value]:
    """Yield the inputs and initializers of a graph and of all subgraphs, and the outputs of their nodes."""
    yield from (*graph.inputs, *graph.initializers.values())
    for node in graph:
        yield from node.outputs
        for _, below in subgraphs_ir(node):
            yield from values_in(below)


def operands(node: ir.Node) -> Iterator[ir.Value]:
    """Yield the inputs of a node and of the nodes in its subgraphs, and the subgraphs' outputs."""
    for inner in nodes_inside([node]):
        yield from (value for value in inner.inputs if value is not None)
        for _, graph in subgraphs_ir(inner):
            yield from graph.outputs


@dataclass(frozen=True, eq=False)
class Region:
    """Nodes in topological order."""

    nodes: Sequence[ir.Node]
    holders: Mapping[ir.Graph, ir.Node]
    """The nodes that hold the subgraphs of the model."""

    @classmethod
    def sorted(cls, nodes: Sequence[ir.Node], holders: Mapping[ir.Graph, ir.Node]) -> Region:
        """Return the region of nodes that are in any order."""
        ordered = topological_order(nodes, operands, lambda node: node.outputs)
        return cls([node for _, node in ordered], holders)

    @cached_property
    def inside(self) -> frozenset[ir.Node]:
        """The nodes as a set, without those of subgraphs."""
        return frozenset(self.nodes)

    @cached_property
    def entering(self) -> list[ir.Value]:
        """The values from outside, initializers included, that the nodes consume, in the order of their first use."""
        inside: set[ir.Value] = set()
        for node in self.nodes:
            inside.update(node.outputs)
            for _, graph in subgraphs_ir(node):
                inside.update(values_in(graph))
        used = dict.fromkeys(value for node in self.nodes for value in operands(node))
        return [value for value in used if value not in inside]

    @cached_property
    def leaving(self) -> list[ir.Value]:
        """The values that nodes outside consume or the graph returns, in the order of the nodes."""
        computed = (value for node in self.nodes for value in node.outputs)
        return [value for value in computed if value.is_graph_output() or next(self.consumers_outside([value]), None)]

    def consumers_outside(self, values: Iterable[ir.Value]) -> Iterator[ir.Node]:
        """Yield the consumers of values outside the region; a node of the region's graph stands for its subgraphs."""
        graph = self.nodes[0].graph
        for value in values:
            for consumer in dict.fromkeys(consumer for consumer, _ in value.uses()):
                node: ir.Node | None = consumer
                while node is not None and node.graph is not graph:
                    node = self.holders.get(node.graph) if isinstance(node.graph, ir.Graph) else None
                if node is not None and node not in self.inside:
                    yield node

    def convex_part(self) -> Sequence[ir.Node]:
        """Return nodes that one node may replace without a cycle: all, unless a path leaves the region and comes back.

            k = Neg(x)     layer.0          k leaves layer.0 for the mask m of two layers, and m enters it again:
            m = Abs(k)     layer.0 and 1    without k, or without y, the region is convex
            y = Add(x, m)  layer.0

        The nodes before such a path, or those after it, are left out, whichever leaves the larger region.
        """
        between = self._between()
        if not between:
            return self.nodes
        before: set[ir.Node] = set()
        wanted = {producer for node in between for producer in _producers(node)}
        for node in reversed(self.nodes):
            if node in wanted:
                before.add(node)
                wanted |= _producers(node)
        after: set[ir.Node] = set()
        for node in self.nodes:
            if not _producers(node).isdisjoint(between | after):
                after.add(node)
        return max(([node for node in self.nodes if node not in left] for left in (before, after)), key=len)

    def _between(self) -> set[ir.Node]:
        """Return the nodes outside that are on a path from the region back into it."""
        reached: set[ir.Node] = set()
        pending = list(self.consumers_outside(value for node in self.nodes for value in node.outputs))
        while pending:
            node = pending.pop()
            if node not in reached:
                reached.add(node)
                pending += self.consumers_outside(node.outputs)
        between: set[ir.Node] = set()
        pending = [*self.nodes]
        while pending:
            found = (_producers(pending.pop()) & reached) - between
            between |= found
            pending += found
        return between


def _producers(node: ir.Node) -> set[ir.Node]:
    return {producer for value in operands(node) if (producer := value.producer()) is not None}
