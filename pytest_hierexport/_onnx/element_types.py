"""Names the types of elements, also one that a newer onnx brought, and finds the numpy dtype of an input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_hierexport._errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    import onnx


def element_name(code: int) -> str:
    """Return the name of a type of elements: `FLOAT`; `type 99` of one that the installed onnx does not know."""
    from onnx import TensorProto

    return TensorProto.DataType.Name(code) if code in TensorProto.DataType.values() else f"type {code}"


def element_dtype(value: onnx.ValueInfoProto) -> np.dtype[Any]:
    """Return the numpy dtype of the elements of an input; objects, where it declares no type of elements.

    Raises:
        UsageError: The installed onnx does not know the type.
    """
    import numpy as np
    from onnx.helper import tensor_dtype_to_np_dtype

    code = value.type.tensor_type.elem_type
    try:
        return np.dtype(tensor_dtype_to_np_dtype(code) if code else object)
    except KeyError:
        expected = f"the input {value.name} to have a type that the installed onnx knows"
        raise UsageError(expected, found=element_name(code), do="pip install --upgrade onnx") from None
