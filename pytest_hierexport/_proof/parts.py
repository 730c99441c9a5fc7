"""Cuts a graph into parts that run one after another, so that each node runs once, however few values fit into memory.

    graph    a = Relu(x)    b = Exp(a)    y = Add(a, b)      first a and b are wanted, then y
    parts    a = Relu(x)    b = Exp(a)                       is given x
             y = Add(a, b)                                   is given a and b

In go a graph, the values that are wanted of a part and those that are known before it; out come the part's nodes and
the known values that they read, by :meth:`Cutter.part`. :func:`model_of` makes a model of such nodes.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass

import onnx

from pytest_hierexport._onnx.graph import subgraphs_proto


@dataclass(frozen=True)
class Part:
    """The nodes that compute some values from others."""

    nodes: tuple[onnx.NodeProto, ...]
    """In the order of the graph."""
    taken: frozenset[str]
    """The known values that they read, or that are wanted."""

    def outputs(self) -> Iterator[str]:
        """Yield the names of all values that the nodes compute."""
        return (name for node in self.nodes for name in node.output if name)


class Cutter:
    """Finds the nodes of a graph that compute some values from others."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        """Note which node computes each value."""
        self._nodes = graph.node
        self._producer = {name: i for i, node in enumerate(graph.node) for name in node.output if name}

    def part(self, wanted: Iterable[str], known: Container[str]) -> Part:
        """Return the nodes that compute the wanted values from known ones; one that is wanted and known is taken."""
        pending, needed, taken = list(wanted), set[int](), set[str]()
        while pending:
            name = pending.pop()
            producer = self._producer.get(name)
            if name in known:
                taken.add(name)
            elif producer is not None and producer not in needed:
                needed.add(producer)
                pending += reads(self._nodes[producer])
        return Part(tuple(self._nodes[position] for position in sorted(needed)), frozenset(taken))


def model_of(
    proto: onnx.ModelProto,
    nodes: Iterable[onnx.NodeProto],
    given: Iterable[onnx.ValueInfoProto],
    wanted: Iterable[str] = (),
) -> onnx.ModelProto:
    """Return a model of copies of a model's nodes, with the inputs and initializers of the graph that they read.

    Args:
        proto: The model; it is not changed.
        nodes: The nodes in topological order.
        given: Further inputs.
        wanted: The outputs, whose types ONNX Runtime infers. They may be inputs or initializers.
    """
    made = onnx.ModelProto(ir_version=proto.ir_version, opset_import=proto.opset_import, functions=proto.functions)
    made.graph.name = "part"
    made.graph.node.extend(nodes)
    made.graph.output.extend(onnx.ValueInfoProto(name=name) for name in wanted)
    read = {name for node in made.graph.node for name in reads(node)}.union(output.name for output in made.graph.output)
    computed = {name for node in made.graph.node for name in node.output}
    made.graph.input.extend(given)
    read.difference_update(value.name for value in made.graph.input)
    made.graph.input.extend(value for value in proto.graph.input if value.name in read)
    made.graph.initializer.extend(tensor for tensor in proto.graph.initializer if tensor.name in read)
    made.graph.sparse_initializer.extend(t for t in proto.graph.sparse_initializer if t.values.name in read)
    made.graph.value_info.extend(value for value in proto.graph.value_info if value.name in computed)
    return made


def reads(node: onnx.NodeProto) -> Iterator[str]:
    """Yield the names of the values that a node reads, also in its subgraphs, whose own values are among them."""
    yield from filter(None, node.input)
    for _, graph in subgraphs_proto(node):
        for inner in graph.node:
            yield from reads(inner)
