"""The tags of a file as the texts that stand there, whether or not they make sense."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_hierexport._onnx import codec
from pytest_hierexport._onnx.graph import inventory_proto

if TYPE_CHECKING:
    import onnx

    from pytest_hierexport._calls.hierarchy import Hierarchy

__all__ = ["WrittenTag", "entries_of", "hierarchy_of", "written_tags"]


@dataclass(frozen=True)
class WrittenTag:
    """A tag where it stands."""

    where: str
    """The node or initializer, and the entry."""
    tag: str


def hierarchy_of(proto: onnx.ModelProto) -> Hierarchy:
    """Return the calls that the file lists.

    Raises:
        TagError: It lists none, or broken ones.
    """
    return codec.hierarchy_from_entries(entries_of(proto))


def written_tags(proto: onnx.ModelProto) -> Iterator[WrittenTag]:
    """Yield every tag of the file: of nodes, in both places, and of initializers."""
    parts = inventory_proto(proto)
    for key, node in parts.nodes:
        if codec.TAG in (entries := entries_of(node)):
            yield WrittenTag(f"node {key}", entries[codec.TAG])
        for tag in dict.fromkeys(_tags_in(node.doc_string)):
            yield WrittenTag(f"node {key}, doc_string", tag)
    for key, tensor in parts.initializers:
        if codec.TAG in (entries := entries_of(tensor)):
            yield WrittenTag(f"initializer {key}", entries[codec.TAG])


def entries_of(message: Any) -> dict[str, str]:
    """Return the metadata entries of a message; of two with one key the last."""
    return {entry.key: entry.value for entry in message.metadata_props}


def _tags_in(doc_string: str) -> Iterator[str]:
    if not codec.is_our_doc(doc_string):
        return
    try:
        document = json.loads(doc_string)
    except (ValueError, RecursionError):
        # Reading the attribution says what is wrong with it.
        return
    path, tags = document.get("hierarchy_path"), document.get("hierarchy_tags")
    yield from (tag for tag in (path, *(tags if isinstance(tags, list) else ())) if isinstance(tag, str))
