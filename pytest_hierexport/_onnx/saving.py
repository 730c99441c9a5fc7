"""Saves a model, its external data and its sidecar: each file atomically, the sidecar last."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_hierexport._errors import ExportError, cause
from pytest_hierexport._files.atomic import Staged, staged
from pytest_hierexport._onnx import sidecar
from pytest_hierexport._onnx.absent import is_absent, stored_bytes
from pytest_hierexport._onnx.codec import entries_of
from pytest_hierexport._onnx.external import outside_tensors
from pytest_hierexport._onnx.graph import initializers_ir, inventory_proto

if TYPE_CHECKING:
    import onnx
    import onnx_ir as ir

# Protobuf's limit is 2 GiB; torch's exporter uses external data from the same size on.
_EXTERNAL_ABOVE = 1536 * 1024 * 1024
# Tensors up to this size, in bytes, stay in the model; it is onnx_ir's default.
_INLINE_UP_TO = 256
# Larger tensors begin where every system can map a file into memory; both are onnx_ir's defaults.
_ALIGNED_ABOVE = 1024 * 1024
_ALIGNMENT = 64 * 1024

Beside = Callable[["onnx.ModelProto", str], sidecar.Sidecar]
"""Composes the sidecar of a model, given the SHA-256 of its file."""


def save_model(model: ir.Model, path: Path, beside: Beside, *, external_data: bool | None) -> None:
    """Write a model in memory, its external data and its sidecar, each atomically and in this order.

    After a crash in between, all files are the old ones, or the sidecar does not fit the model, which is an error when
    it is read.

    Raises:
        ExportError: A file cannot be written, or a tensor's data cannot be read.
    """
    size = sum(stored_bytes(value.const_value) for value in initializers_ir(model))
    external = size > _EXTERNAL_ABOVE if external_data is None else external_data
    with staged(path) as stage:
        proto = _serialise(model, stage.folder, f"{path.name}.data" if external else None)
        _land(stage, proto, path, beside)


def save_proto(proto: onnx.ModelProto, path: Path, beside: Beside | None) -> None:
    """Write a message and its sidecar, if it has one, each atomically and in this order; external data is unchanged.

    Raises:
        ExportError: A file cannot be written.
    """
    with staged(path) as stage:
        _land(stage, proto, path, beside)


def save_moved(proto: onnx.ModelProto, source: Path, path: Path, beside: Beside) -> None:
    """Write a message as :func:`save_proto` does, with its external data, which is copied from a folder to `PATH.data`.

    The message itself is unchanged.

    Raises:
        ExportError: A file cannot be written, or a tensor's data cannot be read.
    """
    moved = type(proto)()
    moved.CopyFrom(proto)
    with staged(path) as stage:
        _copy_data(moved, source, stage.folder / f"{path.name}.data")
        _land(stage, moved, path, beside)


def _copy_data(proto: onnx.ModelProto, source: Path, target: Path) -> None:
    """Copy the external data of a message, small tensors into the message itself; without others, make no `target`."""
    import onnx_ir as ir

    with target.open("wb") as file:
        for tensor in outside_tensors(proto):
            try:
                read = ir.serde.deserialize_tensor(tensor, source.absolute())
                content = read.tobytes() if read.size else b""
            except OSError:
                raise
            except Exception as error:  # as for _serialise
                raise ExportError(
                    f"to read the external data of {tensor.name!r}",
                    found=cause(error)[:300],
                    do="keep the files with external data beside the model, or export it again",
                ) from error
            tensor.ClearField("external_data")
            if len(content) <= _INLINE_UP_TO:
                tensor.ClearField("data_location")
                tensor.raw_data = content
                continue
            if len(content) > _ALIGNED_ABOVE:
                file.seek(-file.tell() % _ALIGNMENT, os.SEEK_CUR)
            for key, value in (("location", target.name), ("offset", file.tell()), ("length", len(content))):
                tensor.external_data.add(key=key, value=str(value))
            file.write(content)
        is_used = file.tell() > 0
    if not is_used:
        target.unlink()


def _land(stage: Staged, proto: onnx.ModelProto, path: Path, beside: Beside | None) -> None:
    """Write a message and its sidecar, if it has one; move both, and external data that is staged, to their places."""
    content, sidecar_name = _to_bytes(proto), sidecar.sidecar_path(path).name
    (stage.folder / path.name).write_bytes(content)
    if beside is not None:
        text = sidecar.to_text(beside(proto, hashlib.sha256(content).hexdigest()))
        (stage.folder / sidecar_name).write_text(text, encoding="utf-8", newline="\n")
    in_order = (path.name, f"{path.name}.data", sidecar_name)
    stage.land([name for name in in_order if (stage.folder / name).exists()])


def _to_bytes(proto: onnx.ModelProto) -> bytes:
    from google.protobuf.message import EncodeError  # type: ignore[import-untyped]  # protobuf ships no types

    try:
        return bytes(proto.SerializeToString(deterministic=True))
    except (EncodeError, ValueError) as error:
        raise _too_large(str(error)) from error


def _serialise(model: ir.Model, folder: Path, data: str | None) -> onnx.ModelProto:
    """Return the model as a message, its tensors inside or in the file `data`; the model itself is unchanged."""
    import onnx_ir as ir

    stored = [(value, value.const_value) for value in initializers_ir(model) if value.const_value is not None]
    try:
        _place(stored, folder, data)
        proto = ir.to_proto(model)
        was_read = any(isinstance(tensor, ir.serde.TensorProtoTensor) for _, tensor in stored)
        return _with_single_entries(proto) if was_read else proto
    except OSError:
        raise
    except Exception as error:  # reading a lazy tensor runs code of others, which may raise any error
        raise _too_large(cause(error)) from error
    finally:
        for value, tensor in stored:
            value.const_value = tensor


def _with_single_entries(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return the message with one entry of each key on a tensor: onnx_ir writes those twice that it read in one."""
    import onnx

    for _, tensor in inventory_proto(proto).initializers:
        entries = entries_of(tensor)
        if len(entries) < len(tensor.metadata_props):
            onnx.helper.set_metadata_props(tensor, entries)
    return proto


def _place(stored: list[tuple[ir.Value, ir.TensorProtocol]], folder: Path, data: str | None) -> None:
    """Move large tensors to the file `data`, if it is given; load all other external tensors into the model."""
    from onnx_ir import ExternalTensor, external_data

    large: list[tuple[ir.Value, ir.TensorProtocol]] = []
    inside: list[tuple[ir.Value, ir.TensorProtocol]] = []
    for value, tensor in stored:
        if data is not None and stored_bytes(tensor) > _INLINE_UP_TO:
            large.append((value, tensor))
        elif isinstance(tensor, ExternalTensor) and not is_absent(tensor):
            inside.append((value, tensor))
    moved = external_data.convert_tensors_from_external([tensor for _, tensor in inside])
    if data is not None and large:
        moved += external_data.convert_tensors_to_external([tensor for _, tensor in large], folder, data)
    for (value, tensor), new in zip((*inside, *large), moved, strict=True):
        new.metadata_props.update(tensor.metadata_props)
        value.const_value = new


def _too_large(found: str) -> ExportError:
    return ExportError(
        "the model as one message of less than 2 GiB, every tensor with its data",
        found=found[:300],
        do="pass external_data=True for a large model; load the weights of a model that was built without",
    )
