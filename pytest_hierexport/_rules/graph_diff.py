"""Compares two ONNX messages field by field; differences are named by node, tensor and field."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_hierexport._onnx.absent import is_absent_proto

if TYPE_CHECKING:
    import onnx

_LONGEST = 120


@dataclass(frozen=True)
class Difference:
    """A field that is not the same in both."""

    where: str
    """The node, tensor or value, and the field: `node val_3 (Add), input[1]`."""
    plain: str
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
    from pytest_hierexport._onnx.proto_tags import TaggedProto

    tagged = TaggedProto(proto)
    for _, node in tagged.parts.nodes:
        node.ClearField("doc_string")
        node.ClearField("metadata_props")
    for message in tagged.others():
        message.ClearField("metadata_props")
    for _, tensor in tagged.parts.initializers:
        _digest(tensor, folder)
    return proto


def _digest(tensor: onnx.TensorProto, folder: Path) -> None:
    from onnx.external_data_helper import load_external_data_for_tensor

    if tensor.external_data and not is_absent_proto(tensor):
        load_external_data_for_tensor(tensor, str(folder))
        tensor.ClearField("external_data")
        tensor.ClearField("data_location")
    if tensor.HasField("raw_data"):
        tensor.raw_data = hashlib.sha256(tensor.raw_data).digest()


def differences(plain: onnx.ModelProto, found: onnx.ModelProto) -> Iterator[Difference]:
    """Yield where two messages differ, the graph's nodes in order, then the rest of the graph and of the model."""
    if plain.SerializeToString(deterministic=True) == found.SerializeToString(deterministic=True):
        return
    kinds = ("node", "initializer", "input", "output", "value_info")
    for kind in kinds:
        yield from _repeated(kind, getattr(plain.graph, kind), getattr(found.graph, kind))
    yield from _fields("the graph", plain.graph, found.graph, set(kinds))
    yield from _fields("the model", plain, found, {"graph"})


def _repeated(kind: str, plain: Any, found: Any) -> Iterator[Difference]:
    """Compare lists of named messages; where one has an item too many, everything behind it would differ as well."""
    for position, (a, b) in enumerate(zip(plain, found, strict=False)):
        if a == b:
            continue
        if len(plain) != len(found):
            shown = f"{_named(b)}, of {len(found)} in all"
            yield Difference(f"{kind} {position} of {len(plain)}", _named(a), shown, _name(a))
            return
        yield from (replace(each, name=_name(a)) for each in _fields(f"{kind} {_named(a)}", a, b, set()))
    if len(plain) > len(found):
        yield Difference(f"{kind} {len(found)} of {len(plain)}", _named(plain[len(found)]), "none")
    elif len(found) > len(plain):
        yield Difference(f"{kind} {len(plain)}", "none", _named(found[len(plain)]))


def _fields(where: str, plain: Any, found: Any, leave_out: set[str]) -> Iterator[Difference]:
    for stated in plain.DESCRIPTOR.fields:
        a, b = getattr(plain, stated.name), getattr(found, stated.name)
        if stated.name in leave_out or a == b:
            continue
        if not stated.is_repeated:
            yield Difference(f"{where}, {stated.name}", _text(a), _text(b))
            continue
        place = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
        x, y = (_text(items[place]) if place < len(items) else "none" for items in (a, b))
        yield Difference(f"{where}, {stated.name}[{place}]", x, y)


def _name(message: Any) -> str:
    return str(message.output[0] if getattr(message, "output", None) else message.name)


def _named(message: Any) -> str:
    name = _name(message)
    kind = getattr(message, "op_type", "")
    return f"{name} ({kind})" if kind else name


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return f"{len(value)} bytes, {value[:8].hex()}…"
    text = " ".join(str(value).split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
