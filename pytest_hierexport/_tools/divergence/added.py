"""Runs a graph so that the errors of its calls show one by one: what each adds, and what that does to the outputs.

For the error that a part adds, the graph is cut at every value that is known in the reference: its consumers take the
reference's value, and what its producer computes has another name. All parts run in one session; those of a large graph
in batches of bounded memory.

    graph    h = MatMul(x, w)        y = Relu(h)        z = Exp(y)      h and y are known in the reference
    run      h/own = MatMul(x, w)    y/own = Relu(h)                    given x and h

For the error of the outputs, that error is added to the reference's values of one call, and all others are the
reference's. One session serves all calls: a run is given the errors of one call, and zero for all others.

    reference    h = MatMul(x, w)         y = Relu(h)
    run          h/own = MatMul(x, w)     h = Add(h/own, h/delta)     y = Relu(h)
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence

import numpy as np
import onnx
import onnx_ir as ir

from pytest_hierexport._proof.parts import model_of
from pytest_hierexport._proof.session import batches, run_each, run_graph
from pytest_hierexport._proof.tolerance import Array
from pytest_hierexport._text import numbered
from pytest_hierexport._tools.divergence.gaps import gap
from pytest_hierexport._tools.divergence.pairs import Key
from pytest_hierexport._tools.divergence.results import Gap
from pytest_hierexport._tools.divergence.sides import TEXTS, Side

_ADDABLE = ("float16", "float32", "float64")
"""The dtypes that ONNX Runtime adds on every machine."""


def run_parts(side: Side, known: Mapping[str, Array]) -> Iterator[tuple[str, Array]]:
    """Yield each known value of the reference, in its dtype in the graph, as its part of the graph computes it."""
    label = _unused_ending(side)
    for part in batches([*known], {name: array.nbytes for name, array in known.items()}):
        proto = _cut(side, known, part, label)
        taken = {value.name for value in proto.graph.input}
        feeds = {name: array for source in (side.feeds, known) for name, array in source.items() if name in taken}
        for found in run_graph(proto, feeds, [name + label for name in part], side.folder):
            yield found.name.removesuffix(label), found.arrays[0]


def _cut(side: Side, known: Mapping[str, Array], wanted: Sequence[str], label: str) -> onnx.ModelProto:
    """Return the nodes that compute the wanted values from known ones."""
    graph, producers = side.graph, {value: node for node in side.proto.graph.node for value in node.output}
    needed = [graph.nodes[position] for position in sorted(graph.upstream(wanted, known))]
    read = {value for node in needed for value in node.inputs}
    given = [_declared(name, array, array.shape) for name, array in known.items() if name in read]
    return model_of(side.proto, (_renamed(producers[node.outputs[0]], known, label) for node in needed), given)


def impacts(
    side: Side, arrays: Mapping[Key, Array], changed: Mapping[str, Mapping[str, Array]]
) -> Iterator[tuple[str, Gap]]:
    """Yield each call with the error of the model's outputs where it alone adds its error.

    `side` is the reference, `arrays` has its values, and `changed` has those of each call as the other graph computes
    them from the reference's.
    """
    names = {name for own in changed.values() for name in own if name in side.graph.producer}
    addable = {name for name in names if arrays[name].dtype.name in _ADDABLE}
    label = _unused_ending(side)
    deltas = {name: name + label + "-delta" for name in sorted(addable)}
    zeros = {delta: np.zeros((), arrays[name].dtype) for name, delta in deltas.items()}
    calls = {call: sorted(own.keys() & addable) for call, own in changed.items() if not addable.isdisjoint(own)}

    def feeds() -> Iterator[dict[str, Array]]:
        yield {**side.feeds, **zeros}
        for call, own in calls.items():
            differences = {deltas[name]: _difference(arrays[name], changed[call][name]) for name in own}
            yield {**side.feeds, **zeros, **differences}

    outputs = [name for name in side.graph.outputs if name in side.graph.producer]
    runs = (
        _joined(found.arrays for found in run)
        for run in run_each(_with_deltas(side, zeros, deltas, label), feeds(), outputs, side.folder)
    )
    base = next(runs)
    for call, found in zip(calls, runs, strict=True):
        yield call, gap(base, found, side.tolerance)


def _difference(reference: Array, own: Array) -> Array:
    with np.errstate(invalid="ignore", over="ignore"):
        return np.where(own == reference, 0, own - reference).astype(reference.dtype)


def _joined(outputs: Iterator[tuple[Array, ...]]) -> Array:
    numbers = (array for arrays in outputs for array in arrays if array.dtype.kind not in TEXTS)
    parts = [array.astype(np.float64).ravel() for array in numbers]
    return np.concatenate([np.empty(0), *parts]).astype(np.float32)


def _with_deltas(side: Side, zeros: Mapping[str, Array], deltas: Mapping[str, str], label: str) -> onnx.ModelProto:
    """Return the graph in which a difference is added to each of some values."""
    proto = onnx.ModelProto()
    proto.CopyFrom(side.proto)
    del proto.graph.node[:], proto.graph.value_info[:]
    for node in side.proto.graph.node:
        proto.graph.node.append(_renamed(node, deltas, label))
        proto.graph.node.extend(
            onnx.helper.make_node("Add", [name + label, deltas[name]], [name]) for name in node.output if name in deltas
        )
    proto.graph.input.extend(_declared(name, zero, None) for name, zero in zeros.items())
    return proto


def _unused_ending(side: Side) -> str:
    """Return an ending of names that no name of the graph has."""
    names = (*side.graph.producer, *side.graph.inputs, *side.graph.initializers)
    return next(end for end in numbered("/own", "_") if not any(name.endswith(end) for name in names))


def _renamed(node: onnx.NodeProto, renamed: Container[str], label: str) -> onnx.NodeProto:
    """Return a copy of a node, with another ending for some of its outputs."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    copy.output[:] = [name + label if name in renamed else name for name in node.output]
    return copy


def _declared(name: str, array: Array, shape: Sequence[int] | None) -> onnx.ValueInfoProto:
    return onnx.helper.make_tensor_value_info(name, int(ir.DataType.from_numpy(array.dtype)), shape)
