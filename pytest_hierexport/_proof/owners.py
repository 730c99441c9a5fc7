"""Describes an inlined graph: the producer and consumers of each value, and the calls that own each node.

A call owns the nodes that have an origin in it or in a call below it. For `h = Relu(x)` with the origin `layer.0.act`:

    owners    Owner(layer.0.act, {"layer.0.act", "layer.0", ""})
    members   {"layer.0.act": [0], "layer.0": [0], "": [0]}

A :class:`Graph` is made of an inlined model and its attribution.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain
from typing import NamedTuple

import onnx_ir as ir

from pytest_hierexport._calls.attribution import Attribution, Evidence, Origin, Origins
from pytest_hierexport._calls.hierarchy import ROOT
from pytest_hierexport._grouping import by_key
from pytest_hierexport._onnx.operators import draws, reads_elements
from pytest_hierexport._proof.in_functions import InFunctions
from pytest_hierexport._proof.inlining import captured, function_calls, key, name_of, nodes_inside


class Owner(NamedTuple):
    """An origin of a node, with its call and those above it."""

    origin: Origin
    calls: frozenset[str]


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the inlined graph."""

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
        model: The model, functions and branches inlined.
        attribution: The origins of its nodes, by node key.
    """

    def __init__(self, model: ir.Model, attribution: Attribution) -> None:
        """Index the graph."""
        self.model = model
        self.hierarchy = attribution.hierarchy
        self._origins = attribution.nodes
        self._lineage = cache(lambda call: frozenset(self.hierarchy.lineage(call)))
        self._in_functions = InFunctions(model, attribution, self._lineage)
        self.inputs = [str(value.name) for value in model.graph.inputs]
        self.outputs = tuple(str(value.name) for value in model.graph.outputs)
        self.initializers = model.graph.initializers
        self.folded_initializers = frozenset(
            name
            for name, origins in attribution.initializers.items()
            if any(origin.evidence is Evidence.FOLDED for origin in origins)
        )
        """The initializers into which constant folding turned operations of calls."""
        self.nodes = [self._node(node) for node in model.graph]
        self.producer = {value: i for i, node in enumerate(self.nodes) for value in node.outputs}

    def _node(self, node: ir.Node) -> Node:
        owners = tuple(Owner(origin, self._lineage(origin.call)) for origin in self._origins_of(node))
        inputs, inner = [name_of(value) for value in node.inputs], list(captured(node))
        elements = (value for i, value in enumerate(inputs) if reads_elements(node.domain, node.op_type, i))
        return Node(
            key(node),
            node.op_type,
            _names(*inputs, *inner),
            _names(*elements, *inner),
            _names(*map(name_of, node.outputs)),
            owners,
            frozenset().union(*(owner.calls for owner in owners)),
        )

    def _origins_of(self, node: ir.Node) -> Origins:
        """Return the origins that a node, and those inside it, have where it stands."""
        around, of = function_calls(node), self._in_functions.of
        parts = (node, *nodes_inside(node, self.model))
        found = (of(self._origins.get(key(part), ()), function_calls(part) or around) for part in parts)
        return tuple(dict.fromkeys(chain.from_iterable(found)))

    @cached_property
    def in_bodies(self) -> dict[str, bool]:
        """The calls that branches and loops make, each with whether its branch was entered."""
        entered = {node.key for node in self.nodes}
        entered.update(caller for node in self.model.graph for _, caller in function_calls(node))
        found: dict[str, bool] = {}
        for name, origins in self._origins.items():
            for holder in _holders(name):
                for call in self._above(origins) - self._above(self._origins.get(holder, ())):
                    found[call] = found.get(call, False) or name in entered
        # The origins in a function do not tell from where it is called; callers come before their callees.
        for name, made in self.hierarchy.items():
            if made.parent in found:
                found.setdefault(name, found[made.parent])
        return found

    @cached_property
    def has_loops(self) -> bool:
        """Whether bodies run whose nodes are no nodes of the graph."""
        return any(any(nodes_inside(node, self.model)) for node in self.model.graph)

    def _above(self, origins: Iterable[Origin]) -> frozenset[str]:
        """Return the calls of origins, those above them and the root."""
        return frozenset((ROOT, *(name for origin in origins for name in self._lineage(origin.call))))

    @cached_property
    def consumers(self) -> dict[str, list[int]]:
        """The nodes that read each value."""
        return by_key((value, i) for i, node in enumerate(self.nodes) for value in node.inputs)

    @cached_property
    def members(self) -> dict[str, list[int]]:
        """The nodes that each call owns."""
        return by_key((call, i) for i, node in enumerate(self.nodes) for call in node.calls)

    @cached_property
    def by_elements(self) -> frozenset[str]:
        """The values that depend on the elements of a graph input, not on its shape alone, or on random numbers."""
        given = (value for value in self.inputs if value not in self.initializers)
        drawing = (node for node in self.model.graph if draws(node.domain, node.op_type, len(node.inputs)))
        return self.computed_from((*given, *(name_of(value) for node in drawing for value in node.outputs)))

    def computed_from(self, values: Iterable[str]) -> frozenset[str]:
        """Return these values, and those that depend on the elements of one, not on its shape alone."""
        found = {*values}
        for node in self.nodes:
            if not found.isdisjoint(node.elements):
                found.update(node.outputs)
        return frozenset(found)

    def upstream(self, values: Iterable[str], known: Container[str]) -> Iterator[int]:
        """Yield the nodes that compute values from known ones, each once; known ones among the values are computed."""
        pending, seen = [self.producer[value] for value in values], set[int]()
        while pending:
            position = pending.pop()
            if position not in seen:
                seen.add(position)
                yield position
                needed = (value for value in self.nodes[position].inputs if value not in known)
                pending += [self.producer[value] for value in needed if value in self.producer]

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


def _names(*values: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, values)))


def _holders(name: str) -> Iterator[str]:
    """Yield the keys of the nodes whose subgraphs contain a node, the outermost first."""
    start = name.rfind("//") + 2 if "//" in name else 0
    at = name.find("/", start)
    while at >= 0:
        yield name[:at]
        at = name.find("/", name.index("/", at + 1) + 1)
