"""Describes an inlined graph: the producer and consumers of each value, and the calls that own each node.

A call owns the nodes that have an origin in it or in a call below it. For `h = Relu(x)` with the origin `layer.0.act`:

    owners    Owner(layer.0.act, {"layer.0.act", "layer.0", ""})
    members   {"layer.0.act": [0], "layer.0": [0], "": [0]}

A node of a function carries the origins of all calls of the function, in order. Those below the origins of the calling
node belong to one call:

    y = twice(x)  [layer.0]      function twice: t = Neg(v)  [layer.0.act, layer.1.act]
    z = twice(y)  [layer.1]      owner of t at z:             layer.1.act
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from pytest_hierexport._calls.attribution import Attribution, Evidence, Origin, Origins
from pytest_hierexport._calls.hierarchy import ROOT
from pytest_hierexport._onnx.operators import reads_elements
from pytest_hierexport._proof.inlining import captured, function_calls, key, keys_inside, name_of

if TYPE_CHECKING:
    import onnx_ir as ir

FunctionCalls = tuple[tuple[str, str], ...]
"""The calls of functions around a node, the outermost first: the function's prefix and the key of the calling node."""


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
        keys = (key(node), *keys_inside(node, self.model))
        found = dict.fromkeys(origin for name in keys for origin in self._origins.get(name, ()))
        return self._in_calls(tuple(found), function_calls(node))

    def _in_calls(self, origins: Origins, calls: FunctionCalls) -> Origins:
        """Return those of a node's origins that belong to these calls of functions, each inside the one before it."""
        if not calls:
            return origins
        *outer, (_, call) = calls
        origins, own = self._in_calls(origins, tuple(outer)), self._in_calls(self._origins.get(call, ()), tuple(outer))
        if not own:  # the calling node is untagged: nothing tells which origins belong to it
            return origins
        callers = {origin.call for origin in own}
        inside = [o for o in origins if not callers.isdisjoint(self._lineage(o.call))]
        if not callers.isdisjoint(origin.call for origin in inside):
            # A function that a module and its parent both call: the module's own calls of it explain its origin.
            nearer = self._callers[_function_of(calls)] - frozenset().union(*map(self._lineage, callers))
            inside = [o for o in inside if nearer.isdisjoint(self._lineage(o.call))]
        siblings = self._siblings[self._place(calls)]
        share, rest = divmod(len(inside), len(siblings))
        if len(siblings) == 1 or rest or callers == {origin.call for origin in inside}:
            return tuple(inside)
        # One caller made all these calls: each has an equal share of the calls below it.
        inside.sort(key=lambda origin: self.hierarchy.position[origin.call])
        place = siblings.index(calls)
        return tuple(inside[place * share : (place + 1) * share])

    def _place(self, calls: FunctionCalls) -> Hashable:
        """Return what siblings share: the calls around them, the function and its callers."""
        return *_function_of(calls), frozenset(self._origins.get(calls[-1][1], ()))

    @cached_property
    def _callers(self) -> Mapping[Hashable, frozenset[str]]:
        """The module calls that call each function at a place."""
        callers: dict[Hashable, frozenset[str]] = defaultdict(frozenset)
        for calls in chain.from_iterable(self._siblings.values()):
            callers[_function_of(calls)] |= {origin.call for origin in self._origins.get(calls[-1][1], ())}
        return callers

    @cached_property
    def _siblings(self) -> Mapping[Hashable, list[FunctionCalls]]:
        """The calls of functions that were inlined, in order, by place."""
        nested = map(function_calls, self.model.graph)
        siblings: dict[Hashable, list[FunctionCalls]] = defaultdict(list)
        for calls in dict.fromkeys(each[: i + 1] for each in nested for i in range(len(each))):
            siblings[self._place(calls)].append(calls)
        return siblings

    @cached_property
    def in_bodies(self) -> dict[str, bool]:
        """The calls that branches and loops make, each with whether its branch was entered."""
        entered = {node.key for node in self.nodes}
        found: dict[str, bool] = {}
        for name, origins in self._origins.items():
            for holder in _holders(name):
                for call in self._above(origins) - self._above(self._origins.get(holder, ())):
                    found[call] = found.get(call, False) or name in entered
        return found

    @cached_property
    def has_loops(self) -> bool:
        """Whether bodies run whose nodes are no nodes of the graph."""
        return any(any(keys_inside(node, self.model)) for node in self.model.graph)

    def _above(self, origins: Iterable[Origin]) -> frozenset[str]:
        """Return the calls of origins, those above them and the root."""
        return frozenset((ROOT, *(name for origin in origins for name in self._lineage(origin.call))))

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


def _function_of(calls: FunctionCalls) -> tuple[Hashable, ...]:
    """Return the calls around a call of a function, and the function."""
    *outer, (function, _) = calls
    return *outer, function


def _names(*values: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, values)))


def _holders(name: str) -> Iterator[str]:
    """Yield the keys of the nodes whose subgraphs contain a node, the outermost first."""
    start = name.rfind("//") + 2 if "//" in name else 0
    at = name.find("/", start)
    while at >= 0:
        yield name[:at]
        at = name.find("/", name.index("/", at + 1) + 1)
