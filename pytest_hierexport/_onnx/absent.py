"""Marks the tensors of a model that was built without weights: they have a type and a shape, and no data.

Such a tensor is external data at a location that begins with `#`. onnx itself writes such locations for data that is in
no file (`onnx.model_container`), so its checker does not look for one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import onnx
    import onnx_ir as ir

LOCATION = "#no-weights"


def fill_absent(model: ir.Model) -> bool:
    """Mark every initializer that has no tensor; return whether there was one."""
    import onnx_ir as ir

    values = [value for graph in model.graphs() for value in graph.initializers.values() if value.const_value is None]
    for value in values:
        dtype, shape = value.dtype or ir.DataType.UNDEFINED, value.shape or ir.Shape(())
        value.const_value = ir.ExternalTensor(LOCATION, None, None, dtype, shape=shape, name=value.name or "")
    return bool(values)


def is_absent(tensor: Any) -> bool:
    """Whether a tensor of a model in memory is marked."""
    return str(getattr(tensor, "location", "")) == LOCATION


def stored_bytes(tensor: ir.TensorProtocol | None) -> int:
    """Return the bytes of a tensor that external data could hold; ONNX keeps strings in the model."""
    return 0 if tensor is None or tensor.dtype.name == "STRING" or is_absent(tensor) else tensor.nbytes


def is_absent_proto(tensor: onnx.TensorProto) -> bool:
    """Whether a tensor of a message is marked."""
    return any(entry.key == "location" and entry.value == LOCATION for entry in tensor.external_data)


def lacks_data(proto: onnx.ModelProto) -> bool:
    """Whether a model was built without weights: a tensor of its graph is marked."""
    return any(map(is_absent_proto, proto.graph.initializer))


def without_absent(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy in which the marked tensors are inputs of the graph: who loads it must not ask for their data."""
    import onnx

    copied = onnx.ModelProto()
    copied.CopyFrom(proto)
    graph = copied.graph
    given = {value.name for value in graph.input}
    for tensor in filter(is_absent_proto, graph.initializer):
        if tensor.name not in given:
            graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    kept = [tensor for tensor in graph.initializer if not is_absent_proto(tensor)]
    graph.ClearField("initializer")
    graph.initializer.extend(kept)
    return copied
