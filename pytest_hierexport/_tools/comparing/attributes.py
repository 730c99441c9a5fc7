"""Compares the attributes of nodes and functions by their values, however and wherever these are stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import onnx

from pytest_hierexport._errors import UsageError
from pytest_hierexport._tools.comparing.tensors import Data, Store
from pytest_hierexport._tools.comparing.texts import NONE, arrow

_TENSORS = ("t", "tensors", "sparse_tensor", "sparse_tensors")


def attribute_content(attribute: onnx.AttributeProto, store: Store) -> object:
    """Return a key that is equal for attributes of equal name, type and value.

    Raises:
        UsageError: The data of a tensor is missing, or does not fit its shape.
    """
    tensors = tuple(_content(tensor, store) for tensor in _tensors(attribute))
    copied = type(attribute)()
    copied.CopyFrom(attribute)
    for part in ("doc_string", *_TENSORS):
        copied.ClearField(part)
    return copied.SerializeToString(deterministic=True), tensors


def _content(tensor: onnx.TensorProto | onnx.SparseTensorProto, store: Store) -> object:
    """Return the content of a tensor; its bytes as they are where they are no valid tensor."""
    try:
        return store.content(tensor)
    except UsageError:
        if getattr(tensor, "external_data", ()):
            raise
        return tensor.SerializeToString(deterministic=True)


def _change(before: onnx.AttributeProto | None, after: onnx.AttributeProto | None, data: Data) -> str:
    """Return the difference between two attributes as text: `1 → -1`; an empty text for equal ones.

    At most one is missing.

    Raises:
        UsageError: The data of a tensor is missing, or does not fit its shape.
    """
    if before is None or after is None:
        return arrow(_shown(before), _shown(after))
    if attribute_content(before, data.before) == attribute_content(after, data.after):
        return ""
    if before.HasField("t") and after.HasField("t"):
        return data.change(before.t, after.t)
    texts = _shown(before), _shown(after)
    return arrow(*texts) if texts[0] != texts[1] else "other values"


def attribute_changes(
    before: Mapping[str, onnx.AttributeProto], after: Mapping[str, onnx.AttributeProto], data: Data
) -> Iterator[tuple[str, str]]:
    """Yield the names of the attributes that differ, each with its difference as text."""
    texts = ((name, _change(before.get(name), after.get(name), data)) for name in dict.fromkeys((*before, *after)))
    return ((name, text) for name, text in texts if text)


def _tensors(attribute: onnx.AttributeProto) -> list[onnx.TensorProto | onnx.SparseTensorProto]:
    single = [getattr(attribute, name) for name in ("t", "sparse_tensor") if attribute.HasField(name)]
    return [*single, *attribute.tensors, *attribute.sparse_tensors]


def _shown(attribute: onnx.AttributeProto | None) -> str:
    if attribute is None:
        return NONE
    if attribute.ref_attr_name:
        return f"attribute {attribute.ref_attr_name} of the function"
    try:
        value: Any = onnx.helper.get_attribute_value(attribute)
    except ValueError:
        return "a value of no type"
    if tensors := _tensors(attribute):
        return "tensors of shapes " + ", ".join(str(list(tensor.dims)) for tensor in tensors)
    return " ".join(str(value.decode("utf-8", "replace") if isinstance(value, bytes) else value).split())
