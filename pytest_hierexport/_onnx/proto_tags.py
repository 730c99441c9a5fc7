"""Reads, writes and removes the tags in a protobuf message; no tensor's data is touched."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # protobuf ships no types

from pytest_hierexport._calls.attribution import Attribution, Origins
from pytest_hierexport._errors import TagError, UsageError
from pytest_hierexport._onnx import codec
from pytest_hierexport._onnx.graph import inventory_proto, may_hold_subgraphs
from pytest_hierexport._onnx.json_text import refusing_deep_json

__all__ = ["TaggedProto"]


class TaggedProto:
    """A protobuf message with its tags. The message's graph must not change while this object is in use."""

    def __init__(self, proto: onnx.ModelProto, *, subgraphs: bool = True) -> None:
        """List the message's nodes, initializers and graphs once; `subgraphs` as in :func:`inventory_proto`."""
        self.proto = proto
        self._parts = inventory_proto(proto, subgraphs=subgraphs)

    @classmethod
    def load(cls, path: str | Path) -> TaggedProto:
        """Load an ONNX file without its external data; see :func:`pytest_hierexport._onnx.storage.load_proto`."""
        try:
            content = Path(path).read_bytes()
        except OSError as error:
            raise _not_onnx(path, error.strerror or str(error)) from None
        proto = onnx.ModelProto()
        try:
            proto.ParseFromString(content)
        except DecodeError:
            raise _not_onnx(path, "something else") from None
        if not proto.ir_version or not proto.HasField("graph"):
            # Protobuf parses many short files of other formats as an empty message.
            raise _not_onnx(path, "a message without an IR version or a graph")
        return cls(proto, subgraphs=may_hold_subgraphs(content))

    def read(self, source: str) -> Attribution | None:
        """Read the attribution from `metadata` or from `doc_string`; None where no node has any there.

        Raises:
            TagError: The tags are of an unknown format, or broken.
        """
        with refusing_deep_json("the model's tags"):
            return self._read(source)

    def _read(self, source: str) -> Attribution | None:
        model = {entry.key: entry.value for entry in self.proto.metadata_props}
        if codec.FORMAT not in model:
            return None
        reader = codec.Reader(codec.hierarchy_from_entries(model))
        metadata = source == "metadata"
        nodes = self._nodes_by_metadata(reader) if metadata else self._nodes_by_doc_string(reader)
        tensors = self._initializers_by_metadata(reader) if metadata else codec.initializers(reader, model)
        if not any(nodes.values()) and (nodes or not tensors):
            return None
        return Attribution(reader.hierarchy, nodes, tensors)

    def _nodes_by_metadata(self, reader: codec.Reader) -> dict[str, Origins]:
        return {key: _by_metadata(reader, node.metadata_props, key) for key, node in self._parts.nodes}

    def _nodes_by_doc_string(self, reader: codec.Reader) -> dict[str, Origins]:
        read: dict[str, Origins] = {"": ()}
        nodes: dict[str, Origins] = {}
        for key, node in self._parts.nodes:
            text = node.doc_string
            origins = read.get(text)
            if origins is None:
                origins = read[text] = _by_doc_string(reader, text, key)
            nodes[key] = origins
        return nodes

    def _initializers_by_metadata(self, reader: codec.Reader) -> dict[str, Origins]:
        return {key: _by_metadata(reader, tensor.metadata_props, key) for key, tensor in self._parts.initializers}

    def write(self, attribution: Attribution, tags: codec.Tags) -> None:
        """Replace all tags, and the exporters' metadata, with the tags of an attribution."""
        pieces = _Pieces(codec.Writer(attribution.hierarchy), tags)
        for key, node in self._parts.nodes:
            piece = pieces.of(attribution.nodes.get(key, ()))
            if not piece.stands_in(node):
                _clear_node(node, every_doc_string=bool(piece.doc_string))
                # One merge of serialised fields costs a fraction of setting the fields one by one.
                node.MergeFromString(piece.content)
        self._clear_others()
        if tags in codec.WITH_METADATA:
            self._write_initializers(attribution, pieces.writer)
        if tags != "none":
            entries = codec.model_entries(attribution, doc_strings=tags in codec.WITH_DOC_STRINGS)
            _add_entries(self.proto, entries)

    def _write_initializers(self, attribution: Attribution, writer: codec.Writer) -> None:
        for key, tensor in self._parts.initializers:
            if origins := attribution.initializers.get(key):
                _add_entries(tensor, writer.texts(origins).initializer_entries)

    def strip(self) -> None:
        """Remove all tags, the exporters' metadata and every node's doc string."""
        for _, node in self._parts.nodes:
            _clear_node(node, every_doc_string=True)
        self._clear_others()

    def _clear_others(self) -> None:
        for message in self._others():
            _clear_entries(message, codec.is_replaced)

    def _others(self) -> Iterator[Any]:
        """Yield every message with metadata entries that is not a node."""
        yield self.proto
        yield from (tensor for _, tensor in self._parts.initializers)
        for graph in self._parts.graphs:
            yield graph
            yield from graph.input
            yield from graph.output
            yield from graph.value_info
        for function in self._parts.functions:
            yield function
            yield from function.value_info


