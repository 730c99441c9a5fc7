"""Runs each part of a graph on the values of the reference, which shows the error that the part adds.

The graph is cut at every value that is known in the reference: its consumers take the reference's value, and what its
producer computes has another name. All parts run in one session; those of a large graph in batches of bounded memory.

    graph    h = MatMul(x, w)        y = Relu(h)        z = Exp(y)      h and y are known in the reference
    run      h/own = MatMul(x, w)    y/own = Relu(h)                    given x and h
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import onnx

from pytest_hierexport._proof.session import batches, run_graph
from pytest_hierexport._proof.tolerance import Array
from pytest_hierexport._text import numbered
from pytest_hierexport._tools.divergence.sides import Side


def run_parts(side: Side, known: Mapping[str, Array]) -> Iterator[tuple[str, Array]]:
    """Yield each known value of the reference, in its dtype in the graph, as its part of the graph computes it."""
    label = unused_ending(side)
    for part in batches([*known], {name: array.nbytes for name, array in known.items()}):
        proto = _cut(side, known, part, label)
        taken = {value.name for value in proto.graph.input}
        feeds = {name: array for source in (side.feeds, known) for name, array in source.items() if name in taken}
        for found in run_graph(proto, feeds, [name + label for name in part], side.folder):
            yield found.name.removesuffix(label), found.arrays[0]


def unused_ending(side: Side) -> str:
    """Return an ending of names that no name of the graph has."""
    endings = numbered("/own", "_")
    return next(end for end in endings if not any(name.endswith(end) for name in side.graph.producer))


def _cut(side: Side, known: Mapping[str, Array], wanted: Sequence[str], label: str) -> onnx.ModelProto:
    """Return the nodes that compute the wanted values from known ones."""
    graph, producers = side.graph, {value: node for node in side.proto.graph.node for value in node.output}
    needed = sorted(graph.upstream(wanted, known))
    read = {value for position in needed for value in graph.nodes[position].inputs}
    cut = onnx.ModelProto(
        ir_version=side.proto.ir_version, opset_import=side.proto.opset_import, functions=side.proto.functions
    )
    cut.graph.name = "parts"
    for position in needed:
        node = cut.graph.node.add()
        node.CopyFrom(producers[graph.nodes[position].outputs[0]])
        node.output[:] = [name + label if name in known else name for name in node.output]
    cut.graph.input.extend(value for value in side.proto.graph.input if value.name in read)
    cut.graph.input.extend(_declared(name, known[name]) for name in known if name in read)
    cut.graph.initializer.extend(tensor for tensor in side.proto.graph.initializer if tensor.name in read)
    cut.graph.sparse_initializer.extend(side.proto.graph.sparse_initializer)
    return cut


def _declared(name: str, array: Array) -> onnx.ValueInfoProto:
    return onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
