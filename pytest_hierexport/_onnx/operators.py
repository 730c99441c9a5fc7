"""Looks up an operator in ONNX's definitions: its schema, and whether it is deterministic or takes elements."""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from typing import Any

import onnx

_TYPE_ALONE = frozenset(
    [("Shape", 0), ("Size", 0), ("CastLike", 1), ("EyeLike", 0), ("RandomNormalLike", 0), ("RandomUniformLike", 0)]
)
"""The operators, each with the position of an input of which it takes the shape or type and no element, by ONNX."""


def definition(op_type: str, opset: int, domain: str) -> Any:
    """Return an operator's schema; None where ONNX defines no such operator.

    The newest schema serves where the opset has none: torch sets the opset of a model at the end of its export.
    """
    own = "" if domain == "ai.onnx" else domain
    for version in (opset, onnx.defs.onnx_opset_version()):
        with suppress(onnx.defs.SchemaError):
            return onnx.defs.get_schema(op_type, version, own)
    return None


@lru_cache(maxsize=4096)
def is_deterministic(op_type: str, opset: int, domain: str) -> bool:
    """Whether an operator is a function of its inputs and attributes; True for one that ONNX does not define."""
    found = definition(op_type, opset, domain)
    return found is None or _is_deterministic(found)


def _is_deterministic(schema: Any) -> bool:
    """Whether a schema calls its operator deterministic; before onnx 1.20 schemas do not say it in so many words."""
    stated = getattr(schema, "node_determinism", None)
    if stated is not None:
        return bool(stated != onnx.defs.OpSchema.NodeDeterminism.NonDeterministic)
    random = any(name == "seed" for name in schema.attributes)
    holds_graph = any(attribute.type == onnx.defs.OpSchema.AttrType.GRAPH for attribute in schema.attributes.values())
    return not random and not holds_graph


def reads_elements(domain: str, operator: str, position: int) -> bool:
    """Whether an operator takes the elements of the input at a position, not its shape or type alone."""
    return domain not in {"", "ai.onnx"} or (operator, position) not in _TYPE_ALONE
