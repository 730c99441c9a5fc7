"""Writes tags into an onnx_ir model.

onnx_ir takes 35 MB of memory, and reading the tags of a file does not need it. So it is imported in functions only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from itertools import chain
from typing import TYPE_CHECKING, Any

from pytest_hierexport._onnx import codec
from pytest_hierexport._onnx.graph import inventory_ir

if TYPE_CHECKING:
    import onnx_ir as ir

    from pytest_hierexport._calls.attribution import Attribution


def write(model: ir.Model, attribution: Attribution, tags: codec.Tags, *, shared: bool = False) -> None:
    """Replace all tags in a model, and the exporters' metadata, with the tags of an attribution.

    Args:
        model: The model.
        attribution: The origins to write.
        tags: Where to write them.
        shared: Whether another model, which is not changed, has the same tensors, as a clone of a model has.

    Raises:
        TagError: An origin is no call of the attribution's hierarchy; the model is unchanged.
    """
    writer = codec.Writer(attribution, tags)
    parts = inventory_ir(model)
    for key, node in parts.nodes:
        texts = writer.texts(attribution.nodes.get(key, ()))
        _replace(node.metadata_props, texts.entries, codec.is_replaced_on_node)
        if texts.doc_string or codec.is_our_doc(node.doc_string or ""):
            node.doc_string = texts.doc_string or None
    written: set[int] = set()
    for key, value in parts.initializers:
        if shared and value.const_value is not None:
            value.const_value = _alias(value.const_value, value.name)
        _write_tensor(value, writer.texts(attribution.initializers.get(key, ())), written)
    inputs = chain.from_iterable(graph.inputs for graph in (*parts.graphs, *parts.functions))
    outputs = chain.from_iterable(node.outputs for _, node in parts.nodes)
    for part in (*parts.graphs, *parts.functions, *(value for _, value in parts.initializers), *inputs, *outputs):
        _replace(part.metadata_props)
    _replace(model.metadata_props, writer.model_entries())


def _write_tensor(value: ir.Value, texts: codec.Texts, written: set[int]) -> None:
    """Write entries on the tensor of an initializer; on its value, they would add a value info to the graph."""
    from onnx_ir import serde

    tensor = value.const_value
    entries = {key: text for key, text in texts.entries.items() if key != codec.NAMESPACE}
    if tensor is None or (id(tensor) in written and not entries):
        return
    if id(tensor) in written:
        tensor = value.const_value = _alias(tensor, value.name)
    written.add(id(tensor))
    _replace(tensor.metadata_props, entries)
    if isinstance(tensor, serde.TensorProtoTensor) and tensor.raw.metadata_props:
        # onnx_ir serialises the entries of the message that it read as well as those of the tensor.
        del tensor.raw.metadata_props[:]


def _alias(tensor: ir.TensorProtocol, name: str | None) -> ir.TensorProtocol:
    """Return a second object for a tensor that two initializers or models share, so that each has its tag."""
    import onnx_ir as ir

    stated: dict[str, Any] = {"shape": ir.Shape(list(tensor.shape.numpy())), "name": name}
    stated |= {"doc_string": tensor.doc_string, "metadata_props": {**tensor.metadata_props}}
    if isinstance(tensor, ir.StringTensor):
        return ir.StringTensor(tensor.string_data(), **stated)
    dtype = ir.DataType(tensor.dtype)
    if isinstance(tensor, ir.ExternalTensor):
        part = tensor.location, tensor.offset, tensor.length
        return ir.ExternalTensor(*part, dtype, base_dir=tensor.base_dir, **stated)
    return ir.LazyTensor(lambda: tensor, dtype, **stated)


def _replace(
    entries: MutableMapping[str, str],
    new: Mapping[str, str] | None = None,
    replaced: Callable[[str], bool] = codec.is_replaced,
) -> None:
    for key in [key for key in entries if replaced(key)]:
        del entries[key]
    entries.update(new or {})
