"""A copy of all that matters of a graph: one list of nodes, with function calls expanded.

Transformations work in place, so what is compared is copied first. Subgraphs are walked where they stand; the body of
a function is walked once for every call, with the call's values in place of the function's inputs, so that it makes
no difference whether a tool inlined it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from pytest_hierexport.graph import function_prefix, node_key, reads_elements
from pytest_hierexport.hierarchy import encode

__all__ = ["TENSOR", "Flat", "Node", "Value", "same_tensor", "same_type", "tensor_key", "tensor_sample"]

# A tensor up to this many bytes is known by its content, as in torch's own deduplication; above it by its name.
_SMALL = 1024
TENSOR = "tensor"
"""What the key of a known tensor begins with."""


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
    """By key: the main graph's by their own names, those of subgraphs as :mod:`pytest_hierexport.graph` says."""
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
        for position, node in enumerate(graph):
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
        held = _held(node)
        outputs = tuple(
            Value(place.name(output), output.dtype, _shape(output), varying=varying, leaf=held)
            for output in node.outputs
        )
        copied = Node(
            key=key,
            operator=node.op_identifier(),
            attributes=_attributes(node, self.model.opset_imports),
            inputs=inputs,
            outputs=outputs,
            captured=captured,
            arity=_arity(node, self.model.opset_imports),
            repeatable=_repeatable(node, self.model.opset_imports),
            holder=place.holder,
            source=node,
        )
        self._add(copied)
        place.scope.update(zip(node.outputs, outputs, strict=True))
        for name, graph in _subgraphs(node):
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
            attributes=_attributes(node, self.model.opset_imports),
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


def _captured(node: ir.Node) -> Iterable[ir.Value]:
    """The values that the node's subgraphs read from outside, and some of their own."""
    read: dict[ir.Value, None] = {}
    for _, graph in _subgraphs(node):
        for inner in graph.all_nodes():
            read.update((value, None) for value in inner.inputs if value is not None)
        read.update(dict.fromkeys(graph.outputs))
    return read


def _subgraphs(node: ir.Node) -> Iterator[tuple[str, ir.Graph]]:
    for attribute in node.attributes.values():
        if attribute.is_ref():
            continue
        if attribute.type == ir.AttributeType.GRAPH:
            yield attribute.name, attribute.as_graph()
        elif attribute.type == ir.AttributeType.GRAPHS:
            for i, graph in enumerate(attribute.as_graphs()):
                yield f"{attribute.name}.{i}", graph


def _attributes(node: ir.Node, opsets: Mapping[str, int]) -> Hashable:
    """What the attributes say; one that says what its absence would is left out, as tools do."""
    usual = _defaults(node.op_type, opsets.get(node.domain, 1), node.domain)
    said = ((name, _attribute(value)) for name, value in node.attributes.items())
    return tuple(sorted((name, value) for name, value in said if usual.get(name) != value))


@lru_cache(maxsize=4096)
def _defaults(op_type: str, opset: int, domain: str) -> Mapping[str, str]:
    schema = _schema(op_type, opset, domain)
    stated = () if schema is None else schema.attributes.values()
    values = (attribute.default_value for attribute in stated)
    return {value.name: _attribute(ir.from_proto(value)) for value in values if value.type}


def _attribute(attribute: ir.Attr) -> str:
    if attribute.is_ref():
        return f"@{attribute.ref_attr_name}"
    if attribute.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS):
        return ""
    if attribute.type == ir.AttributeType.TENSOR:
        known = tensor_key(attribute.value)
        return repr(id(attribute.value) if known is None else known)
    if attribute.type in (ir.AttributeType.FLOAT, ir.AttributeType.FLOATS):
        # As a file would hold it: a number that was never written down has more digits.
        return repr((attribute.type.value, np.float32(attribute.value).tolist()))
    return repr((attribute.type.value, attribute.value))


def tensor_key(tensor: Any) -> Hashable | None:
    """Return what a small tensor holds; None for a large one, whose content is not worth reading."""
    if tensor is None or tensor.nbytes > _SMALL or tensor.dtype == ir.DataType.STRING:
        return None
    return (TENSOR, tensor.dtype.value, tuple(tensor.shape), tensor.tobytes())


def tensor_sample(tensor: Any) -> Hashable | None:
    """Return what equal large tensors have in common and few others; None for one that has no numbers to show."""
    if tensor.dtype == ir.DataType.STRING:
        return None
    try:
        numbers = tensor.numpy().reshape(-1)
    except Exception:  # noqa: BLE001 a tensor without storage raises what its framework pleases
        return None
    return (tensor.dtype.value, tuple(tensor.shape), numbers[:16].tobytes(), numbers[-16:].tobytes())


def _held(node: ir.Node) -> Hashable | None:
    """What a node that only holds a tensor gives: the same as an initializer of that content."""
    if node.op_type != "Constant" or node.domain or len(node.attributes) != 1:
        return None
    # onnx_ir's own reader names the tensor after the value, which would be a change to the graph.
    (attribute,) = node.attributes.values()
    if attribute.is_ref():
        return None
    if attribute.type == ir.AttributeType.TENSOR:
        return tensor_key(attribute.value)
    dtype = _PLAIN.get(attribute.type)
    return None if dtype is None else tensor_key(ir.tensor(attribute.value, dtype=dtype))


_PLAIN = {
    ir.AttributeType.FLOAT: ir.DataType.FLOAT,
    ir.AttributeType.FLOATS: ir.DataType.FLOAT,
    ir.AttributeType.INT: ir.DataType.INT64,
    ir.AttributeType.INTS: ir.DataType.INT64,
}


def _arity(node: ir.Node, opsets: Mapping[str, int]) -> int:
    outputs = list(node.outputs)
    stated = () if len(outputs) == 1 else _optional_outputs(node.op_type, opsets.get(node.domain, 1), node.domain)
    while outputs and len(outputs) - 1 in stated and not outputs[-1].uses() and not outputs[-1].is_graph_output():
        outputs.pop()
    return len(outputs)


@lru_cache(maxsize=4096)
def _optional_outputs(op_type: str, opset: int, domain: str) -> frozenset[int]:
    schema = _schema(op_type, opset, domain)
    optional = onnx.defs.OpSchema.FormalParameterOption.Optional
    outputs = () if schema is None else schema.outputs
    return frozenset(i for i, output in enumerate(outputs) if output.option == optional)


def _repeatable(node: ir.Node, opsets: Mapping[str, int]) -> bool:
    if next(_subgraphs(node), None) is not None:
        return False
    return _deterministic(node.op_type, opsets.get(node.domain, 1), node.domain)


@lru_cache(maxsize=4096)
def _deterministic(op_type: str, opset: int, domain: str) -> bool:
    """Whether the operator's definition makes it a function of its inputs and attributes."""
    schema = _schema(op_type, opset, domain)
    return schema is None or schema.node_determinism != onnx.defs.OpSchema.NodeDeterminism.NonDeterministic


def _schema(op_type: str, opset: int, domain: str) -> Any:
    """Return the operator's definition, the newest where the opset has none: torch writes down its opset last."""
    for version in (opset, onnx.defs.onnx_opset_version()):
        with suppress(onnx.defs.SchemaError):
            return onnx.defs.get_schema(op_type, version, domain)
    return None


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
