"""Imports ONNX Runtime, tells its errors, converts arrays for it, and makes options of sessions that run nothing."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_hierexport._errors import PackageError, gist
from pytest_hierexport._onnx.graph import cannot_run

if TYPE_CHECKING:
    import onnx
    import onnxruntime
    from numpy.typing import NDArray


def import_runtime(module: str = "onnxruntime") -> Any:
    """Return ONNX Runtime, or a module inside it.

    Raises:
        PackageError: It is missing, or a library that it needs is.
    """
    try:
        return importlib.import_module(module)
    except (ImportError, OSError) as error:
        found = f"onnxruntime cannot be imported ({gist(error)})"
        do = "reinstall it (onnxruntime, onnxruntime-gpu or another build), or what it says is missing"
        raise PackageError("ONNX Runtime", found=found, do=do) from error


def runtime_errors() -> Any:
    """Return the module of ONNX Runtime's errors.

    Raises:
        PackageError: ONNX Runtime cannot be imported.
    """
    return import_runtime("onnxruntime.capi.onnxruntime_pybind11_state")


@contextmanager
def runtime_errors_told(graph: onnx.GraphProto, *, loaded: bool = True) -> Iterator[None]:
    """Raise a UsageError for an error of ONNX Runtime; `loaded` says whether it took the graph before."""
    try:
        yield
    except Exception as error:
        if type(error).__module__ != runtime_errors().__name__:
            raise
        raise cannot_run("ONNX Runtime", error, graph, loaded=loaded) from error


def ort_value(array: NDArray[Any]) -> Any:
    """Return an array as a value of ONNX Runtime; its dtype may be one that numpy itself does not have."""
    made = import_runtime().OrtValue
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    if array.dtype.isbuiltin == 1:
        return made.ortvalue_from_numpy(array)
    import onnx_ir as ir

    # onnx 1.18 does not know the dtypes that ml_dtypes gives numpy.
    code, stored = int(ir.DataType.from_numpy(array.dtype)), ir.Tensor(array).tobytes()
    # Of numbers of 4 bits or fewer, ONNX Runtime reads several in a byte; the array has a byte for each.
    elements = np.zeros(array.nbytes, np.uint8)
    elements[: len(stored)] = np.frombuffer(stored, np.uint8)
    return made.ortvalue_from_numpy_with_onnx_type(elements.view(f"u{array.itemsize}").reshape(array.shape), code)


def options_to_load(level: str) -> onnxruntime.SessionOptions:
    """Return the options of a session that runs nothing.

    Args:
        level: The level of optimization: `DISABLE_ALL`, `ENABLE_BASIC`, `ENABLE_EXTENDED` or `ENABLE_ALL`.
    """
    ort = import_runtime()
    options: onnxruntime.SessionOptions = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, f"ORT_{level}")
    # What it would warn of is told by its errors, or was asked for: the highest level's graph fits this machine alone.
    options.log_severity_level = 4
    # It compares each value with all free buffers, which is quadratic: 37 minutes for 108,000 nodes.
    options.enable_mem_reuse = False
    return options
