"""Lists every node and initializer of an ONNX model with its key; the model is an onnx_ir model or a protobuf message.

A node's key is the name of its first output, which is unique in its graph (single assignment). In a subgraph, it has
the key of the holding node and the attribute's name as a prefix; in a function, the function's identity. Names in keys
are percent-encoded, so that a key can be split into them. An initializer's key is its plain name; in a subgraph, its
encoded name with the same prefix as a node's.

    y = If(c, then_branch: {t = Add(x, w)})     keys   y, y/then_branch/t, initializer y/then_branch/w
    z = my.Twice(y)                                    z
    function my::Twice(a): {b = Add(a, a)}             my::Twice:://b
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pytest_hierexport._calls.names import encode, encode_operator
from pytest_hierexport._errors import UsageError, proposal
from pytest_hierexport._onnx.absent import is_absent_proto
from pytest_hierexport._onnx.element_types import element_dtype, element_name
from pytest_hierexport._text import first_names

if TYPE_CHECKING:
    import onnx
    import onnx_ir as ir
    from numpy.typing import NDArray

NodeT = TypeVar("NodeT")
InitializerT = TypeVar("InitializerT")
GraphT = TypeVar("GraphT")

# AttributeProto.AttributeType. Reading `type` is far cheaper than reading the fields.
_GRAPH = 5
_GRAPHS = 10
# The bytes that protobuf writes for field 20 (`type`) with one of these two values.
_GRAPH_MARK = re.compile(rb"\xa0\x01[\x05\x0a]")


@dataclass(slots=True)
class Inventory(Generic[NodeT, InitializerT, GraphT]):
    """The parts of a model, its subgraphs and its functions, in file order."""

    nodes: list[tuple[str, NodeT]] = field(default_factory=list)
    """Every node with its key."""
    initializers: list[tuple[str, InitializerT]] = field(default_factory=list)
    """Every initializer with its key."""
    graphs: list[GraphT] = field(default_factory=list)
    """The main graph and every subgraph."""
    functions: list[Any] = field(default_factory=list)

    def elements(self) -> Iterator[tuple[str, NodeT | InitializerT]]:
        """Yield every node and initializer, named as in messages: `node y/then_branch/t`, `initializer w`."""
        yield from ((f"node {key}", node) for key, node in self.nodes)
        yield from ((f"initializer {key}", initializer) for key, initializer in self.initializers)


def walk(model: ir.Model | onnx.ModelProto) -> Iterator[tuple[str, Any]]:
    """Return every node of the model, its subgraphs and functions, with its key, in file order."""
    import onnx

    inventory: Any = inventory_proto if isinstance(model, onnx.ModelProto) else inventory_ir
    return iter(inventory(model).nodes)


def operators(model: ir.Model | onnx.ModelProto) -> dict[str, str]:
    """Return the operator of every node, by node key: `Add`, `com.microsoft::Gelu`."""
    return {key: encode_operator(node.domain, node.op_type) for key, node in walk(model)}


def shaped_operators(model: ir.Model) -> dict[str, str]:
    """Return the operator of every node and the shape of its first output, by node key: `Add[2×16]`, `Shape[?]`."""
    return {
        key: f"{encode_operator(node.domain, node.op_type)}[{_shape(node.outputs[:1])}]" for key, node in walk(model)
    }


def _shape(outputs: Sequence[ir.Value]) -> str:
    shape = outputs[0].shape if outputs else None
    if shape is None:
        return "?"
    sizes = (dim if isinstance(dim, int) else dim.value or "?" for dim in shape)
    return "×".join(encode_operator("", str(size)) for size in sizes)


def initializer_bytes(model: ir.Model) -> dict[str, int]:
    """Return the size in bytes of every initializer, by its key; external data is not read."""
    tensors = ((key, value.const_value) for key, value in inventory_ir(model).initializers)
    return {key: 0 if tensor is None else tensor.nbytes for key, tensor in tensors}


def initializers_ir(model: ir.Model) -> Iterator[ir.Value]:
    """Yield the initializers of all graphs of a model, those of subgraphs and functions included."""
    return (value for graph in model.graphs() for value in graph.initializers.values())


def inventory_ir(model: ir.Model) -> Inventory[ir.Node, ir.Value, ir.Graph]:
    """List the parts of an onnx_ir model; the initializers are values."""
    return _inventory(
        model.graph,
        model.functions.values(),
        nodes_of=iter,
        names_of=lambda node: [output.name or "" for output in node.outputs],
        subgraphs_of=subgraphs_ir,
        initializers_of=lambda graph: graph.initializers.items(),
    )


def inventory_proto(
    model: onnx.ModelProto, *, subgraphs: bool = True
) -> Inventory[onnx.NodeProto, onnx.TensorProto, onnx.GraphProto]:
    """List the parts of a protobuf message, with the same keys.

    Args:
        model: The message.
        subgraphs: False for a model without subgraphs: attributes are not read, which takes half of the time.
    """
    return _inventory(
        model.graph,
        model.functions,
        nodes_of=attrgetter("node"),
        names_of=attrgetter("output"),
        subgraphs_of=subgraphs_proto if subgraphs else lambda _: (),
        initializers_of=_initializers_proto,
    )


def _initializers_proto(graph: onnx.GraphProto) -> Iterator[tuple[str, onnx.TensorProto]]:
    """Yield the initializers of a graph by name; of a sparse one the tensor of its values, which has its name."""
    sparse = (tensor.values for tensor in graph.sparse_initializer)
    yield from ((tensor.name, tensor) for tensor in (*graph.initializer, *sparse))


def _inventory(
    graph: Any,
    functions: Iterable[Any],
    *,
    nodes_of: Callable[[Any], Iterable[Any]],
    names_of: Callable[[Any], Iterable[str]],
    subgraphs_of: Callable[[Any], Iterable[tuple[str, Any]]],
    initializers_of: Callable[[Any], Iterable[tuple[str, Any]]],
) -> Inventory[Any, Any, Any]:
    """List the parts of a model by functions that read the parts of a graph in one of its two forms."""
    found = Inventory[Any, Any, Any](graphs=[graph], initializers=[*initializers_of(graph)], functions=[*functions])

    def add_nodes(part: Any, prefix: str) -> None:
        for position, node in enumerate(nodes_of(part)):
            key = prefix + node_key(names_of(node), position)
            found.nodes.append((key, node))
            for place, subgraph in subgraphs_of(node):
                inside = f"{key}/{place}/"
                found.graphs.append(subgraph)
                found.initializers += [(inside + encode(name), held) for name, held in initializers_of(subgraph)]
                add_nodes(subgraph, inside)

    add_nodes(graph, "")
    for function in found.functions:
        add_nodes(function, function_prefix(function.domain, function.name, function.overload))
    return found


def may_hold_subgraphs(content: bytes) -> bool:
    """Whether a serialised model may have a subgraph. False is certain; True may be wrong."""
    return _GRAPH_MARK.search(content) is not None


def node_key(outputs: Iterable[str], position: int) -> str:
    """Return the key of a node within its graph, given the names of its outputs and its position there."""
    for name in outputs:
        if name:
            return encode(name)
    # A node without a named output is valid ONNX, but unused; only its position identifies it.
    return f"@{position}"


def subgraphs_ir(node: ir.Node) -> Iterator[tuple[str, ir.Graph]]:
    """Yield the subgraphs of a node, each with its place for keys: the attribute's name, and the index in a list."""
    for attribute in node.attributes.values():
        if attribute.is_ref():
            continue
        if attribute.type.value == _GRAPH:
            yield encode(attribute.name), attribute.value
        elif attribute.type.value == _GRAPHS:
            yield from ((f"{encode(attribute.name)}.{i}", graph) for i, graph in enumerate(attribute.value))


