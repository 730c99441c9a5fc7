"""Computes any values of an ONNX graph.

ONNX Runtime computes them, in slices of bounded memory; onnx's reference evaluator where it has no kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from pytest_hierexport._errors import UsageError
from pytest_hierexport._proof.tolerance import Array

__all__ = ["Fetched", "run_graph"]

BUDGET = 1 << 30
"""How many bytes of values one session may hold at once."""
_UNKNOWN = 64
"""The size assumed for an unknown dimension when a session's memory is estimated."""
_UNTYPED = 1 << 20
"""The bytes assumed for a value whose type the file does not state."""
_NO_NUMPY = {
    "tensor(bfloat16)": "bfloat16",
    "tensor(float8e4m3fn)": "float8_e4m3fn",
    "tensor(float8e4m3fnuz)": "float8_e4m3fnuz",
    "tensor(float8e5m2)": "float8_e5m2",
    "tensor(float8e5m2fnuz)": "float8_e5m2fnuz",
}
"""The types that ONNX Runtime computes with and numpy lacks, with the name of each dtype."""


@dataclass(frozen=True)
class Fetched:
    """A value of the graph."""

    name: str
    arrays: tuple[Array, ...]
    """The elements; of a sequence those of each tensor."""
    dtype: str
    """The dtype that the elements had, where numpy lacks it; empty otherwise."""


def run_graph(
    proto: onnx.ModelProto,
    feeds: Mapping[str, Array],
    wanted: Sequence[str],
    folder: Path | None = None,
    *,
    optimized: bool = False,
) -> Iterator[Fetched]:
    """Yield every wanted value that is a tensor or a sequence of tensors, in the order in which they are wanted.

    Args:
        proto: The model; it is as before when the last value has been yielded.
        feeds: The elements of the graph's inputs.
        wanted: Names of values of the main graph.
        folder: The folder of the external data; None where the model holds its data itself.
        optimized: Whether ONNX Runtime optimizes the graph, as it does for its users.

    Raises:
        UsageError: The graph does not run on these inputs.
    """
    from onnxruntime.capi import onnxruntime_pybind11_state as errors

    try:
        yield from _run_slices(proto, feeds, wanted, partial(_session, folder=folder, optimized=optimized))
    except (errors.NotImplemented, errors.InvalidGraph) as lacking:
        yield from _run_reference(proto, feeds, wanted, folder, lacking)
    except Exception as error:
        if type(error).__module__ != errors.__name__:
            raise
        raise _not_run("ONNX Runtime", error) from error


def _not_run(engine: str, error: Exception) -> UsageError:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return UsageError(
        f"a graph that {engine} can run on the example's inputs",
        found=lines[0],
        do="load the file with onnxruntime, and check the inputs that the case gives",
    )


def _run_slices(
    proto: onnx.ModelProto, feeds: Mapping[str, Array], wanted: Sequence[str], start: Callable[[onnx.ModelProto], Any]
) -> Iterator[Fetched]:
    for part in _slices(wanted, _sizes(proto, feeds)):
        with _outputs(proto, part):
            session = start(proto)
        kinds = {output.name: output.type for output in session.get_outputs()}
        names = [name for name in part if _is_fetchable(kinds[name])]
        found = {value.name: value for value in _run(session, {name: (name, "") for name in names}, feeds)}
        odd = {f"{name}//float32": (name, _NO_NUMPY[kinds[name]]) for name in part if kinds[name] in _NO_NUMPY}
        if odd:
            with _casts(proto, {new: old for new, (old, _) in odd.items()}), _outputs(proto, list(odd)):
                session = start(proto)
            found.update((value.name, value) for value in _run(session, odd, feeds))
        yield from (found[name] for name in part if name in found)


def _is_fetchable(kind: str) -> bool:
    return kind.startswith(("tensor(", "seq(tensor(")) and not any(lacking in kind for lacking in _NO_NUMPY)


def _run(session: Any, wanted: Mapping[str, tuple[str, str]], feeds: Mapping[str, Array]) -> Iterator[Fetched]:
    """Yield values of a session, each under the name and with the dtype that it has in the graph."""
    if not wanted:
        return
    kinds = {value.name: value.type for value in session.get_inputs()}
    inputs = {name: _input(array, kinds[name]) for name, array in feeds.items() if name in kinds}
    for (name, dtype), value in zip(wanted.values(), session.run(list(wanted), inputs), strict=True):
        arrays = tuple(np.asarray(part) for part in (value if isinstance(value, list) else [value]))
        yield Fetched(name, arrays, dtype)


def _input(array: Array, kind: str) -> Any:
    if kind not in _NO_NUMPY:
        return array
    import onnxruntime

    elements = np.ascontiguousarray(array).view(f"u{array.itemsize}")
    code = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(elements, code)


def _session(proto: onnx.ModelProto, *, folder: Path | None, optimized: bool) -> Any:
    import onnxruntime

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


@contextmanager
def _casts(proto: onnx.ModelProto, casts: Mapping[str, str]) -> Iterator[None]:
    """Add a float32 copy, by its name, of each value."""
    count = len(proto.graph.node)
    proto.graph.node.extend(
        onnx.helper.make_node("Cast", [old], [new], to=onnx.TensorProto.FLOAT) for new, old in casts.items()
    )
    try:
        yield
    finally:
        del proto.graph.node[count:]


def _sizes(proto: onnx.ModelProto, feeds: Mapping[str, Array]) -> dict[str, int]:
    """Estimate the bytes of every value whose type the file states."""
    known: dict[str, int] = {}
    for value in proto.graph.input:
        if value.name in feeds:
            dims = value.type.tensor_type.shape.dim
            known.update((d.dim_param, n) for d, n in zip(dims, feeds[value.name].shape, strict=False))
    sizes: dict[str, int] = {}
    for value in (*proto.graph.value_info, *proto.graph.output):
        stated = value.type.tensor_type
        if stated.HasField("shape") and stated.elem_type:
            dims = stated.shape.dim
            elements = prod(dim.dim_value or known.get(dim.dim_param, _UNKNOWN) for dim in dims)
            sizes[value.name] = elements * onnx.helper.tensor_dtype_to_np_dtype(stated.elem_type).itemsize
    return sizes


def _slices(wanted: Sequence[str], sizes: Mapping[str, int]) -> Iterator[list[str]]:
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
        onnx.load_external_data_for_model(proto, str(folder))
    try:
        with _outputs(proto, wanted):
            found = ReferenceEvaluator(proto).run(None, dict(feeds))
    except Exception as error:
        raise _not_run("ONNX Runtime, or else onnx's reference evaluator,", lacking) from error
    for name, value in zip(wanted, found, strict=True):
        parts = value if isinstance(value, list) else [value]
        if all(isinstance(part, np.ndarray | np.generic) for part in parts):
            yield Fetched(name, tuple(np.asarray(part) for part in parts), "")
