"""Flattens a model into nodes and values that know each other, subgraphs and functions included."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_hierexport._calls.names import encode_operator
from pytest_hierexport._onnx.graph import function_prefix, node_key, subgraphs_proto

if TYPE_CHECKING:
    import onnx

Place = tuple[object, ...]
"""Where a graph stands: the attributes that hold it, or a function's name; empty for the main graph."""


@dataclass(eq=False, slots=True)
class FlatValue:
    """A value: an output of a node, an input, or an initializer."""

    name: str
    leaf: Place = ()
    """What identifies an input or an initializer across files; empty for an output of a node."""
    producer: FlatNode | None = None
    index: int = 0
    """Its position among the outputs of its producer."""
    tensor: onnx.TensorProto | None = None
    consumers: list[tuple[FlatNode, object]] = field(default_factory=list)
    """Each consumer with the position at which it takes the value."""


@dataclass(eq=False, slots=True)
class FlatNode:
    """A node."""

    key: str
    name: str
    operator: str
    attributes: dict[str, onnx.AttributeProto]
    """Subgraphs left out: their nodes are nodes of their own."""
    inputs: dict[object, FlatValue]
    """By position; the outputs of its subgraphs by the attribute and their index."""
    outputs: list[FlatValue]


class FlatGraph:
    """The nodes and values of a model.

    Args:
        proto: The model; it is not changed.
    """

    def __init__(self, proto: onnx.ModelProto) -> None:
        """Flatten the model."""
        self.nodes: list[FlatNode] = []
        self.leaves: dict[Place, list[FlatValue]] = {}
        """Inputs and initializers by what identifies them; subgraphs under one attribute name may have equal ones."""
        self.results: dict[Place, FlatValue] = {}
        """The outputs of the model and of its functions."""
        self.results.update((("output", name), value) for name, value in self._add(proto.graph, ChainMap(), (), ""))
        for function in proto.functions:
            identity = (function.domain, function.name, function.overload)
            place: Place = ("function", *identity)
            outputs = self._add(function, ChainMap(), place, function_prefix(*identity))
            self.results.update(((*place, i), value) for i, (_, value) in enumerate(outputs))

    def _add(
        self, graph: Any, scope: ChainMap[str, FlatValue], place: Place, prefix: str
    ) -> list[tuple[str, FlatValue]]:
        """Add the nodes of a graph or function; return its outputs by name."""
        for tensor in getattr(graph, "initializer", ()):
            scope[tensor.name] = self._leaf(FlatValue(tensor.name, (*place, "initializer", tensor.name), tensor=tensor))
        for i, declared in enumerate(graph.input):
            name = declared if isinstance(declared, str) else declared.name
            if name not in scope.maps[0]:
                # Inside, an input is known by its position: the caller gives it.
                leaf = (*place, "input", i if place else name)
                scope[name] = self._leaf(FlatValue(name, leaf))
        made = [FlatNode("", node.name, encode_operator(node.domain, node.op_type), {}, {}, []) for node in graph.node]
        for position, (node, flat) in enumerate(zip(graph.node, made, strict=True)):
            flat.key = prefix + node_key(node.output, position)
            flat.outputs = [FlatValue(name, (), flat, i) for i, name in enumerate(node.output)]
            scope.update((value.name, value) for value in flat.outputs if value.name)
        for node, flat in zip(graph.node, made, strict=True):
            self._connect(node, flat, scope, place)
        return [
            (name, self._value(scope, name))
            for name in (each if isinstance(each, str) else each.name for each in graph.output)
        ]

    def _connect(self, node: onnx.NodeProto, flat: FlatNode, scope: ChainMap[str, FlatValue], place: Place) -> None:
        self.nodes.append(flat)
        flat.inputs.update((i, self._value(scope, name)) for i, name in enumerate(node.input) if name)
        held = dict(subgraphs_proto(node))
        for attribute in node.attribute:
            if not attribute.HasField("g") and not attribute.graphs:
                flat.attributes[attribute.name] = attribute
        for attribute_name, graph in held.items():
            inside = self._add(graph, scope.new_child(), (*place, attribute_name), f"{flat.key}/{attribute_name}/")
            flat.inputs.update(((attribute_name, i), value) for i, (_, value) in enumerate(inside))
        for position, value in flat.inputs.items():
            value.consumers.append((flat, position))

    def _leaf(self, value: FlatValue) -> FlatValue:
        self.leaves.setdefault(value.leaf, []).append(value)
        return value

    def _value(self, scope: MutableMapping[str, FlatValue], name: str) -> FlatValue:
        """Return the value of a name; one that nothing defines is a leaf."""
        if name not in scope:
            scope[name] = self._leaf(FlatValue(name, ("undefined", name)))
        return scope[name]
