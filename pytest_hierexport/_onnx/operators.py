"""What ONNX's definition of an operator says of it."""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from typing import Any

import onnx

__all__ = ["definition", "is_deterministic"]


def definition(op_type: str, opset: int, domain: str) -> Any:
    """Return an operator's definition, the newest where the opset has none: torch writes down its opset last.

    None where ONNX knows no such operator.
    """
    own = "" if domain == "ai.onnx" else domain
    for version in (opset, onnx.defs.onnx_opset_version()):
        with suppress(onnx.defs.SchemaError):
            return onnx.defs.get_schema(op_type, version, own)
    return None


@lru_cache(maxsize=4096)
def is_deterministic(op_type: str, opset: int, domain: str) -> bool:
    """Whether the definition makes an operator a function of its inputs and attributes; an unknown one is."""
    found = definition(op_type, opset, domain)
    return found is None or found.node_determinism != onnx.defs.OpSchema.NodeDeterminism.NonDeterministic
