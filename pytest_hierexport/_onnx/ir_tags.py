"""Writes tags into a model in memory (onnx_ir)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import onnx_ir as ir
from onnx_ir import serde

from pytest_hierexport._onnx import codec
from pytest_hierexport._onnx.graph import Inventory, inventory_ir

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping

    from pytest_hierexport._calls.attribution import Attribution

__all__ = ["write"]

Parts = Inventory[ir.Node, ir.Value, ir.Graph]


def write(model: ir.Model, attribution: Attribution, tags: codec.Tags) -> None:
    """Replace all tags in a model, and the exporters' metadata, with the tags of an attribution."""
    parts = inventory_ir(model)
    _clear(model, parts, every_doc_string=tags in codec.WITH_DOC_STRINGS)
    if tags == "none":
        return
    writer = codec.Writer(attribution.hierarchy)
    _write_nodes(parts, attribution, writer, tags)
    if tags in codec.WITH_METADATA:
        _write_initializers(parts, attribution, writer)
    model.metadata_props.update(codec.model_entries(attribution, doc_strings=tags in codec.WITH_DOC_STRINGS))


def _write_nodes(parts: Parts, attribution: Attribution, writer: codec.Writer, tags: codec.Tags) -> None:
    for key, node in parts.nodes:
        if origins := attribution.nodes.get(key):
            texts = writer.texts(origins)
            if tags in codec.WITH_METADATA:
                node.metadata_props.update(texts.node_entries)
            if tags in codec.WITH_DOC_STRINGS:
                node.doc_string = texts.doc_string


def _write_initializers(parts: Parts, attribution: Attribution, writer: codec.Writer) -> None:
    """Write entries on tensors: entries on values would add value infos to the graph."""
    tagged: set[int] = set()
    for key, value in parts.initializers:
        origins = attribution.initializers.get(key)
        if not origins or value.const_value is None:
            continue
        if id(value.const_value) in tagged:
            value.const_value = _alias(value.const_value, value.name)
        tagged.add(id(value.const_value))
        value.const_value.metadata_props.update(writer.texts(origins).initializer_entries)


def _alias(tensor: ir.TensorProtocol, name: str | None) -> ir.TensorProtocol:
    """Return a second object for a tensor that two initializers share, so that each has its tag."""
    shape = ir.Shape(list(tensor.shape.numpy()))
    if isinstance(tensor, ir.StringTensor):
        return ir.StringTensor(tensor.string_data(), shape=shape, name=name)
    return ir.LazyTensor(lambda: tensor, dtype=ir.DataType(tensor.dtype), shape=shape, name=name)


def _clear(model: ir.Model, parts: Parts, *, every_doc_string: bool) -> None:
    for _, node in parts.nodes:
        _drop(node.metadata_props, codec.is_replaced_on_node)
        if node.doc_string and (every_doc_string or codec.is_our_doc(node.doc_string)):
            node.doc_string = None
        _clear_values(node.outputs)
    for _, value in parts.initializers:
        _clear_values((value,))
        _clear_tensor(value.const_value)
    for graph in (*parts.graphs, *parts.functions):
        _drop(graph.metadata_props, codec.is_replaced)
        _clear_values(graph.inputs)
    _drop(model.metadata_props, codec.is_replaced)


def _clear_values(values: Iterable[ir.Value]) -> None:
    for value in values:
        _drop(value.metadata_props, codec.is_replaced)


def _clear_tensor(tensor: ir.TensorProtocol | None) -> None:
    if tensor is None:
        return
    _drop(tensor.metadata_props, codec.is_replaced)
    if isinstance(tensor, serde.TensorProtoTensor) and tensor.raw.metadata_props:
        # onnx_ir writes the entries of the message that it read, and adds those of the tensor.
        del tensor.raw.metadata_props[:]


def _drop(entries: MutableMapping[str, str], replaced: Callable[[str], bool]) -> None:
    for key in [key for key in entries if replaced(key)]:
        del entries[key]
