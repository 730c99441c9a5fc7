"""Loads an ONNX file with its attribution for a tool, and saves what the tool made of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pytest_hierexport._calls.attribution import Attribution
from pytest_hierexport._calls.modules import Module
from pytest_hierexport._errors import TagError, UsageError
from pytest_hierexport._files.paths import exists
from pytest_hierexport._onnx import codec, storage
from pytest_hierexport._onnx.external import check_data, locations
from pytest_hierexport._onnx.models import Model, as_proto, converted
from pytest_hierexport._onnx.proto_tags import TaggedProto
from pytest_hierexport._onnx.saving import save_moved, save_proto
from pytest_hierexport._onnx.sidecar import Sidecar, compose, read_sidecar, sidecar_path
from pytest_hierexport._onnx.torch_scopes import read_scopes

if TYPE_CHECKING:
    import onnx
    import onnx_ir as ir

Source = Literal["file", "sidecar", "torch"]
"""Where the tags of a file were read: in the file, in its sidecar, or from torch's scopes, which may be wrong."""
TORCH_METADATA = "torch's metadata, unproven"
"""The value of `exporter` for tags from torch's scopes."""


@dataclass(frozen=True)
class TaggedFile:
    """An ONNX file in memory, without its external data, and its attribution."""

    proto: onnx.ModelProto
    attribution: Attribution
    path: Path | None
    """None for a model from standard input."""
    modules: tuple[Module, ...] = ()
    """The module tree; empty without a sidecar that fits the file."""
    exporter: str = ""
    """The capture that made the file, as its sidecar says; a remark where the tags are torch's scopes; else empty."""
    tags_from: Source = "file"
    sidecar: str = "missing"
    """`fits`, `missing`, or the reason why the sidecar is not used."""

    def to_ir(self) -> ir.Model:
        """Return a copy as an onnx_ir model, which reads external data when a tensor is used."""
        return converted(self.proto, None if self.path is None else self.path.absolute().parent)

    def unknown_nodes(self) -> list[str]:
        """Return the keys of the nodes that a tool made of a tagged file without carrying the tags.

        A file with a sidecar that fits is as this package wrote it: there a node has no tag because it has no origin.
        """
        if self.sidecar == "fits":
            return []
        return [node for node, origins in self.attribution.nodes.items() if not origins]

    def save(self, path: Path, tags: codec.Tags = "both") -> None:
        """Write what a tool made of the file, with tags and a sidecar; the message gets the tags too.

        If the target is in the folder of the file, external data stays in its files; else it is copied to `PATH.data`.
        That of a model from standard input must be beside the target.

        Raises:
            ExportError: A file cannot be written.
            UsageError: A file with external data is missing.
        """
        self._attach(tags)
        beside = partial(compose, attribution=self.attribution, modules=self.modules, exporter=self.exporter)
        folder = path.parent if self.path is None else self.path.parent
        if any(locations(self.proto)) and folder.resolve() != path.parent.resolve():
            check_data(self.proto, folder)
            save_moved(self.proto, folder, path, beside)
            return
        if self.path is None:
            check_data(self.proto, folder)
        save_proto(self.proto, path, beside)

    def to_bytes(self, tags: codec.Tags = "both") -> bytes:
        """Return what a tool made of the file with its tags and all its data; the message gets the tags too.

        Raises:
            UsageError: The model has external data.
        """
        if any(locations(self.proto)):
            raise UsageError(
                "a model without external data for standard output",
                found=f"external data beside {self.path or 'the model'}",
                do="give a file with -o",
            )
        self._attach(tags)
        return bytes(self.proto.SerializeToString(deterministic=True))

    def _attach(self, tags: codec.Tags) -> None:
        """Write the tags into the message; tags from torch's scopes are marked as such."""
        storage.attach_proto(self.proto, self.attribution, tags)
        if self.tags_from == "torch" and tags != "none":
            self.proto.metadata_props.add(key=codec.SOURCE, value="torch")


def load_tagged(path: Path) -> TaggedFile:
    """Load an ONNX file with its attribution: from the file, else from its sidecar, else from torch's metadata.

    Raises:
        TagError: The file has no tags, or tags that cannot be parsed.
        UsageError: There is no such file, it is not ONNX, or its external data is outside its folder.
    """
    return _tagged_file(TaggedProto.load(path), str(path), path)


def parse_tagged(content: bytes, where: str) -> TaggedFile:
    """Parse a model that contains its tags, such as one from standard input; it has no sidecar.

    Raises:
        TagError: The model has no tags, or tags that cannot be parsed.
        UsageError: The bytes are not ONNX.
    """
    return _tagged_file(TaggedProto.parse(content, where), where, None)


def attribution_of(model: Model, attribution: Attribution | None) -> Attribution:
    """Return the attribution that is given, else that of the model; see :func:`described`."""
    return described(model, None)[1] if attribution is None else attribution


def described(model: Model, attribution: Attribution | None) -> tuple[Any, Attribution, tuple[Module, ...]]:
    """Return a model in memory, its attribution, and the module tree of its sidecar; without one, an empty tree.

    Raises:
        TagError: The model has no tags.
        UsageError: There is no such file, it is not ONNX, or an argument is of another type.
    """
    if isinstance(model, str | Path):
        if attribution is not None:
            return storage.load_proto(model), attribution, module_tree(model)
        loaded = load_tagged(Path(model))
        return loaded.proto, loaded.attribution, loaded.modules
    if attribution is not None:
        return model, attribution, ()
    with as_proto(model) as (proto, _):
        return model, _tagged_file(TaggedProto(proto), "the model", None).attribution, ()


def module_tree(model: Model) -> tuple[Module, ...]:
    """Return the module tree of a file whose sidecar fits; else an empty one."""
    beside = _sidecar(Path(model))[0] if isinstance(model, str | Path) else None
    return () if beside is None else beside.modules


def _tagged_file(parsed: TaggedProto, where: str, path: Path | None) -> TaggedFile:
    beside, problem = _sidecar(path)
    modules, exporter = (beside.modules, beside.exporter) if beside is not None else ((), "")
    place: Source = "file"
    attribution = storage.read_in_file(parsed)
    from_torch = any(entry.key == codec.SOURCE for entry in parsed.proto.metadata_props)
    if attribution is None and beside is not None:
        attribution, place, from_torch = beside.attribution, "sidecar", exporter == TORCH_METADATA
    elif attribution is None:
        attribution, exporter, from_torch = read_scopes(parsed), TORCH_METADATA, True
    if attribution is not None:
        place = "torch" if from_torch else place
        return TaggedFile(parsed.proto, attribution, path, modules, exporter, place, problem or "fits")
    raise TagError(
        "an ONNX model with tags, a sidecar, or the scopes that torch.onnx.export(dynamo=True) writes",
        found=f"none in {where}" if problem == "missing" else f"none in {where}; sidecar {problem}",
        do="export it with this package, keep the sidecar beside the file, or carry the tags of the file it is made of",
    )


def _sidecar(path: Path | None) -> tuple[Sidecar | None, str]:
    """Return the sidecar of a file and an empty text; if none fits, None and the reason."""
    if path is None or not exists(sidecar_path(path)):
        return None, "missing"
    try:
        return read_sidecar(path), ""
    except TagError as error:
        return None, f"not used: {error.found}"
