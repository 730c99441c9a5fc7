"""An ONNX model as a protobuf message of bearable size, wherever it comes from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_hierexport._onnx.files import temporary_folder
from pytest_hierexport._onnx.storage import load_proto

if TYPE_CHECKING:
    import onnx
    import onnx_ir as ir

__all__ = ["loaded"]

LARGE = 1 << 29
"""From this many bytes of weights on a model in memory goes through a file: a message ends at 2 GiB."""


@contextmanager
def loaded(model: str | Path | ir.Model) -> Iterator[tuple[onnx.ModelProto, Path | None]]:
    """Give a message that may be changed, and the folder where its external data lies, if it has any outside.

    Args:
        model: The exported file, or the graph in memory, which is not changed.

    Raises:
        UsageError: There is no such file, or it is not ONNX.
    """
    if isinstance(model, str | Path):
        yield load_proto(model), Path(model).absolute().parent
        return
    import onnx_ir as ir

    if sum(value.const_value.nbytes for value in model.graph.initializers.values() if value.const_value) < LARGE:
        yield ir.serde.serialize_model(model), None
        return
    with temporary_folder() as folder:
        path = Path(folder) / "model.onnx"
        ir.save(model, path, external_data="model.onnx.data")
        yield load_proto(path), path.parent
