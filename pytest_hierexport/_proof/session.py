"""Computes any values of an ONNX graph.

ONNX Runtime computes them, in parts of bounded memory; onnx's reference evaluator where it has no kernel.

In go a graph, its inputs and the names of values; out come these values, by :func:`run_graph`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx_ir import serde

from pytest_hierexport._onnx.graph import cannot_run
from pytest_hierexport._onnx.loading import import_runtime, ort_value, runtime_errors, runtime_errors_told
from pytest_hierexport._proof.parts import Cutter, model_of
from pytest_hierexport._proof.tolerance import Array

BUDGET = 1 << 30
"""How many bytes of wanted values one session may hold at once; it also holds what later sessions read."""
_UNKNOWN = 64
"""The size assumed for an unknown dimension when a session's memory is estimated."""
_UNTYPED = 1 << 20
"""The bytes assumed for a value whose type the file does not state."""
_NO_NUMPY = tuple(f"tensor({name}" for name in ("bfloat16", "float8", "float4", "int4", "uint4", "int2", "uint2"))
"""The beginnings of the types that ONNX Runtime computes with and does not convert to numpy."""


@dataclass(frozen=True)
class Fetched:
    """A value of the graph."""

    name: str
    arrays: tuple[Array, ...]
    """The elements, those of a dtype that numpy lacks in one of ml_dtypes; of a sequence those of each tensor,
    of anything else none."""
    is_sequence: bool = False


def run_graph(
    proto: onnx.ModelProto,
    feeds: Mapping[str, Array],
    wanted: Sequence[str],
    folder: Path | None = None,
    *,
    optimized: bool = False,
) -> Iterator[Fetched]:
    """Yield the wanted values in their order.

    Args:
        proto: The model; it is as before when the last value has been yielded.
        feeds: The elements of the graph's inputs.
        wanted: Names of values of the main graph, inputs and initializers included.
        folder: The folder of the external data; None where the model holds its data itself.
        optimized: Whether ONNX Runtime optimizes the graph, as it does for its users: all of it, in one session.

    Raises:
        UsageError: The graph does not run on these inputs.
    """
    errors, done = runtime_errors(), 0
    parts = [*batches(wanted, dict.fromkeys(wanted, 0) if optimized else _sizes(proto, feeds))]
    with runtime_errors_told(proto.graph):
        try:
            if len(parts) == 1:
                values = _run_whole(proto, feeds, wanted, folder, optimized=optimized)
            else:
                values = _run_parts(proto, feeds, parts, folder)
            for value in values:
                yield value
                done += 1
        except (errors.NotImplemented, errors.InvalidGraph) as lacking:
            yield from _run_reference(proto, feeds, wanted[done:], folder, lacking)


def outputs_of(proto: onnx.ModelProto, run: Callable[[Sequence[str]], Iterable[Fetched]]) -> list[tuple[str, Array]]:
    """Return the tensors of a graph's outputs with the names of these; a sequence has any number of tensors.

    Args:
        proto: The graph.
        run: Gives values of it by name.

    Raises:
        UsageError: The graph does not run.
    """
    names = [output.name for output in proto.graph.output]
    # Each once: a list of outputs may repeat a value.
    found = {value.name: value.arrays for value in run(list(dict.fromkeys(names)))}
    return [(name, array) for name in names for array in found[name]]


def run_each(
    proto: onnx.ModelProto, feeds: Iterable[Mapping[str, Array]], wanted: Sequence[str], folder: Path | None = None
) -> Iterator[list[Fetched]]:
    """Yield the wanted values for each of several inputs, by one session.

    Args:
        proto: The model; it is as before when the session is open.
        feeds: The elements of the graph's inputs, for each run.
        wanted: Names of values of the main graph.
        folder: The folder of the external data; None where the model holds its data itself.

    Raises:
        UsageError: ONNX Runtime cannot run the graph on these inputs.
    """
    with runtime_errors_told(proto.graph, loaded=False), _outputs(proto, wanted):
        session = _session(proto, folder, optimized=False)
    with runtime_errors_told(proto.graph):
        for each in feeds:
            yield list(_fetched_each(wanted, _run(session, wanted, _given(each))))


def _run_whole(
    proto: onnx.ModelProto, feeds: Mapping[str, Array], wanted: Sequence[str], folder: Path | None, *, optimized: bool
) -> Iterator[Fetched]:
    with _outputs(proto, wanted):
        session = _session(proto, folder, optimized=optimized)
    yield from _fetched_each(wanted, _run(session, wanted, _given(feeds)))


def _run_parts(
    proto: onnx.ModelProto, feeds: Mapping[str, Array], parts: Sequence[Sequence[str]], folder: Path | None
) -> Iterator[Fetched]:
    """Run the graph in parts. A tensor that a later part reads is held; anything else is computed again."""
    cutter, given, held = Cutter(proto.graph), _given(feeds), dict[str, Any]()
    for position, wanted in enumerate(parts):
        part = cutter.part(wanted, held)
        later = cutter.part(chain.from_iterable(parts[position + 1 :]), {*part.outputs(), *held})
        declared = [_declared(name, held[name]) for name in sorted(part.taken)]
        names = list(dict.fromkeys((*wanted, *sorted(later.taken - held.keys()))))
        model = model_of(proto, part.nodes, declared, names)
        # An input that is also an initializer needs no value.
        inputs = {value.name for value in model.graph.input}
        taken = {name: value for name, value in (held | given).items() if name in inputs}
        found = _run(_session(model, folder, optimized=False), names, taken)
        tensors = {name: value for name, value in found.items() if not isinstance(value, list)}
        held = {name: value for name, value in (held | tensors).items() if name in later.taken}
        yield from _fetched_each(wanted, found)


