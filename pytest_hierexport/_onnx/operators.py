"""Looks up an operator in ONNX's definitions: its schema, whether it is deterministic, which elements it uses."""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from typing import Any

import onnx

_SHAPE_OR_TYPE_ONLY = frozenset(
    [("Shape", 0), ("Size", 0), ("CastLike", 1), ("EyeLike", 0), ("RandomNormalLike", 0), ("RandomUniformLike", 0)]
)
"""(operator, input): by ONNX's definition, the operator uses the shape or the type of this input, but no element."""


def definition(op_type: str, opset: int, domain: str) -> Any:
    """Return an operator's schema; None if ONNX does not define the operator.

    If the opset does not have the operator, the newest schema is returned: during an export, a model may not state its
    final opset yet, since torch sets it at the end.
    """
    own = "" if domain == "ai.onnx" else domain
    for version in (opset, onnx.defs.onnx_opset_version()):
        with suppress(onnx.defs.SchemaError):
            return onnx.defs.get_schema(op_type, version, own)
    return None


@lru_cache(maxsize=4096)
def is_deterministic(op_type: str, opset: int, domain: str) -> bool:
    """Whether an operator's outputs depend only on its inputs and attributes; True if ONNX does not define it."""
    schema = definition(op_type, opset, domain)
    if schema is None:
        return True
    # Schemas before onnx 1.20 do not state it, so it is inferred.
    stated = getattr(schema, "node_determinism", None)
    if stated is not None:
        return bool(stated != onnx.defs.OpSchema.NodeDeterminism.NonDeterministic)
    random = any(name == "seed" for name in schema.attributes)
    holds_graph = any(attribute.type == onnx.defs.OpSchema.AttrType.GRAPH for attribute in schema.attributes.values())
    return not random and not holds_graph


def reads_elements(domain: str, operator: str, position: int) -> bool:
    """Whether an operator uses the elements of the input at a position, not only its shape or type."""
    return domain not in {"", "ai.onnx"} or (operator, position) not in _SHAPE_OR_TYPE_ONLY


def draws(domain: str, operator: str, inputs: int) -> bool:
    """Whether an operator with so many inputs draws random numbers that do not depend on the elements of these."""
    reads = any(reads_elements(domain, operator, position) for position in range(inputs))
    # No operator that draws became deterministic: the newest definition says it for all opsets.
    return not reads and not is_deterministic(operator, onnx.defs.onnx_opset_version(), domain)
