"""Makes the options of ONNX Runtime sessions that load or optimize a graph, and run nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnxruntime


def options_to_load(level: str) -> onnxruntime.SessionOptions:
    """Return the options of a session that runs nothing.

    Args:
        level: The level of optimization: `DISABLE_ALL`, `ENABLE_BASIC`, `ENABLE_EXTENDED` or `ENABLE_ALL`.
    """
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, f"ORT_{level}")
    # What it would warn of is told by its errors, or was asked for: the highest level's graph fits this machine alone.
    options.log_severity_level = 4
    # It compares each value with all free buffers, which is quadratic: 37 minutes for 108,000 nodes.
    options.enable_mem_reuse = False
    return options
