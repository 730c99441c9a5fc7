"""Checks that a model's external data is in the folder of its file or below it, and that it exists; reads it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any

from pytest_hierexport._errors import UsageError
from pytest_hierexport._files.paths import exists
from pytest_hierexport._onnx.absent import LOCATION, is_absent_proto

if TYPE_CHECKING:
    import onnx

_KEY = "location"


def locations(message: onnx.ModelProto | onnx.TensorProto) -> Iterator[tuple[str, str]]:
    """Yield the name and the location of every tensor in a message whose data is in a file."""
    return (each for each in _stated(message) if each[1] != LOCATION)


def _stated(message: onnx.ModelProto | onnx.TensorProto) -> Iterator[tuple[str, str]]:
    """Yield the same, also of tensors that were built without weights, whose location is no file."""
    for tensor in _tensors(message):
        yield from ((tensor.name, entry.value) for entry in tensor.external_data if entry.key == _KEY)


def outside_tensors(message: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Yield every tensor in a message whose data is in a file: of initializers, attributes and subgraphs."""
    return filter(is_outside, _tensors(message))


def is_outside(tensor: onnx.TensorProto) -> bool:
    """Whether the data of a tensor is in a file; one that was built without weights has none."""
    return bool(tensor.external_data) and not is_absent_proto(tensor)


def check_locations(proto: onnx.ModelProto, content: bytes) -> None:
    """Check that no tensor of a model refers to a file outside the model's folder.

    Args:
        proto: The model.
        content: The bytes that it was parsed from. They hold the key of each location: where the initializers have as
            many locations, no other message is searched.

    Raises:
        UsageError: A location is absolute, or leads out of the folder.
    """
    found = [each for tensor in proto.graph.initializer for each in _stated(tensor)]
    if content.count(_KEY.encode()) > len(found):
        found = list(_stated(proto))
    for name, location in found:
        paths = (PurePosixPath(location), PureWindowsPath(location))
        if any(path.is_absolute() or path.drive or path.root or ".." in path.parts for path in paths):
            raise UsageError(
                "external data in the folder of the model",
                found=f"{name!r} at {location!r}",
                do="put the file with the data beside the model, and state its name without a folder",
            )


def check_data(proto: onnx.ModelProto, folder: Path) -> None:
    """Check that the files with a model's external data exist.

    Raises:
        UsageError: One is missing.
    """
    missing = next((location for _, location in locations(proto) if not exists(folder / location)), None)
    if missing is not None:
        raise UsageError(
            "the external data of the model beside it", found=f"no {folder / missing}", do="put the file there"
        )


def load_data(tensor: onnx.TensorProto, folder: Path) -> None:
    """Move the external data of a tensor into its message.

    Raises:
        UsageError: It is missing or damaged.
    """
    from onnx.external_data_helper import load_external_data_for_tensor

    try:
        load_external_data_for_tensor(tensor, str(folder))
    except Exception as error:  # onnx raises errors of many classes
        raise UsageError(
            f"the external data of {tensor.name!r} beside the model",
            found=str(error)[:300],
            do="keep the files with external data beside the model, or export it again",
        ) from error
    tensor.ClearField("external_data")
    tensor.ClearField("data_location")


def loaded(tensor: onnx.TensorProto, folder: Path) -> onnx.TensorProto:
    """Return a copy of a tensor with its external data in it; see :func:`load_data`."""
    copied = type(tensor)()
    copied.CopyFrom(tensor)
    load_data(copied, folder)
    return copied


def _tensors(message: Any) -> Iterator[Any]:
    """Yield every tensor in a message: of initializers, attributes and subgraphs. Protobuf limits the depth to 100."""
    if message.DESCRIPTOR.name == "TensorProto":
        yield message
        return
    for field, value in message.ListFields():
        if field.message_type is not None:
            for item in value if field.is_repeated else (value,):
                yield from _tensors(item)
