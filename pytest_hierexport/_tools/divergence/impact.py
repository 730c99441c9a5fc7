"""Measures the error of the model's outputs where one call adds its error and all others are the reference's.

The error is added to the reference's values of the call. One session serves all calls: a run is given the errors of one
call, and zero for all others.

    reference    h = MatMul(x, w)         y = Relu(h)
    run          h/own = MatMul(x, w)     h = Add(h/own, h/delta)     y = Relu(h)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import onnx

from pytest_hierexport._proof.session import run_each
from pytest_hierexport._proof.tolerance import Array
from pytest_hierexport._tools.divergence.cutting import unused_ending
from pytest_hierexport._tools.divergence.gaps import gap
from pytest_hierexport._tools.divergence.pairs import Key
from pytest_hierexport._tools.divergence.results import Gap
from pytest_hierexport._tools.divergence.sides import TEXTS, Side

_ADDABLE = ("float16", "float32", "float64")
"""The dtypes that ONNX Runtime adds on every machine."""


def impacts(
    side: Side, arrays: Mapping[Key, Array], changed: Mapping[str, Mapping[str, Array]]
) -> Iterator[tuple[str, Gap]]:
    """Yield each call with the error of the model's outputs where it alone adds its error.

    `side` is the reference, `arrays` has its values, and `changed` has those of each call as the other graph computes
    them from the reference's.
    """
    names = {name for own in changed.values() for name in own if name in side.graph.producer}
    addable = {name for name in names if arrays[name].dtype.name in _ADDABLE}
    label = unused_ending(side)
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
        copy = proto.graph.node.add()
        copy.CopyFrom(node)
        copy.output[:] = [name + label if name in deltas else name for name in node.output]
        proto.graph.node.extend(
            onnx.helper.make_node("Add", [name + label, deltas[name]], [name]) for name in node.output if name in deltas
        )
    for name, zero in zeros.items():
        code = onnx.helper.np_dtype_to_tensor_dtype(zero.dtype)
        proto.graph.input.append(onnx.helper.make_tensor_value_info(name, code, None))
    return proto
