"""Lists every node and initializer of an ONNX model under a key, in memory (onnx_ir) or as a protobuf message.

A node's key is the name of its first output, which single assignment makes unique in its graph; in a subgraph the
key of the node that holds it and the attribute's name come first, in a function the function's identity. Names in keys
are percent-encoded, so that keys split back. An initializer's key is its plain name; in a subgraph it is encoded, with
the same prefix as a node's.

    y = If(c, then_branch: {t = Add(x, w)})     keys   y, y/then_branch/t, initializer y/then_branch/w
    z = my.Twice(y)                                    z
    function my::Twice(a): {b = Add(a, a)}             my::Twice:://b
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pytest_hierexport._calls.names import encode, encode_operator

if TYPE_CHECKING:
    import onnx
    import onnx_ir as ir

__all__ = [
    "Inventory",
    "function_prefix",
    "inventory_ir",
    "inventory_proto",
    "may_hold_subgraphs",
    "node_key",
    "operators",
    "subgraphs_ir",
    "subgraphs_proto",
    "walk",
    "walk_ir",
    "walk_proto",
]

NodeT = TypeVar("NodeT")
InitializerT = TypeVar("InitializerT")
GraphT = TypeVar("GraphT")

# AttributeProto.AttributeType. Reading `type` is far cheaper than reading the fields.
_GRAPH = 5
_GRAPHS = 10
# Field 20, `type`, with either of these values, as protobuf writes it.
_GRAPH_MARK = re.compile(rb"\xa0\x01[\x05\x0a]")


@dataclass(slots=True)
class Inventory(Generic[NodeT, InitializerT, GraphT]):
    """The parts of a model, those of its subgraphs and functions included, in file order."""

    nodes: list[tuple[str, NodeT]] = field(default_factory=list)
    """Every node with its key."""
    initializers: list[tuple[str, InitializerT]] = field(default_factory=list)
    """Every initializer with its key."""
    graphs: list[GraphT] = field(default_factory=list)
    """The main graph and every subgraph."""
    functions: list[Any] = field(default_factory=list)


def walk(model: ir.Model | onnx.ModelProto) -> Iterator[tuple[str, Any]]:
    """Yield every node of the model, its subgraphs and functions, with its key, in file order."""
    import onnx

    yield from walk_proto(model) if isinstance(model, onnx.ModelProto) else walk_ir(model)


def walk_ir(model: ir.Model) -> Iterator[tuple[str, ir.Node]]:
    """Yield what :func:`walk` yields, from a model in memory."""
    yield from inventory_ir(model).nodes


def walk_proto(model: onnx.ModelProto) -> Iterator[tuple[str, onnx.NodeProto]]:
    """Yield what :func:`walk` yields, from a protobuf message."""
    yield from inventory_proto(model).nodes


def inventory_ir(model: ir.Model) -> Inventory[ir.Node, ir.Value, ir.Graph]:
    """List the parts of a model in memory; initializers as the values that hold them."""
    found: Inventory[ir.Node, ir.Value, ir.Graph] = Inventory()
    found.graphs.append(model.graph)
    found.initializers += model.graph.initializers.items()
    _add_ir_nodes(found, model.graph, "")
    for (domain, name, overload), function in model.functions.items():
        found.functions.append(function)
        _add_ir_nodes(found, function, function_prefix(domain, name, overload))
    return found


def _add_ir_nodes(found: Inventory[ir.Node, ir.Value, ir.Graph], nodes: Any, prefix: str) -> None:
    for position, node in enumerate(nodes):
        key = prefix + node_key([output.name or "" for output in node.outputs], position)
        found.nodes.append((key, node))
        for place, graph in subgraphs_ir(node):
            _add_ir_subgraph(found, graph, f"{key}/{place}/")


def _add_ir_subgraph(found: Inventory[ir.Node, ir.Value, ir.Graph], graph: ir.Graph, prefix: str) -> None:
    found.graphs.append(graph)
    found.initializers += [(prefix + encode(name), value) for name, value in graph.initializers.items()]
    _add_ir_nodes(found, graph, prefix)


def operators(model: ir.Model | onnx.ModelProto) -> dict[str, str]:
    """Return the operator of every node by node key, as text: `Add`, `com.microsoft::Gelu`."""
    return {key: encode_operator(node.domain, node.op_type) for key, node in walk(model)}


def may_hold_subgraphs(content: bytes) -> bool:
    """Whether a serialised model may hold a graph in a node's attribute; False is certain."""
    return _GRAPH_MARK.search(content) is not None


