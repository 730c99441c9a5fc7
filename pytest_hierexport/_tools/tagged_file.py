"""Loads an ONNX file with its attribution for a tool, and saves what the tool made of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_hierexport._calls.attribution import Attribution
from pytest_hierexport._calls.hierarchy import Module
from pytest_hierexport._errors import TagError, UsageError
from pytest_hierexport._files.paths import exists
from pytest_hierexport._onnx import storage
from pytest_hierexport._onnx.proto_tags import TaggedProto
from pytest_hierexport._onnx.saving import save_model, save_proto
from pytest_hierexport._onnx.sidecar import compose

if TYPE_CHECKING:
    import onnx
    import onnx_ir as ir

__all__ = ["TaggedFile", "load_tagged", "parse_tagged", "save_tagged", "to_bytes"]


@dataclass(frozen=True)
class TaggedFile:
    """An ONNX file in memory, external data left out, with its attribution."""

    proto: onnx.ModelProto
    attribution: Attribution
    path: Path | None
    """None for a model from standard input."""
    modules: tuple[Module, ...] = ()
    """The module tree, where a sidecar fits the file."""
    exporter: str = ""
    """The capture that made the file; empty without a sidecar."""

    def to_ir(self) -> ir.Model:
        """Return a copy as an onnx_ir model, which reads external data when a tensor is."""
        return _to_ir(self.proto, self.path)


def load_tagged(path: Path) -> TaggedFile:
    """Load an ONNX file with the attribution in it, or in its sidecar.

    Raises:
        TagError: The file has no tags, or tags that cannot be parsed.
        UsageError: There is no such file, or it is not ONNX.
    """
    tagged = TaggedProto.load(path)
    attribution = storage.read_tagged(tagged, path)
    try:
        known = storage.read_sidecar(path) if exists(storage.sidecar_path(path)) else None
    except TagError:
        known = None
    if known is None:
        return TaggedFile(tagged.proto, attribution, path)
    return TaggedFile(tagged.proto, attribution, path, known.modules, known.exporter)


def parse_tagged(content: bytes, where: str) -> TaggedFile:
    """Parse a model with tags in it.

    Raises:
        TagError: The model has no tags, or tags that cannot be parsed.
        UsageError: The bytes are not ONNX.
    """
    tagged = TaggedProto.parse(content, where)
    return TaggedFile(tagged.proto, storage.read_tagged(tagged, Path(where)), None)


def save_tagged(proto: onnx.ModelProto, attribution: Attribution, source: TaggedFile, path: Path) -> None:
    """Write a model that was made of a file, with tags and a sidecar; the message gets the tags too.

    External data in the folder of the source stays in its files when the target is in that folder; else it is copied
    to `PATH.data`.

    Raises:
        ExportError: A file cannot be written.
    """
    storage.attach_proto(proto, attribution)

    def beside(written: onnx.ModelProto, sha256: str) -> storage.Sidecar:
        return compose(written, sha256, attribution, source.modules, source.exporter)

    if _has_external_data(proto) and source.path is not None and source.path.parent.resolve() != path.parent.resolve():
        save_model(_to_ir(proto, source.path), path, beside, external_data=True)
    else:
        save_proto(proto, path, beside)


def to_bytes(proto: onnx.ModelProto, attribution: Attribution, source: TaggedFile) -> bytes:
    """Return a model with tags as bytes, with all its data; the message gets the tags too.

    Raises:
        UsageError: The model has external data.
    """
    if _has_external_data(proto):
        raise UsageError(
            "a model without external data for standard output",
            found=f"external data beside {source.path or 'the model'}",
            do="give a file with -o",
        )
    storage.attach_proto(proto, attribution)
    return bytes(proto.SerializeToString(deterministic=True))


def _to_ir(proto: onnx.ModelProto, path: Path | None) -> ir.Model:
    import onnx_ir as ir

    model = ir.from_proto(proto)
    if path is not None:
        ir.external_data.set_base_dir(model.graph, path.absolute().parent)
    return model


def _has_external_data(proto: onnx.ModelProto) -> bool:
    return any(tensor.external_data for _, tensor in TaggedProto(proto).parts.initializers)
