"""Compares two ONNX messages field by field; differences are named by node, tensor and field."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_hierexport._onnx.external import is_outside, load_data, loaded
from pytest_hierexport._onnx.proto_tags import TaggedProto

if TYPE_CHECKING:
    import onnx

_LONGEST = 120


@dataclass(frozen=True)
class Difference:
    """A field that is not the same in both."""

    where: str
    """The node, tensor or value, and the field: `node val_3 (Add), input[1]`."""
    expected: str
    found: str
    name: str = field(default="", compare=False)
    """The first output of the node, or the name of the tensor or value."""


def bare(proto: onnx.ModelProto, folder: Path) -> onnx.ModelProto:
    """Strip a message, in place, of everything that is not the graph, and return it.

    Metadata entries and the doc strings of nodes go; the data of an initializer is replaced by its digest, wherever
    it lies.

    Args:
        proto: The message.
        folder: Where its external data is.
    """
    tagged = TaggedProto(proto)
    for _, node in tagged.parts.nodes:
        node.ClearField("doc_string")
        node.ClearField("metadata_props")
    for message in tagged.others():
        message.ClearField("metadata_props")
    for _, tensor in tagged.parts.initializers:
        if is_outside(tensor):
            load_data(tensor, folder)
        if tensor.HasField("raw_data"):
            tensor.raw_data = hashlib.sha256(tensor.raw_data).digest()
    return proto


def differences(expected: onnx.ModelProto, found: onnx.ModelProto) -> Iterator[Difference]:
    """Yield where two messages differ, the graph's nodes in order, then the rest of the graph and of the model."""
    if expected.SerializeToString(deterministic=True) == found.SerializeToString(deterministic=True):
        return
    kinds = ("node", "initializer", "input", "output", "value_info")
    for kind in kinds:
        yield from _repeated(kind, getattr(expected.graph, kind), getattr(found.graph, kind))
    yield from _fields("the graph", expected.graph, found.graph, set(kinds))
    yield from _fields("the model", expected, found, {"graph"})


def _repeated(kind: str, expected: Any, found: Any) -> Iterator[Difference]:
    """Compare lists of named messages; where one has an item too many, everything behind it would differ as well."""
    for position, (a, b) in enumerate(zip_longest(expected, found)):
        if a == b:
            continue
        if len(expected) != len(found):
            of_all = "" if b is None else f", of {len(found)} in all"
            place = f"{kind} {position} of {len(expected)}"
            yield Difference(place, _named(a), f"{_named(b)}{of_all}", _name(b if a is None else a))
            return
        yield from (replace(each, name=_name(a)) for each in _fields(f"{kind} {_named(a)}", a, b, set()))


def _fields(where: str, expected: Any, found: Any, leave_out: set[str]) -> Iterator[Difference]:
    for stated in expected.DESCRIPTOR.fields:
        a, b = (_value(message, stated) for message in (expected, found))
        if stated.name in leave_out or a == b:
            continue
        if not stated.is_repeated:
            yield Difference(f"{where}, {stated.name}", _text(a), _text(b))
            continue
        place = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
        x, y = (_text(items[place]) if place < len(items) else "none" for items in (a, b))
        yield Difference(f"{where}, {stated.name}[{place}]", x, y)


def content_of(tensor: onnx.TensorProto, folder: Path | None = None) -> tuple[int, tuple[int, ...], bytes]:
    """Return the type, the shape and the stored data of a tensor, without its name and texts.

    Args:
        tensor: The tensor.
        folder: Where its external data is; None takes the place of such data for the data.
    """
    if folder is not None and is_outside(tensor):
        tensor = loaded(tensor, folder)
    data = tensor.raw_data
    if not tensor.HasField("raw_data"):
        copied = type(tensor)()
        copied.CopyFrom(tensor)
        for part in ("name", "doc_string", "metadata_props"):
            copied.ClearField(part)
        data = copied.SerializeToString(deterministic=True)
    return tensor.data_type, tuple(tensor.dims), data


def _value(message: Any, stated: Any) -> Any:
    """Return the value of a field; None where the message does not state one, though its default may be equal."""
    return None if stated.has_presence and not message.HasField(stated.name) else getattr(message, stated.name)


def _name(message: Any) -> str:
    return str(message.output[0] if getattr(message, "output", None) else message.name)


def _named(message: Any) -> str:
    if message is None:
        return "none"
    kind = getattr(message, "op_type", "")
    return f"{_name(message)} ({kind})" if kind else _name(message)


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return f"{len(value)} bytes, {value[:8].hex()}…"
    text = " ".join(str(value).split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
