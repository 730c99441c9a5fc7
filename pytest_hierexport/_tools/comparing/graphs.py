"""Flattens a model, its subgraphs and functions included, into nodes and values that refer to each other."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_hierexport._calls.names import encode, encode_operator
from pytest_hierexport._onnx.graph import function_prefix, node_key, subgraphs_proto

if TYPE_CHECKING:
    import onnx

Place = tuple[object, ...]
"""The place of a graph: the attributes that hold it, or the function's identity; empty for the main graph."""
InputPlace = int | tuple[str, int]
"""The position of an input of a node; for an output of one of its subgraphs, the attribute and the position there."""


@dataclass(eq=False, slots=True)
class FlatValue:
    """A value: an output of a node, an input, or an initializer."""

    name: str
    leaf: Place = ()
    """The key of an input or an initializer, which is the same in both files; empty for an output of a node."""
    producer: FlatNode | None = None
    index: int = 0
    """Its position among the outputs of its producer."""
    tensor: onnx.TensorProto | onnx.SparseTensorProto | None = None
    holder: FlatNode | None = None
    """The node that holds the subgraph of an input or an initializer; None outside of subgraphs."""
    consumers: list[tuple[FlatNode, InputPlace]] = field(default_factory=list)
    """Each consumer with the place of the value among its inputs."""


@dataclass(eq=False, slots=True)
class FlatNode:
    """A node."""

    key: str
    name: str
    operator: str
    overload: str
    """The overload of the function that it calls."""
    holder: FlatNode | None
    """The node that holds its subgraph; None outside of subgraphs."""
    depth: int
    """How many nodes hold it, one within another."""
    attributes: dict[str, onnx.AttributeProto] = field(default_factory=dict)
    """Without subgraphs, whose nodes are listed with all others."""
    inputs: dict[InputPlace, FlatValue] = field(default_factory=dict)
    outputs: list[FlatValue] = field(default_factory=list)
    leaves: dict[Place, FlatValue] = field(default_factory=dict)
    """The inputs and initializers of its subgraphs by their keys."""
    module: str | None = None
    """The path after of its module; None if it is untagged, or if the other file lacks the module."""
    owners: tuple[str, ...] = ()
    """The calls of all origins, the primary's first; those of a paired module by its path after."""
    tag: str = ""
    """Empty for an untagged node."""


class FlatGraph:
    """The nodes and values of a model."""

    def __init__(self, proto: onnx.ModelProto, owners: Mapping[str, str]) -> None:
        """Flatten the model, which is not changed.

        `owners` gives the module of each initializer by its key, the same in both files: exporters number initializers
        anew, so a name alone may be another module's in the other file.
        """
        self._owners = owners
        self.nodes: list[FlatNode] = []
        self.leaves: dict[Place, list[FlatValue]] = {}
        """Inputs and initializers by their keys; subgraphs under equal attribute names have equal keys."""
        self.depth = 0
        """How deep subgraphs are nested."""
        self.results: dict[Place, FlatValue] = {}
        """The outputs of the model and of its functions."""
        self.results.update((("output", name), value) for name, value in self._add(proto.graph, ChainMap(), (), ""))
        for function in proto.functions:
            identity = (function.domain, function.name, function.overload)
            place: Place = ("function", *identity)
            outputs = self._add(function, ChainMap(), place, function_prefix(*identity))
            self.results.update(((*place, i), value) for i, (_, value) in enumerate(outputs))

    def initializers(self) -> Iterator[FlatValue]:
        """Yield the initializers."""
        return (value for values in self.leaves.values() for value in values if value.tensor is not None)

    def _add(
        self,
        graph: Any,
        scope: ChainMap[str, FlatValue],
        place: Place,
        prefix: str,
        holder: FlatNode | None = None,
    ) -> list[tuple[str, FlatValue]]:
        """Add the nodes of a graph or function; return its outputs by name."""
        sparse = ((tensor.values.name, tensor) for tensor in getattr(graph, "sparse_initializer", ()))
        for name, tensor in (*((tensor.name, tensor) for tensor in getattr(graph, "initializer", ())), *sparse):
            owner = self._owners.get(prefix + encode(name) if prefix else name)
            leaf = (*place, owner, "initializer", name)
            scope[name] = self._leaf(FlatValue(name, leaf, tensor=tensor, holder=holder))
        for i, name in enumerate(map(_name, graph.input)):
            if name not in scope.maps[0]:
                # In a subgraph or function, the position of an input identifies it: the caller does not use its name.
                leaf = (*place, "input", i if place else name)
                scope[name] = self._leaf(FlatValue(name, leaf, holder=holder))
        depth = 0 if holder is None else holder.depth + 1
        self.depth = max(self.depth, depth)
        nodes = []
        for position, node in enumerate(graph.node):
            key, operator = prefix + node_key(node.output, position), encode_operator(node.domain, node.op_type)
            flat = FlatNode(key, node.name, operator, node.overload, holder, depth)
            flat.outputs = [FlatValue(name, (), flat, i) for i, name in enumerate(node.output)]
            scope.update((value.name, value) for value in flat.outputs if value.name)
            nodes.append(flat)
        for node, flat in zip(graph.node, nodes, strict=True):
            self._connect(node, flat, scope, place)
        return [(name, self._value(scope, name)) for name in map(_name, graph.output)]

    def _connect(self, node: onnx.NodeProto, flat: FlatNode, scope: ChainMap[str, FlatValue], place: Place) -> None:
        self.nodes.append(flat)
        flat.inputs.update((i, self._value(scope, name)) for i, name in enumerate(node.input) if name)
        plain = (attribute for attribute in node.attribute if not attribute.HasField("g") and not attribute.graphs)
        flat.attributes.update((attribute.name, attribute) for attribute in plain)
        for attribute_name, graph in dict(subgraphs_proto(node)).items():
            below, prefix = (*place, attribute_name), f"{flat.key}/{attribute_name}/"
            inside = self._add(graph, scope.new_child(), below, prefix, flat)
            flat.inputs.update(((attribute_name, i), value) for i, (_, value) in enumerate(inside))
        for position, value in flat.inputs.items():
            value.consumers.append((flat, position))

    def _leaf(self, value: FlatValue) -> FlatValue:
        self.leaves.setdefault(value.leaf, []).append(value)
        if value.holder is not None:
            value.holder.leaves.setdefault(value.leaf, value)
        return value

    def _value(self, scope: MutableMapping[str, FlatValue], name: str) -> FlatValue:
        """Return the value of a name; one that nothing defines is a leaf."""
        if name not in scope:
            scope[name] = self._leaf(FlatValue(name, ("undefined", name)))
        return scope[name]


def _name(declared: Any) -> str:
    """Return the name of an input or output, which a function states alone."""
    return declared if isinstance(declared, str) else str(declared.name)
