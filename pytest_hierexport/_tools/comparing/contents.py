"""Compares what two models store, by values: tensors, inside the file or in external data, and attributes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx import numpy_helper

from pytest_hierexport._errors import UsageError, chain
from pytest_hierexport._onnx.absent import is_absent_proto
from pytest_hierexport._onnx.difference import content_of
from pytest_hierexport._onnx.element_types import element_name
from pytest_hierexport._onnx.external import loaded
from pytest_hierexport._tools.comparing.texts import NONE, arrow

Tensor: TypeAlias = onnx.TensorProto | onnx.SparseTensorProto
_STRING = onnx.TensorProto.STRING
_TENSORS = ("t", "tensors", "sparse_tensor", "sparse_tensors")


@dataclass(frozen=True)
class Store:
    """Reads the tensors of one model."""

    path: Path | None
    """The file, beside which its external data is; None for a model from standard input."""

    def content(self, tensor: Tensor) -> object:
        """Return a key that is equal for tensors of equal type, shape and data, also if they were built without data.

        Raises:
            UsageError: The data is missing, or does not fit the shape.
        """
        if isinstance(tensor, onnx.SparseTensorProto):
            return tuple(tensor.dims), self.content(tensor.values), self.content(tensor.indices)
        if is_absent_proto(tensor):
            return tensor.data_type, tuple(tensor.dims), None
        digest = hashlib.sha256(self.array(tensor).tobytes()) if tensor.data_type != _STRING else None
        data = digest.hexdigest() if digest else tuple(tensor.string_data)
        return tensor.data_type, tuple(tensor.dims), data

    def array(self, tensor: onnx.TensorProto) -> Any:
        """Return a tensor's data as a contiguous array.

        Raises:
            UsageError: The data is missing, or does not fit the shape.
        """
        try:
            if tensor.external_data:
                if self.path is None:
                    raise ValueError("external data of a model from standard input")  # noqa: TRY301  # one message
                tensor = loaded(tensor, self.path.parent)
            return np.ascontiguousarray(numpy_helper.to_array(tensor))
        except Exception as error:  # onnx raises errors of many classes for data that is missing or damaged
            raise UsageError(
                f"the data of every stored tensor of {self.path.name if self.path else 'standard input'}",
                found=f"{tensor.name!r}: {str([*chain(error)][-1])[:300]}",
                do="keep the files with external data beside the model, or export it again",
            ) from error


@dataclass(frozen=True)
class Data:
    """The tensors of both models."""

    before: Store
    after: Store

    def change(self, old: Tensor, new: Tensor) -> str:
        """Return the difference between two tensors as text; an empty text for equal ones.

        Raises:
            UsageError: The data is missing, or does not fit the shape.
        """
        if isinstance(old, onnx.SparseTensorProto):
            return self._sparse_change(old, new) if isinstance(new, onnx.SparseTensorProto) else "sparse → dense"
        return "dense → sparse" if isinstance(new, onnx.SparseTensorProto) else self._dense_change(old, new)

    def _sparse_change(self, old: onnx.SparseTensorProto, new: onnx.SparseTensorProto) -> str:
        if old.dims != new.dims:
            return f"shape {list(old.dims)} → {list(new.dims)}"
        parts = {"values": (old.values, new.values), "indices": (old.indices, new.indices)}
        changes = ((name, self._dense_change(*pair)) for name, pair in parts.items())
        return ", ".join(f"{name}: {text}" for name, text in changes if text)

    def _dense_change(self, old: onnx.TensorProto, new: onnx.TensorProto) -> str:
        if old.data_type != new.data_type:
            names = (element_name(each.data_type).lower() for each in (old, new))
            return "dtype {} → {}".format(*names)
        if old.dims != new.dims:
            return f"shape {list(old.dims)} → {list(new.dims)}"
        absent = [is_absent_proto(tensor) for tensor in (old, new)]
        if any(absent) and not all(absent):
            return "data {} → {}".format(*(NONE if none else "stored" for none in absent))
        inside = not old.external_data and not new.external_data
        return "" if all(absent) or (inside and content_of(old) == content_of(new)) else self._data_change(old, new)

    def _data_change(self, old: onnx.TensorProto, new: onnx.TensorProto) -> str:
        one, other = self.before.array(old), self.after.array(new)
        if one.tobytes() == other.tobytes() and old.data_type != _STRING:
            return ""
        # NaN differs from itself: a pair of them is no change.
        differs = (one != other) & ((one == one) | (other == other))  # noqa: PLR0124
        count = int(np.count_nonzero(differs))
        if not count:
            return "" if old.data_type == _STRING else "bits of equal values"
        return f"{count:,} of {one.size:,} elements{_largest(one[differs], other[differs])}"


def _largest(one: Any, other: Any) -> str:
    """Return by how much unequal elements differ as text; an empty text where they are no numbers."""
    if one.dtype.kind in "iu":
        # Exact, as a float of 64 bits would not be; the difference of any two numbers has room without a sign.
        distances = np.maximum(one, other).astype(np.uint64) - np.minimum(one, other).astype(np.uint64)
        return f", by at most {int(distances.max()):.3g}"
    wide = np.complex128 if one.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        try:
            distances = np.abs(one.astype(wide) - other.astype(wide))
        except (TypeError, ValueError):
            return ""
    return ", NaN in one file" if np.isnan(distances).any() else f", by at most {distances.max():.3g}"


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


def _content(tensor: Tensor, store: Store) -> object:
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


def _tensors(attribute: onnx.AttributeProto) -> list[Tensor]:
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
