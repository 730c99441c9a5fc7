"""Marks the tensors of a model that was built without weights: they have a type and a shape, but no data.

A marked tensor is external data with a location that begins with `#`. onnx itself writes such locations for data that
is in no file (`onnx.model_container`), so its checker does not look for a file.
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
    """Whether a tensor of an onnx_ir model is marked."""
    return str(getattr(tensor, "location", "")) == LOCATION


def stored_bytes(tensor: ir.TensorProtocol | None) -> int:
    """Return the size of a tensor that may be external data, else 0: strings are always in the model."""
    return 0 if tensor is None or tensor.dtype.name == "STRING" or is_absent(tensor) else tensor.nbytes


def is_absent_proto(tensor: onnx.TensorProto) -> bool:
    """Whether a tensor of a protobuf message is marked."""
    return any(entry.key == "location" and entry.value == LOCATION for entry in tensor.external_data)


def lacks_data(proto: onnx.ModelProto) -> bool:
    """Whether a model was built without weights."""
    return any(map(is_absent_proto, proto.graph.initializer))


def without_absent(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy in which the marked tensors are graph inputs, so that it can be loaded without their data."""
    import onnx

    copied = onnx.ModelProto()
    copied.CopyFrom(proto)
    graph = copied.graph
    inputs = {value.name for value in graph.input}
    for tensor in filter(is_absent_proto, graph.initializer):
        if tensor.name not in inputs:
            graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    kept = [tensor for tensor in graph.initializer if not is_absent_proto(tensor)]
    graph.ClearField("initializer")
    graph.initializer.extend(kept)
    return copied
