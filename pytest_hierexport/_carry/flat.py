"""A copy of all that matters of a graph: one list of nodes, with function calls expanded.

Transformations work in place, so what is compared is copied first. Subgraphs are walked where they stand; the body of
a function is walked once for every call, with the call's values in place of the function's inputs, so that it makes
no difference whether a tool inlined it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import onnx_ir as ir

from pytest_hierexport._calls.hierarchy import encode
from pytest_hierexport._carry.definitions import arity, attributes, is_repeatable, subgraphs
from pytest_hierexport._carry.tensors import held_by, tensor_key
from pytest_hierexport._onnx.graph import function_prefix, in_order, node_key, reads_elements

__all__ = ["Flat", "Node", "Value", "same_tensor", "same_type"]


@dataclass(eq=False, slots=True)
class Value:
    """A value of the graph."""

    name: str
    """Unique in the model; empty inside the body of a function, where a name means nothing outside."""
    dtype: Any
    shape: tuple[int | str | None, ...] | None
    varying: bool
    """Whether it depends on an input of the model; all others are constants."""
    leaf: Hashable | None = None
    """What it is known by where no node makes it, or a node that only holds a tensor."""
    tensor: Any = None
    """The tensor of an initializer."""


@dataclass(eq=False, slots=True)
class Node:
    """A node with all that it reads: what its subgraphs take from outside is read by the node itself."""

    key: str
    operator: Hashable
    attributes: Hashable
    inputs: tuple[Value | None, ...]
    outputs: tuple[Value, ...]
    captured: tuple[Value, ...]
    arity: int
    """How many outputs it is asked for: those that may be left out, and that nobody reads, are not counted."""
    repeatable: bool
    """Whether its operator, attributes and inputs say all about what it computes."""
    holder: Node | None
    """The node that holds the subgraph or calls the function in which this one stands."""
    source: ir.Node = field(repr=False)
    """The node itself; whoever transforms the graph may change it."""

    @property
    def reads(self) -> Iterator[Value]:
        """Every value read, those of subgraphs included."""
        yield from (value for value in self.inputs if value is not None)
        yield from self.captured

    @property
    def elements(self) -> Iterator[Value]:
        """Every value of which more is read than its shape or type."""
        domain, name, _ = self.source.op_identifier()
        yield from (v for i, v in enumerate(self.inputs) if v is not None and reads_elements(domain, name, i))
        yield from self.captured


@dataclass
class Flat:
    """The nodes of a model in file order, and its values."""

    nodes: list[Node] = field(default_factory=list)
    maker: dict[Value, Node] = field(default_factory=dict)
    named: dict[str, Value] = field(default_factory=dict)
    initializers: dict[str, Value] = field(default_factory=dict)
    """By key: the main graph's by their own names, those of subgraphs as :mod:`pytest_hierexport._onnx.graph` says."""
    leaves: list[Value] = field(default_factory=list)
    opsets: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, model: ir.Model) -> Flat:
        """Copy a model."""
        return _Copier(model).copy()

    @cached_property
    def readers(self) -> Mapping[Value, list[Node]]:
        """The nodes that read each value."""
        readers: dict[Value, list[Node]] = {}
        for node in self.nodes:
            for value in node.reads:
                readers.setdefault(value, []).append(node)
        return readers

    @cached_property
    def order(self) -> Mapping[Node, int]:
        """The place of every node."""
        return {node: i for i, node in enumerate(self.nodes)}


_Scope = dict[ir.Value, Value]


@dataclass(frozen=True)
class _Place:
    """Where nodes stand: the main graph, a subgraph, or one call of a function."""

    prefix: str
    scope: _Scope
    holder: Node | None = None
    results: Mapping[ir.Value, str] = field(default_factory=dict)
    """What a function's outputs are called outside it."""
    named: bool = True
    """Whether names mean something outside."""

    def name(self, value: ir.Value) -> str:
        """Return the name of a value that is made here."""
        return self.results.get(value, self.label(value.name or ""))

    def label(self, name: str) -> str:
        """Return what a name of here is in the whole model."""
        return self.prefix + encode(name) if self.named else ""