class _Piece:
    """The fields that are written on a node."""

    def __init__(self, entries: Mapping[str, str], doc_string: str) -> None:
        self.entries = entries
        self.doc_string = doc_string

    def stands_in(self, node: onnx.NodeProto) -> bool:
        """Whether the node has exactly these fields, so that nothing need be written.

        A serialised node ends with its metadata entries; comparing that end takes a quarter of the time of comparing
        each entry.
        """
        return (
            node.doc_string == self.doc_string
            and node.SerializeToString().endswith(self._metadata)
            and len(node.metadata_props) == len(self.entries)
        )

    @cached_property
    def content(self) -> bytes:
        """A serialised node with these fields alone."""
        doc = onnx.NodeProto(doc_string=self.doc_string) if self.doc_string else onnx.NodeProto()
        return bytes(doc.SerializeToString()) + self._metadata

    @cached_property
    def _metadata(self) -> bytes:
        node = onnx.NodeProto()
        _add_entries(node, self.entries)
        return bytes(node.SerializeToString())


class _Pieces:
    """The piece of each tuple of origins."""

    def __init__(self, writer: codec.Writer, tags: codec.Tags) -> None:
        self.writer = writer
        self._metadata = tags in codec.WITH_METADATA
        self._doc_strings = tags in codec.WITH_DOC_STRINGS
        # By identity: hashing origins costs more. A reference keeps the identity unique.
        self._known: dict[int, tuple[Origins, _Piece]] = {}

    def of(self, origins: Origins) -> _Piece:
        """Return the piece of these origins; it is empty for no origins."""
        known = self._known.get(id(origins))
        if known is None:
            known = self._known[id(origins)] = (origins, self._piece(origins))
        return known[1]

    def _piece(self, origins: Origins) -> _Piece:
        if not origins:
            return _Piece({}, "")
        texts = self.writer.texts(origins)
        return _Piece(texts.node_entries if self._metadata else {}, texts.doc_string if self._doc_strings else "")


def _clear_node(node: onnx.NodeProto, *, every_doc_string: bool) -> None:
    for entry in node.metadata_props:
        if entry.key not in codec.NODE_KEYS:
            _clear_entries(node, codec.is_replaced_on_node)
            break
    else:
        node.ClearField("metadata_props")
    if every_doc_string or codec.is_our_doc(node.doc_string):
        node.ClearField("doc_string")


def _add_entries(message: Any, entries: Mapping[str, str]) -> None:
    for key in sorted(entries):
        message.metadata_props.add(key=key, value=entries[key])


def _clear_entries(message: Any, replaced: Callable[[str], bool]) -> None:
    """Remove the metadata entries whose keys are replaced."""
    entries = message.metadata_props
    if not entries:
        return
    others = [(entry.key, entry.value) for entry in entries if not replaced(entry.key)]
    if len(others) == len(entries):
        return
    del entries[:]
    for key, value in others:
        entries.add(key=key, value=value)


def _by_metadata(reader: codec.Reader, entries: Any, key: str) -> Origins:
    tag = origins = None
    for entry in entries:
        name = entry.key
        if name == codec.TAG:
            tag = entry.value
        elif name == codec.ORIGINS:
            origins = entry.value
    if origins is None and tag is None:
        return ()
    try:
        return reader.entries(tag, origins or "[]")
    except TagError as error:
        raise _at(key, error) from None


def _by_doc_string(reader: codec.Reader, text: str, key: str) -> Origins:
    try:
        return reader.doc_string(text) or ()
    except TagError as error:
        raise _at(key, error) from None


def _at(key: str, error: TagError) -> TagError:
    return TagError(f"at {key!r} {error.expected}", found=error.found, do=error.do)


def _not_onnx(path: str | Path, found: str) -> UsageError:
    return UsageError(f"{path} to be an ONNX file", found=found, do="give the path of a file that an exporter wrote")
