"""Writes the type of a value as text: `FLOAT[2, N]`, `sequence(INT64)`."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx

_SIZE_NAME = re.compile(r"(?![0-9]+$)[\w .*+/()-]+")
"""The names of sizes that cannot be taken for a number or for several sizes; others are quoted."""


def type_text(declared: onnx.TypeProto) -> str:
    """Return a type as text, without denotations; equal texts mean equal types."""
    kind = declared.WhichOneof("value")
    if kind in {"sequence_type", "optional_type"}:
        return f"{kind.removesuffix('_type')}({type_text(getattr(declared, kind).elem_type)})"
    if kind == "map_type":
        return f"map({_element(declared.map_type.key_type)}, {type_text(declared.map_type.value_type)})"
    if kind == "tensor_type":
        return _tensor(declared.tensor_type)
    if kind == "sparse_tensor_type":
        return f"sparse({_tensor(declared.sparse_tensor_type)})"
    if kind == "opaque_type":
        return f"opaque({json.dumps(declared.opaque_type.domain)}, {json.dumps(declared.opaque_type.name)})"
    return "of an unknown type"


def _tensor(declared: onnx.TypeProto.Tensor | onnx.TypeProto.SparseTensor) -> str:
    element = _element(declared.elem_type)
    return f"{element}[{', '.join(map(_dimension, declared.shape.dim))}]" if declared.HasField("shape") else element


def _dimension(declared: onnx.TensorShapeProto.Dimension) -> str:
    kind = declared.WhichOneof("value")
    if kind != "dim_param":
        return "?" if kind is None else str(declared.dim_value)
    return declared.dim_param if _SIZE_NAME.fullmatch(declared.dim_param) else json.dumps(declared.dim_param)


def _element(data_type: int) -> str:
    from onnx import TensorProto

    known = data_type in TensorProto.DataType.values()
    return TensorProto.DataType.Name(data_type) if known else f"type {data_type}"