class _Copier:
    def __init__(self, model: ir.Model) -> None:
        self.model = model
        self.flat = Flat(opsets=dict(model.opset_imports))

    def copy(self) -> Flat:
        graph = self.model.graph
        place = _Place("", {})
        for name, value in graph.initializers.items():
            self.flat.initializers[name] = self._leaf(place, value, place.label(name), ("initializer", name))
        for i, value in enumerate(graph.inputs):
            if value not in place.scope:
                self._leaf(place, value, place.name(value), ("input", i), varying=True)
        self._nodes(graph, place)
        return self.flat

    def _leaf(self, place: _Place, value: ir.Value, name: str, leaf: Hashable, *, varying: bool = False) -> Value:
        tensor = None if varying else value.const_value
        content = tensor_key(tensor)
        known = leaf if content is None else content
        copied = Value(name, value.dtype, _shape(value), varying=varying, leaf=known, tensor=tensor)
        place.scope[value] = copied
        self.flat.leaves.append(copied)
        if name:
            self.flat.named[name] = copied
        return copied

    def _nodes(self, graph: Any, place: _Place) -> None:
        for position, node in in_order(list(graph), _all_read, lambda node: node.outputs):
            key = place.prefix + node_key([output.name or "" for output in node.outputs], position)
            function = self.model.functions.get(node.op_identifier())
            if function is None:
                self._node(node, key, place)
            else:
                self._call(node, function, key, place)

    def _node(self, node: ir.Node, key: str, place: _Place) -> None:
        inputs = self._inputs(node, place)
        captured = tuple(place.scope[value] for value in _captured(node) if value in place.scope)
        varying = any(value.varying for value in (*inputs, *captured) if value is not None)
        held = held_by(node)
        outputs = tuple(
            Value(place.name(output), output.dtype, _shape(output), varying=varying, leaf=held)
            for output in node.outputs
        )
        copied = Node(
            key=key,
            operator=node.op_identifier(),
            attributes=attributes(node, self.model.opset_imports),
            inputs=inputs,
            outputs=outputs,
            captured=captured,
            arity=arity(node, self.model.opset_imports),
            repeatable=is_repeatable(node, self.model.opset_imports),
            holder=place.holder,
            source=node,
        )
        self._add(copied)
        place.scope.update(zip(node.outputs, outputs, strict=True))
        for name, graph in subgraphs(node):
            self._subgraph(graph, replace(place, prefix=f"{key}/{name}/", holder=copied))

    def _subgraph(self, graph: ir.Graph, place: _Place) -> None:
        for name, value in graph.initializers.items():
            copied = self._leaf(place, value, place.label(name), ("initializer", place.prefix, name))
            self.flat.initializers[place.prefix + encode(name)] = copied
        for i, value in enumerate(graph.inputs):
            self._leaf(place, value, place.name(value), ("subgraph input", place.prefix, i), varying=True)
        self._nodes(graph, place)

    def _call(self, node: ir.Node, function: ir.Function, key: str, place: _Place) -> None:
        """Walk the function's body in place of the call, which itself makes nothing."""
        call = Node(
            key=key,
            operator=node.op_identifier(),
            attributes=attributes(node, self.model.opset_imports),
            inputs=self._inputs(node, place),
            outputs=(),
            captured=(),
            arity=0,
            repeatable=False,
            holder=place.holder,
            source=node,
        )
        self._add(call)
        given = zip(function.inputs, call.inputs, strict=False)
        body = _Place(
            prefix=function_prefix(*node.op_identifier()),
            scope={inner: value for inner, value in given if value is not None},
            holder=call,
            results={inner: place.name(outer) for inner, outer in zip(function.outputs, node.outputs, strict=False)},
            named=False,
        )
        self._nodes(function, body)
        for inner, output in zip(function.outputs, node.outputs, strict=False):
            place.scope[output] = self._read(body, inner)

    def _inputs(self, node: ir.Node, place: _Place) -> tuple[Value | None, ...]:
        return tuple(None if value is None else self._read(place, value) for value in node.inputs)

    def _read(self, place: _Place, value: ir.Value) -> Value:
        """Return the copy of a value; one that nothing declares (an input left out of a call) is a leaf of its own."""
        if value in place.scope:
            return place.scope[value]
        return self._leaf(place, value, "", ("undeclared", len(self.flat.leaves)))

    def _add(self, node: Node) -> None:
        self.flat.nodes.append(node)
        for value in node.outputs:
            self.flat.maker[value] = node
            if value.name:
                self.flat.named[value.name] = value


def _shape(value: ir.Value) -> tuple[int | str | None, ...] | None:
    if value.shape is None:
        return None
    return tuple(dim if isinstance(dim, int) else str(dim) for dim in value.shape)


def _all_read(node: ir.Node) -> Iterator[ir.Value]:
    yield from (value for value in node.inputs if value is not None)
    yield from _captured(node)


def _captured(node: ir.Node) -> Iterable[ir.Value]:
    """The values that the node's subgraphs read from outside, and some of their own."""
    read: dict[ir.Value, None] = {}
    for _, graph in subgraphs(node):
        for inner in graph.all_nodes():
            read.update((value, None) for value in inner.inputs if value is not None)
        read.update(dict.fromkeys(graph.outputs))
    return read


def same_tensor(a: Value, b: Value) -> bool:
    """Whether two values do not hold tensors of different content."""
    if a.tensor is None or b.tensor is None or a.tensor is b.tensor:
        return True
    return bool(a.tensor.dtype == b.tensor.dtype and a.tensor.tobytes() == b.tensor.tobytes())


def same_type(a: Value, b: Value) -> bool:
    """Whether nothing that is known of the two values' element types and shapes contradicts their being one."""
    if a.dtype is not None and b.dtype is not None and a.dtype != b.dtype:
        return False
    if a.shape is None or b.shape is None:
        return True
    if len(a.shape) != len(b.shape):
        return False
    pairs = zip(a.shape, b.shape, strict=True)
    return all(not (isinstance(m, int) and isinstance(n, int)) or m == n for m, n in pairs)