def _given(feeds: Mapping[str, Array]) -> dict[str, Any]:
    return {name: ort_value(array) for name, array in feeds.items()}


def _declared(name: str, value: Any) -> onnx.ValueInfoProto:
    return onnx.helper.make_tensor_value_info(name, value.element_type(), None)


def _run(session: Any, names: Sequence[str], inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return tensors as values of ONNX Runtime, sequences of tensors as lists of arrays, and nothing else."""
    kinds = {output.name: output.type for output in session.get_outputs()}
    tensors = [name for name in dict.fromkeys(names) if kinds[name].startswith("tensor(")]
    sequences = [name for name in dict.fromkeys(names) if kinds[name].startswith("seq(tensor(")]
    found = dict(zip(tensors, session.run_with_ort_values(tensors, inputs) if tensors else (), strict=True))
    return found | dict(zip(sequences, session.run(sequences, inputs) if sequences else (), strict=True))


def _fetched_each(names: Iterable[str], found: Mapping[str, Any]) -> Iterator[Fetched]:
    for name in names:
        value = found.get(name)
        yield _fetched(name, value if value is None or isinstance(value, list) else _array(value))


def _fetched(name: str, value: Any) -> Fetched:
    parts = value if isinstance(value, list) else [value]
    are_tensors = all(isinstance(part, np.ndarray | np.generic) for part in parts)
    return Fetched(name, tuple(map(np.asarray, parts)) if are_tensors else (), isinstance(value, list))


def _array(value: Any) -> Array:
    """Copy the elements of a tensor, whatever its dtype."""
    if not value.data_type().startswith(_NO_NUMPY):
        copied: Array = value.numpy()
        return copied
    proto = onnx.TensorProto(data_type=value.element_type(), dims=value.shape())
    # ONNX Runtime 1.22 does not tell the size; that of a tensor without elements is the same.
    proto.raw_data = ctypes.string_at(value.data_ptr(), serde.TensorProtoTensor(proto).nbytes)
    array: Array = serde.TensorProtoTensor(proto).numpy()
    return array


def _session(proto: onnx.ModelProto, folder: Path | None, *, optimized: bool) -> Any:
    onnxruntime = import_runtime()
    options = onnxruntime.SessionOptions()
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.enable_mem_pattern = False
    options.enable_cpu_mem_arena = False
    if folder is not None:
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(folder))
    return onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])


@contextmanager
def _outputs(proto: onnx.ModelProto, names: Sequence[str]) -> Iterator[None]:
    """Make the values the graph's only outputs; ONNX Runtime infers their types."""
    own = list(proto.graph.output)
    del proto.graph.output[:]
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    try:
        yield
    finally:
        del proto.graph.output[:]
        proto.graph.output.extend(own)


def _sizes(proto: onnx.ModelProto, feeds: Mapping[str, Array]) -> dict[str, int]:
    """Estimate the bytes of every value whose type the file states."""
    known: dict[str, int] = {}
    for value in proto.graph.input:
        if value.name in feeds:
            dims = value.type.tensor_type.shape.dim
            known.update((d.dim_param, n) for d, n in zip(dims, feeds[value.name].shape, strict=False) if d.dim_param)
    sizes: dict[str, int] = {}
    for value in (*proto.graph.value_info, *proto.graph.output):
        stated = value.type.tensor_type
        if stated.HasField("shape") and stated.elem_type:
            elements = prod(dim.dim_value or known.get(dim.dim_param, _UNKNOWN) for dim in stated.shape.dim)
            sizes[value.name] = elements * onnx.helper.tensor_dtype_to_np_dtype(stated.elem_type).itemsize
    return sizes


def batches(wanted: Sequence[str], sizes: Mapping[str, int]) -> Iterator[list[str]]:
    """Yield the values in batches that fit into the budget."""
    part: list[str] = []
    held = 0
    for name in wanted:
        size = sizes.get(name, _UNTYPED)
        if part and held + size > BUDGET:
            yield part
            part, held = [], 0
        part.append(name)
        held += size
    if part:
        yield part


def _run_reference(
    proto: onnx.ModelProto, feeds: Mapping[str, Array], wanted: Sequence[str], folder: Path | None, lacking: Exception
) -> Iterator[Fetched]:
    """Run a graph for which ONNX Runtime lacks kernels."""
    from onnx.reference import ReferenceEvaluator

    if folder is not None:
        copied = type(proto)()
        copied.CopyFrom(proto)
        proto = copied
        onnx.load_external_data_for_model(proto, str(folder))
    try:
        with _outputs(proto, wanted):
            found = ReferenceEvaluator(proto).run(None, dict(feeds))
    except Exception as error:
        raise cannot_run("ONNX Runtime, or else onnx's reference evaluator,", lacking, proto.graph) from error
    yield from map(_fetched, wanted, found)