def subgraphs_proto(node: onnx.NodeProto) -> Iterator[tuple[str, onnx.GraphProto]]:
    """Yield the same as :func:`subgraphs_ir`, for a node of a protobuf message."""
    for attribute in node.attribute:
        kind = attribute.type
        if kind == _GRAPH and attribute.HasField("g"):
            yield encode(attribute.name), attribute.g
        elif kind == _GRAPHS:
            yield from ((f"{encode(attribute.name)}.{i}", graph) for i, graph in enumerate(attribute.graphs))


def graph_inputs(graph: onnx.GraphProto) -> list[onnx.ValueInfoProto]:
    """Return the inputs that a run must be given: those that are not initializers as well."""
    constants = {tensor.name for tensor in graph.initializer}
    return [value for value in graph.input if value.name not in constants]


def fitted_inputs(graph: onnx.GraphProto, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the array of numbers for each input of the graph, in the type that the input declares.

    Raises:
        UsageError: There is an input without an array, an array without an input, or one of no numbers, or of numbers
            that the type does not have: 0.5 for an integer.
    """
    inputs = {value.name: value for value in graph_inputs(graph)}
    missing = [name for name in inputs if name not in arrays]
    unknown = [name for name in arrays if name not in inputs]
    if missing or unknown:
        found = {"none for": missing, "arrays that are no input:": unknown}
        do = "give an array for each input, and no other"
        if missing and unknown:
            do = f"rename {unknown[0]}: {proposal(unknown[0], missing)}"
        raise UsageError(
            f"an array for each input: {first_names([*inputs], 12)}",
            found="; ".join(f"{what} {first_names(names)}" for what, names in found.items() if names),
            do=do,
        )
    return {name: _fitted(arrays[name], value) for name, value in inputs.items()}


def _fitted(array: NDArray[Any], value: onnx.ValueInfoProto) -> NDArray[Any]:
    import numpy as np

    # Of bfloat16 and the like, which numpy itself does not have, isbuiltin is 2.
    if array.dtype.kind not in "biufc" and array.dtype.isbuiltin != 2:
        expected = f"an array of numbers for the input {value.name}, {_declared(value)}"
        raise UsageError(expected, found=f"dtype {array.dtype}", do="convert it, or take a graph without texts")
    with np.errstate(invalid="ignore"):
        fitted = array.astype(element_dtype(value) if value.type.tensor_type.elem_type else array.dtype, copy=False)
    if fitted.dtype.kind in "biu" and not (fitted == array).all():
        expected = f"numbers of the input {value.name}, {_declared(value)}"
        raise UsageError(expected, found=f"dtype {array.dtype}, with other numbers", do="convert it")
    return fitted


def cannot_run(engine: str, error: Exception, graph: onnx.GraphProto, *, loaded: bool = True) -> UsageError:
    """Return the error for a graph that an engine did not run, with the whole of the engine's message.

    Its first line announces the others: `Got invalid dimensions for input: x for the following indices`.

    Args:
        engine: The engine.
        error: Its error.
        graph: The graph.
        loaded: Whether the engine took the graph, so that its inputs may be at fault.
    """
    if any(map(is_absent_proto, graph.initializer)):
        do = "export the model with its weights"
        return UsageError(f"a graph with weights for {engine} to run", found="one that was exported without", do=do)
    found = " ".join(str(error).split()) or type(error).__name__
    if not loaded:
        do = "convert the operators or types that it lacks, or take another version of it; if it names none, check "
        return UsageError(f"a graph that {engine} can load", found=found, do=f"{do}the file with onnx.checker")
    inputs = first_names([f"{value.name} {_declared(value)}" for value in graph_inputs(graph)])
    do = f"give its inputs the types and shapes that it declares ({inputs}); where they have these, check the file "
    return UsageError(f"a graph that {engine} can run on these inputs", found=found, do=f"{do}with onnx.checker")


def _declared(value: onnx.ValueInfoProto) -> str:
    """Return the type and shape of a tensor as ONNX's text does: `float[2, batch]`."""
    tensor = value.type.tensor_type
    sizes = [
        size.dim_param or (str(size.dim_value) if size.HasField("dim_value") else "?") for size in tensor.shape.dim
    ]
    return f"{element_name(tensor.elem_type).lower()}[{', '.join(sizes)}]"


def function_prefix(domain: str, name: str, overload: str) -> str:
    """Return the prefix of the keys of a function's nodes."""
    return "::".join(encode(part).replace(":", "%3A") for part in (domain, name, overload)) + "//"
