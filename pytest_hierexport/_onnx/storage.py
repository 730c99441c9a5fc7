"""Attaches, saves, reads, rewrites and removes the tags of an ONNX model, in the file and in the sidecar beside it.

Reading and rewriting tags opens no external data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_hierexport._calls.attribution import Attribution
from pytest_hierexport._calls.modules import Module
from pytest_hierexport._errors import TagError, proposal
from pytest_hierexport._files.paths import exists
from pytest_hierexport._onnx import codec, ir_tags
from pytest_hierexport._onnx.codec import PLACES, Tags
from pytest_hierexport._onnx.graph import Inventory, inventory_ir
from pytest_hierexport._onnx.proto_tags import TaggedProto
from pytest_hierexport._onnx.saving import save_model, save_proto
from pytest_hierexport._onnx.sidecar import compose, read_sidecar, sidecar_path
from pytest_hierexport._requests import check_argument, check_choice

if TYPE_CHECKING:
    import onnx
    import onnx_ir as ir

# Doc strings first: more tools keep them, and reading them takes a fifth of the time of reading metadata.
_IN_FILE = ("doc_string", "metadata")
_SOURCES = ("auto", *_IN_FILE, "sidecar")


def attach(model: ir.Model, attribution: Attribution, tags: Tags = "both") -> None:
    """Write tags into a model; they replace its present tags and the exporters' metadata.

    Args:
        model: The model of the attribution; only metadata and the doc strings of nodes change.
        attribution: The origins to write; a node or initializer without origins gets no tag.
        tags: `both`, `metadata`, `doc_string`, or `none`, which removes all tags.

    Raises:
        UsageError: `tags` is none of these, or the model or the attribution is of another type.
        TagError: An origin is not a call of the attribution's hierarchy, or the model lacks a node or initializer of
            the attribution; the model is unchanged.
    """
    check_tags(tags)
    _check_fits(attribution, inventory_ir(model))
    ir_tags.write(model, attribution, tags)


def attach_proto(proto: onnx.ModelProto, attribution: Attribution, tags: Tags = "both") -> None:
    """Write tags into a protobuf message; see :func:`attach`."""
    check_tags(tags)
    TaggedProto(proto).write(attribution, tags)


def save(
    model: ir.Model,
    attribution: Attribution,
    path: str | Path,
    *,
    modules: Sequence[Module] = (),
    exporter: str = "",
    external_data: bool | None = None,
) -> Path:
    """Write a model, its external data and its sidecar, one by one in this order, each atomically.

    Args:
        model: A model whose tags are attached.
        attribution: The attribution of the model, for the sidecar.
        path: The ONNX file; external data is written to `PATH.data`, the sidecar to :func:`sidecar_path`.
        modules: The module tree, for the sidecar.
        exporter: The capture that succeeded, for the sidecar.
        external_data: Whether tensors are written to a separate file; None: if they exceed 1.5 GiB.

    Returns:
        The path of the ONNX file.

    Raises:
        ExportError: A file cannot be written; no partial file remains.
        TagError: An origin is not a call of the attribution's hierarchy, or the model lacks a node or initializer of
            the attribution.
        UsageError: The model, the attribution or the path is of another type.
    """
    path = Path(path)
    _check_fits(attribution, inventory_ir(model))
    codec.Writer(attribution)  # refuses unknown calls
    beside = partial(compose, attribution=attribution, modules=modules, exporter=exporter)
    save_model(model, path, beside, external_data=external_data)
    return path


def rewrite(
    path: str | Path, change: Callable[[Attribution], Attribution], *, tags: Tags = "both", source: str = "auto"
) -> Attribution:
    """Replace the tags of an ONNX file with those that a function computes from them, in its sidecar too.

    Args:
        path: The file; its external data is neither read nor written.
        change: Returns the attribution to write, given the one that was read.
        tags: Where to write: `both`, `metadata`, `doc_string` or `none`.
        source: Where to read: `auto`, `doc_string`, `metadata` or `sidecar`.

    Returns:
        The attribution as written.

    Raises:
        ExportError: A file cannot be written.
        TagError: The file has no tags there, or tags of an unknown format; or what the function returns does not fit.
        UsageError: An option does not exist, the file is not ONNX, or the function does not return an attribution.
    """
    check_tags(tags)
    path = Path(path)
    tagged = TaggedProto.load(path)
    known = read_sidecar(path) if exists(sidecar_path(path)) else None
    attribution = change(read_tagged(tagged, path, source))
    check_argument("what the function returns", attribution, "Attribution")
    _check_fits(attribution, tagged.parts)
    tagged.write(attribution, tags)
    beside = None
    if known is not None:
        beside = partial(compose, attribution=attribution, modules=known.modules, exporter=known.exporter)
    save_proto(tagged.proto, path, beside)
    return attribution


def read(path: str | Path, source: str = "auto") -> Attribution:
    """Read the attribution of an ONNX file.

    Args:
        path: The file; its external data is not read.
        source: `doc_string`, `metadata` or `sidecar`; `auto` takes the first of these that has tags.

    Raises:
        TagError: There are no tags, they have an unknown format, or they cannot be parsed.
        UsageError: The source does not exist, or the file is not ONNX.
    """
    check_choice("source", source, _SOURCES)
    return read_tagged(TaggedProto.load(path), Path(path), source)


def read_tagged(tagged: TaggedProto, path: Path, source: str = "auto") -> Attribution:
    """Read the attribution of a loaded file, as :func:`read` does."""
    in_file = read_in_file(tagged, _IN_FILE if source == "auto" else (source,))
    if in_file is not None:
        return in_file
    if source == "sidecar" or (source == "auto" and exists(sidecar_path(path))):
        return read_sidecar(path).attribution
    raise TagError(
        "an ONNX model with tags" if source == "auto" else f"an ONNX model with tags in its {source}",
        found=f"none in {path}",
        do="export it with tags='both', or keep the sidecar beside the file",
    )


def read_in_file(tagged: TaggedProto, places: Sequence[str] = _IN_FILE) -> Attribution | None:
    """Read the attribution in a loaded file, but not in its sidecar; None if the file has no tags.

    Raises:
        TagError: The tags have an unknown format, or cannot be parsed.
    """
    attributions = (tagged.read(place) for place in places if place in _IN_FILE)
    return next((attribution for attribution in attributions if attribution is not None), None)


def load_proto(path: str | Path) -> onnx.ModelProto:
    """Load an ONNX file without its external data.

    Raises:
        UsageError: There is no such file, or it is not ONNX.
    """
    return TaggedProto.load(path).proto


def check_tags(tags: Tags) -> None:
    """Check that `tags` is one of the places for tags.

    Raises:
        UsageError: It is not.
    """
    check_choice("tags", tags, PLACES)


def _check_fits(attribution: Attribution, parts: Inventory[Any, Any, Any]) -> None:
    """Check that an attribution is one of a graph; it may lack nodes of the graph. What writes it checks its calls.

    Raises:
        TagError: It has nodes or initializers that there are not.
    """
    own = ("node", attribution.nodes, parts.nodes), ("initializer", attribution.initializers, parts.initializers)
    for kind, listed, found in own:
        known = dict.fromkeys(key for key, _ in found)
        if (unknown := next((key for key in listed if key not in known), None)) is not None:
            do = f"{proposal(unknown, known)}; node_key() gives a node's key, carry() the attribution of a new graph"
            raise TagError(f"an attribution of {kind}s that the model has", found=repr(unknown), do=do)
