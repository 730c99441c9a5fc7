"""Identifies tensors by their content, where they are small: equal contents are equal values.

:func:`tensor_key` gives the content. Of a large tensor, :func:`tensor_sample` tells which others may equal it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from pytest_hierexport._onnx.absent import is_absent

Array = np.ndarray[Any, Any]

SMALL = 1024
"""The most bytes of a tensor that is known by its content, as in torch's own deduplication.

A larger one is known by its name; where two have one sample, their contents are compared."""
TENSOR = "tensor"
"""The first item of the key of a tensor."""


def tensor_key(tensor: Any) -> Hashable | None:
    """Return the content of a small tensor; None for a large one, whose content takes too long to compare.

    None, too, for one without readable numbers: a sparse buffer, which torch's optimizer drops if it is unused.
    """
    if tensor is None or tensor.nbytes > SMALL or tensor.dtype == ir.DataType.STRING or is_absent(tensor):
        return None
    try:
        return (TENSOR, tensor.dtype.value, tuple(tensor.shape), tensor.tobytes())
    except Exception:  # noqa: BLE001 as for tensor_sample
        return None


def content_array(content: Any) -> Array:
    """Return the array that :func:`tensor_key` wrote."""
    _, dtype, shape, data = content
    # Elements of four bits are packed in pairs, as in a file.
    proto = onnx.TensorProto(data_type=dtype, dims=shape, raw_data=data)
    array: Array = ir.serde.TensorProtoTensor(proto).numpy()
    return array


def tensor_sample(tensor: Any) -> Hashable | None:
    """Return a sample of a large tensor, the same for equal ones; None for one without readable numbers."""
    if tensor.dtype == ir.DataType.STRING:
        return None
    try:
        numbers = tensor.numpy().reshape(-1)
    except Exception:  # noqa: BLE001 a tensor without storage raises what its framework pleases
        return None
    return (tensor.dtype.value, tuple(tensor.shape), numbers[:16].tobytes(), numbers[-16:].tobytes())


def constant_tensor(node: ir.Node, given: Mapping[str, ir.Attr]) -> Any:
    """Return the tensor of a `Constant` of given attributes; None for any other node."""
    if node.op_type != "Constant" or node.domain or len(given) != 1:
        return None
    # onnx_ir's own consumer names the tensor after the value, which would be a change to the graph.
    (attribute,) = given.values()
    if attribute.is_ref():
        return None
    if attribute.type == ir.AttributeType.TENSOR:
        return attribute.value
    dtype = _PLAIN.get(attribute.type)
    return None if dtype is None else ir.tensor(attribute.value, dtype=dtype)


_PLAIN = {
    ir.AttributeType.FLOAT: ir.DataType.FLOAT,
    ir.AttributeType.FLOATS: ir.DataType.FLOAT,
    ir.AttributeType.INT: ir.DataType.INT64,
    ir.AttributeType.INTS: ir.DataType.INT64,
}
