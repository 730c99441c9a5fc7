"""torch reads the table of its operators anew for each export, which takes longer than the small models of tests."""

from __future__ import annotations

import functools

__all__ = ["keep_operator_table"]


def keep_operator_table() -> None:
    """Let this process read the table once."""
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    ONNXRegistry.from_torchlib = staticmethod(functools.cache(ONNXRegistry.from_torchlib))  # type: ignore[method-assign]
