"""Every node of an ONNX model under one key, in memory (onnx_ir) or as a protobuf message.

A node's key is the name of its first output, which single assignment makes unique in its graph. In a subgraph
it stands behind the key of the node that holds it and the attribute (`If_out/then_branch/y`), in a function
behind the function's identity (`domain::name::overload//y`). Names are percent-encoded in keys like every
other name, so that keys split back.

An initializer's key is its name as it stands; in a subgraph it stands, encoded, behind the prefix of the nodes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pytest_hierexport._calls.names import encode, encode_operator

if TYPE_CHECKING:
    import onnx
    import onnx_ir as ir

__all__ = [
    "Inventory",
    "function_prefix",
    "in_order",
    "inventory_ir",
    "inventory_proto",
    "may_hold_subgraphs",
    "node_key",
    "operators",
    "reads_elements",
    "subgraph_prefix",
    "walk",
    "walk_ir",
    "walk_proto",
]

_TYPE_ALONE = frozenset(
    [("Shape", 0), ("Size", 0), ("CastLike", 1), ("EyeLike", 0), ("RandomNormalLike", 0), ("RandomUniformLike", 0)]
)
"""The operators and the place of an input of which they read the shape or the type and no element, as ONNX says."""

NodeT = TypeVar("NodeT")
InitializerT = TypeVar("InitializerT")
GraphT = TypeVar("GraphT")

# AttributeProto.AttributeType. Reading `type` is far cheaper than asking for the fields themselves.
_GRAPH = 5
_GRAPHS = 10
# Field 20, `type`, with either of these values, as protobuf writes it.
_GRAPH_MARK = re.compile(rb"\xa0\x01[\x05\x0a]")


@dataclass(slots=True)
class Inventory(Generic[NodeT, InitializerT, GraphT]):
    """What a model consists of, its subgraphs and functions included, in file order."""

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
        for attribute in node.attributes.values():
            if attribute.is_ref():
                continue
            if attribute.type.value == _GRAPH:
                _add_ir_subgraph(found, attribute.value, subgraph_prefix(key, attribute.name))
            elif attribute.type.value == _GRAPHS:
                for i, graph in enumerate(attribute.value):
                    _add_ir_subgraph(found, graph, subgraph_prefix(key, attribute.name, i))


def _add_ir_subgraph(found: Inventory[ir.Node, ir.Value, ir.Graph], graph: ir.Graph, prefix: str) -> None:
    found.graphs.append(graph)
    found.initializers += [(prefix + encode(name), value) for name, value in graph.initializers.items()]
    _add_ir_nodes(found, graph, prefix)


def operators(model: ir.Model | onnx.ModelProto) -> dict[str, str]:
    """Return the operator of every node by node key, as text: `Add`, `com.microsoft::Gelu`."""
    return {key: encode_operator(node.domain, node.op_type) for key, node in walk(model)}


def may_hold_subgraphs(content: bytes) -> bool:
    """Whether a serialised model may hold a graph in a node's attribute; where it says no, none does."""
    return _GRAPH_MARK.search(content) is not None


def inventory_proto(
    model: onnx.ModelProto, *, subgraphs: bool = True
) -> Inventory[onnx.NodeProto, onnx.TensorProto, onnx.GraphProto]:
    """List the parts of a protobuf message, by the same keys.

    Args:
        model: The message.
        subgraphs: False, for a model known to hold none, spares a look at every attribute: half of the time.
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
        for attribute in node.attribute:
            kind = attribute.type
            if kind == _GRAPH and attribute.HasField("g"):
                _add_proto_subgraph(found, attribute.g, subgraph_prefix(key, attribute.name))
            elif kind == _GRAPHS:
                for i, graph in enumerate(attribute.graphs):
                    _add_proto_subgraph(found, graph, subgraph_prefix(key, attribute.name, i))


def _add_proto_subgraph(
    found: Inventory[onnx.NodeProto, onnx.TensorProto, onnx.GraphProto], graph: onnx.GraphProto, prefix: str
) -> None:
    found.graphs.append(graph)
    found.initializers += [(prefix + encode(tensor.name), tensor) for tensor in graph.initializer]
    _add_proto_nodes(found, graph.node, prefix)


def in_order(
    nodes: Sequence[NodeT],
    reads: Callable[[NodeT], Iterable[Hashable]],
    makes: Callable[[NodeT], Iterable[Hashable]],
) -> list[tuple[int, NodeT]]:
    """Return nodes with their places, each behind those that make what it reads; as they stand where they stand so.

    ONNX asks for that order, ONNX Runtime does not, and tools write files without it.

    Args:
        nodes: The nodes of a graph or function.
        reads: What a node reads, its subgraphs included.
        makes: What a node makes.
    """
    maker = {value: place for place, node in enumerate(nodes) for value in makes(node)}
    ordered: dict[int, NodeT] = {}
    entered: set[int] = set()
    for place in range(len(nodes)):
        open_ = [place]
        while open_:
            at = open_[-1]
            before = () if at in entered else (maker.get(value) for value in reads(nodes[at]))
            entered.add(at)
            waiting = [other for other in before if other is not None and other not in entered]
            open_ += waiting
            if not waiting:
                ordered.setdefault(open_.pop(), nodes[at])
    return list(ordered.items())


def reads_elements(domain: str, operator: str, place: int) -> bool:
    """Whether an operator reads the elements of its input at a place, not its shape or type alone."""
    return domain not in {"", "ai.onnx"} or (operator, place) not in _TYPE_ALONE


def node_key(outputs: Iterable[str], position: int) -> str:
    """Return the key of a node within its graph, given the names of its outputs and its place there."""
    for name in outputs:
        if name:
            return encode(name)
    # A node without a named output is legal and useless; its place is all that tells it apart.
    return f"@{position}"


def subgraph_prefix(key: str, attribute: str, position: int | None = None) -> str:
    """Return what stands before the keys in a subgraph: the holder's key, the attribute, the place in a list."""
    place = "" if position is None else f".{position}"
    return f"{key}/{encode(attribute)}{place}/"


def function_prefix(domain: str, name: str, overload: str) -> str:
    """Return what stands before the keys in a function."""
    return "::".join(encode(part).replace(":", "%3A") for part in (domain, name, overload)) + "//"
