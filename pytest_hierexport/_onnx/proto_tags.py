"""Reads, writes and removes the tags in a protobuf message; the data of tensors is neither read nor written."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # protobuf ships no types

from pytest_hierexport._calls.attribution import Attribution, Origins
from pytest_hierexport._errors import TagError, UsageError
from pytest_hierexport._onnx import codec
from pytest_hierexport._onnx.external import check_locations
from pytest_hierexport._onnx.graph import Inventory, inventory_proto, may_hold_subgraphs
from pytest_hierexport._onnx.json_text import refusing_deep_json


@contextmanager
def _uncollected() -> Iterator[None]:
    """Pause the garbage collector: it would walk the new objects of every node again and again, a tenth of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class TaggedProto:
    """Reads and writes the tags of a protobuf message, whose graph must not change while this object is in use."""

    def __init__(self, proto: onnx.ModelProto, *, subgraphs: bool = True) -> None:
        """Take a message; for `subgraphs` see :func:`inventory_proto`."""
        self.proto = proto
        self._subgraphs = subgraphs

    @classmethod
    def load(cls, path: str | Path, *, data_anywhere: bool = False) -> TaggedProto:
        """Load an ONNX file without its external data; for `data_anywhere` see :meth:`parse`.

        Raises:
            UsageError: There is no such file, or it is not ONNX.
        """
        try:
            content = Path(path).read_bytes()
        except OSError as error:
            raise _not_onnx(path, error.strerror or str(error)) from None
        return cls.parse(content, path, data_anywhere=data_anywhere)

    @classmethod
    def parse(cls, content: bytes, where: str | Path, *, data_anywhere: bool = False) -> TaggedProto:
        """Parse the content of an ONNX file.

        Args:
            content: The bytes of the file.
            where: The name of the file, for messages.
            data_anywhere: Whether external data may be outside its folder, where nothing reads it.

        Raises:
            UsageError: It is not ONNX, or its external data is outside its folder.
        """
        proto = onnx.ModelProto()
        try:
            proto.ParseFromString(content)
        except DecodeError:
            raise _not_onnx(where, "a file that ends early, or of another format") from None
        if not content:
            raise _not_onnx(where, "a file of 0 bytes")
        if not proto.ir_version or not proto.HasField("graph"):
            # Protobuf parses many short files of other formats without an error, as an empty message.
            raise _not_onnx(where, "a message without an IR version or a graph")
        if not data_anywhere:
            check_locations(proto, content)
        return cls(proto, subgraphs=may_hold_subgraphs(content))

    @cached_property
    def parts(self) -> Inventory[onnx.NodeProto, onnx.TensorProto, onnx.GraphProto]:
        """The message's nodes, initializers, graphs and functions."""
        return inventory_proto(self.proto, subgraphs=self._subgraphs)

    def read(self, source: str) -> Attribution | None:
        """Read the attribution from `metadata` or from `doc_string`; None if there are no tags in this place.

        Raises:
            TagError: The tags have an unknown format, or cannot be parsed.
        """
        model = codec.entries_of(self.proto)
        if codec.FORMAT not in model:
            return None
        with refusing_deep_json("the model's tags"), _uncollected():
            reader = codec.Reader(codec.hierarchy_from_entries(model))
            if source == "metadata":
                nodes = _origins(self.parts.nodes, reader.metadata)
                tensors = _origins(self.parts.initializers, reader.metadata)
            else:
                nodes = _origins(self.parts.nodes, lambda node: reader.doc_string(node.doc_string))
                # A tool that removes or renames initializers leaves the list of the model's entry as it was.
                kept = {key for key, _ in self.parts.initializers}
                tensors = {key: origins for key, origins in reader.initializers(model).items() if key in kept}
        return Attribution(reader.hierarchy, nodes, tensors) if any(nodes.values()) or not nodes else None

    @_uncollected()
    def write(self, attribution: Attribution, tags: codec.Tags) -> None:
        """Replace all tags, and the exporters' metadata, with the tags of an attribution.

        Raises:
            TagError: An origin is not a call of the attribution's hierarchy; the message is unchanged.
        """
        writer = codec.Writer(attribution, tags)
        fields = cache(_NodeFields)
        for key, node in self.parts.nodes:
            fields(writer.texts(attribution.nodes.get(key, ()))).write(node)
        for message in self.others():
            clear_entries(message, codec.is_replaced)
        for key, tensor in self.parts.initializers:
            entries = writer.texts(attribution.initializers.get(key, ())).entries
            _add_entries(tensor, {key: text for key, text in entries.items() if key != codec.NAMESPACE})
        _add_entries(self.proto, writer.model_entries())

    def others(self) -> Iterator[Any]:
        """Yield every message, except nodes, that may have metadata entries."""
        yield self.proto
        yield from (tensor for _, tensor in self.parts.initializers)
        for graph in self.parts.graphs:
            yield graph
            yield from graph.input
            yield from graph.output
            yield from graph.value_info
        for function in self.parts.functions:
            yield function
            yield from function.value_info


class _NodeFields:
    """The texts of a node, serialised as protobuf fields."""

    def __init__(self, texts: codec.Texts) -> None:
        entries = onnx.NodeProto()
        _add_entries(entries, texts.entries)
        self._doc_string, self._count = texts.doc_string, len(texts.entries)
        self._entries = bytes(entries.SerializeToString())
        self._all = bytes(onnx.NodeProto(doc_string=texts.doc_string or None).SerializeToString()) + self._entries

    def write(self, node: onnx.NodeProto) -> None:
        """Replace the texts of a node, unless they are these already."""
        # A serialised node ends with its metadata entries. Comparing bytes takes a quarter of the time of comparing the
        # entries one by one.
        is_written = len(node.metadata_props) == self._count and node.doc_string == self._doc_string
        if is_written and node.SerializeToString().endswith(self._entries):
            return
        _clear_node(node, every_doc_string=bool(self._doc_string))
        # Merging serialised fields takes a fraction of the time of setting them one by one.
        node.MergeFromString(self._all)


def _clear_node(node: onnx.NodeProto, *, every_doc_string: bool) -> None:
    if all(entry.key in codec.NODE_KEYS for entry in node.metadata_props):
        node.ClearField("metadata_props")
    else:
        clear_entries(node, codec.is_replaced_on_node)
    if every_doc_string or codec.is_our_doc(node.doc_string):
        node.ClearField("doc_string")


def _add_entries(message: Any, entries: Mapping[str, str]) -> None:
    for key in sorted(entries):
        message.metadata_props.add(key=key, value=entries[key])


def clear_entries(message: Any, replaced: Callable[[str], bool]) -> None:
    """Remove the metadata entries for whose key `replaced` returns True."""
    entries = message.metadata_props
    others = [(entry.key, entry.value) for entry in entries if not replaced(entry.key)]
    if len(others) == len(entries):
        return
    del entries[:]
    for key, value in others:
        entries.add(key=key, value=value)


def _origins(messages: Iterable[tuple[str, Any]], read: Callable[[Any], Origins]) -> dict[str, Origins]:
    """Return what a function reads of each message, by the message's key, which errors name."""
    found: dict[str, Origins] = {}
    for key, message in messages:
        try:
            found[key] = read(message)
        except TagError as error:
            raise TagError(f"at {key!r} {error.expected}", found=error.found, do=error.do) from None
    return found


def _not_onnx(path: str | Path, found: str) -> UsageError:
    return UsageError(f"{path} to be an ONNX file", found=found, do="give the path of a file that an exporter wrote")
