"""Imports ONNX Runtime, and makes the options of its sessions that load or optimize a graph, and run nothing."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from pytest_hierexport._errors import PackageError, gist

if TYPE_CHECKING:
    import onnxruntime


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