def inventory_proto(
    model: onnx.ModelProto, *, subgraphs: bool = True
) -> Inventory[onnx.NodeProto, onnx.TensorProto, onnx.GraphProto]:
    """List the parts of a protobuf message, by the same keys.

    Args:
        model: The message.
        subgraphs: False, for a model known to hold none, skips all attributes, which takes half of the time.
    """
    found: Inventory[onnx.NodeProto, onnx.TensorProto, onnx.GraphProto] = Inventory()
    add = _add_proto_nodes if subgraphs else _add_flat_proto_nodes
    found.graphs.append(model.graph)
    found.initializers += [(tensor.name, tensor) for tensor in model.graph.initializer]
    add(found, model.graph.node, "")
    for function in model.functions:
        found.functions.append(function)
        add(found, function.node, function_prefix(function.domain, function.name, function.overload))
    return found


def _add_flat_proto_nodes(
    found: Inventory[onnx.NodeProto, onnx.TensorProto, onnx.GraphProto], nodes: Any, prefix: str
) -> None:
    found.nodes += [(prefix + node_key(node.output, position), node) for position, node in enumerate(nodes)]


def _add_proto_nodes(
    found: Inventory[onnx.NodeProto, onnx.TensorProto, onnx.GraphProto], nodes: Any, prefix: str
) -> None:
    for position, node in enumerate(nodes):
        key = prefix + node_key(node.output, position)
        found.nodes.append((key, node))
        for place, graph in subgraphs_proto(node):
            _add_proto_subgraph(found, graph, f"{key}/{place}/")


def _add_proto_subgraph(
    found: Inventory[onnx.NodeProto, onnx.TensorProto, onnx.GraphProto], graph: onnx.GraphProto, prefix: str
) -> None:
    found.graphs.append(graph)
    found.initializers += [(prefix + encode(tensor.name), tensor) for tensor in graph.initializer]
    _add_proto_nodes(found, graph.node, prefix)


def node_key(outputs: Iterable[str], position: int) -> str:
    """Return the key of a node within its graph, given the names of its outputs and its position there."""
    for name in outputs:
        if name:
            return encode(name)
    # A node without a named output is legal and unused; only its position identifies it.
    return f"@{position}"


def subgraphs_ir(node: ir.Node) -> Iterator[tuple[str, ir.Graph]]:
    """Yield the graphs in a node's attributes, each with its place in keys: the attribute, and the index in a list."""
    for attribute in node.attributes.values():
        if attribute.is_ref():
            continue
        if attribute.type.value == _GRAPH:
            yield encode(attribute.name), attribute.value
        elif attribute.type.value == _GRAPHS:
            yield from ((f"{encode(attribute.name)}.{i}", graph) for i, graph in enumerate(attribute.value))


def subgraphs_proto(node: onnx.NodeProto) -> Iterator[tuple[str, onnx.GraphProto]]:
    """Yield what :func:`subgraphs_ir` yields, from a protobuf message."""
    for attribute in node.attribute:
        kind = attribute.type
        if kind == _GRAPH and attribute.HasField("g"):
            yield encode(attribute.name), attribute.g
        elif kind == _GRAPHS:
            yield from ((f"{encode(attribute.name)}.{i}", graph) for i, graph in enumerate(attribute.graphs))


def function_prefix(domain: str, name: str, overload: str) -> str:
    """Return the prefix of the keys in a function."""
    return "::".join(encode(part).replace(":", "%3A") for part in (domain, name, overload)) + "//"
