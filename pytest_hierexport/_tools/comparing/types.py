"""Writes the type of a value as text: `FLOAT, 2xN`, `sequence(INT64)`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx


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
        return f"opaque({declared.opaque_type.domain}.{declared.opaque_type.name})"
    return "of an unknown type"


def _tensor(declared: onnx.TypeProto.Tensor | onnx.TypeProto.SparseTensor) -> str:
    element = _element(declared.elem_type)
    if not declared.HasField("shape"):
        return element
    return f"{element}, {'x'.join(map(_dimension, declared.shape.dim)) or 'scalar'}"


def _dimension(declared: onnx.TensorShapeProto.Dimension) -> str:
    kind = declared.WhichOneof("value")
    return "?" if kind is None else str(getattr(declared, kind))


def _element(data_type: int) -> str:
    from onnx import TensorProto

    known = data_type in TensorProto.DataType.values()
    return TensorProto.DataType.Name(data_type) if known else f"type {data_type}"
