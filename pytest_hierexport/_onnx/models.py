"""Converts an ONNX model in any form (path, protobuf message, onnx_ir model) to a message or an onnx_ir model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, Union

from pytest_hierexport._errors import UsageError, chain, in_words
from pytest_hierexport._files.temporary import temporary_folder
from pytest_hierexport._onnx.absent import is_absent, stored_bytes
from pytest_hierexport._onnx.graph import initializers_ir, subgraphs_proto
from pytest_hierexport._onnx.storage import load_proto

if TYPE_CHECKING:
    import onnx
    import onnx_ir as ir

Model: TypeAlias = Union[str, Path, "onnx.ModelProto", "ir.Model"]
"""The path of an ONNX file, a protobuf message, or an onnx_ir model."""

_LARGE = 1 << 29
"""With this many bytes of weights, or more, a model is converted through a file: a message is limited to 2 GiB."""


def as_ir(model: Model) -> ir.Model:
    """Return an onnx_ir model; external data is read when a tensor is used.

    Raises:
        UsageError: There is no such file, or it is not a valid ONNX model.
    """
    import onnx_ir as ir

    if isinstance(model, ir.Model):
        return model
    if not isinstance(model, str | Path):
        return converted(_message(model))
    return converted(load_proto(model), Path(model).absolute().parent)


def converted(message: onnx.ModelProto, folder: Path | None = None) -> ir.Model:
    """Return the onnx_ir model of a protobuf message; sparse initializers are dense in it, since it knows no others.

    Args:
        message: The message.
        folder: The folder of its external data, which is read when a tensor is used; None for a model without.

    Raises:
        UsageError: It is invalid: two nodes give a value of one name, as ONNX Runtime's float16 converter writes it
            for an output that is constant.
    """
    import onnx_ir as ir

    try:
        model = ir.from_proto(_dense(message))
    except Exception as error:
        *_, first = chain(error)
        raise UsageError(
            "a valid ONNX model",
            found=in_words(first).partition(". ")[0],
            do="look at what wrote it; onnx.checker.check_model(model) tells where it is invalid",
        ) from error
    # Another name of the standard domain, which onnx_ir replaces on nodes alone.
    for opsets in (model.opset_imports, *(function.opset_imports for function in model.functions.values())):
        if "ai.onnx" in opsets:
            opsets.setdefault("", opsets.pop("ai.onnx"))
    if folder is not None:
        ir.external_data.set_base_dir(model.graph, folder)
    return model


def with_types(message: onnx.ModelProto) -> ir.Model:
    """Return the onnx_ir model of a message with the types that can be inferred; its external data is not read.

    TorchScript states no types between inputs and outputs.

    Raises:
        UsageError: The model is invalid.
    """
    from onnx_ir.passes.common import ShapeInferencePass

    return ShapeInferencePass(check_type=False, strict_mode=False, data_prop=False)(converted(message)).model


def _dense(message: onnx.ModelProto) -> onnx.ModelProto:
    """Return a message in which each sparse initializer is a dense one: itself where it has none."""
    from onnx import ModelProto

    # Most models have none, and the list of all parts takes a third of the time that the conversion takes.
    if not any(graph.sparse_initializer for graph in _graphs(message)):
        return message
    copied = ModelProto()
    copied.CopyFrom(message)
    for graph in _graphs(copied):
        graph.initializer.extend(map(_filled, graph.sparse_initializer))
        graph.ClearField("sparse_initializer")
    return copied


def _graphs(message: onnx.ModelProto) -> Iterator[onnx.GraphProto]:
    """Yield the graph of a model and all subgraphs, also those in functions."""
    yield message.graph
    pending = [message.graph.node, *(function.node for function in message.functions)]
    while pending:
        for node in pending.pop():
            for _, graph in subgraphs_proto(node):
                yield graph
                pending.append(graph.node)


def _filled(sparse: onnx.SparseTensorProto) -> onnx.TensorProto:
    """Return a sparse tensor as a dense one; its places are counted through, or have an index for each axis."""
    import numpy as np
    from onnx import numpy_helper

    values, places = numpy_helper.to_array(sparse.values), numpy_helper.to_array(sparse.indices)
    found = np.zeros(tuple(sparse.dims), values.dtype)
    found[tuple(places.T) if places.ndim > 1 else np.unravel_index(places, found.shape)] = values
    return numpy_helper.from_array(found, sparse.values.name)


def _message(model: onnx.ModelProto) -> onnx.ModelProto:
    """Check that a model is a protobuf message, and return it.

    Raises:
        UsageError: It is something else, such as a PyTorch model.
    """
    if not hasattr(model, "opset_import"):
        raise UsageError(
            "an exported model: the path of an ONNX file, an onnx.ModelProto or an onnx_ir.Model",
            found=f"an object of the class {type(model).__name__}",
            do="name the file; of an export, pass its `model`",
        )
    return model


@contextmanager
def as_proto(model: Model) -> Iterator[tuple[onnx.ModelProto, Path | None]]:
    """Give a message that the caller may change, and the folder of its external data; None if the message has all data.

    Raises:
        UsageError: There is no such file, or it is not an ONNX model.
    """
    import onnx_ir as ir

    if isinstance(model, str | Path):
        yield load_proto(model), Path(model).absolute().parent
    elif not isinstance(model, ir.Model):
        copied = type(_message(model))()
        copied.CopyFrom(model)
        yield copied, None
    else:
        tensors = [value.const_value for value in initializers_ir(model)]
        # A message does not say the folder of a file in which a tensor lies.
        outside = any(isinstance(tensor, ir.ExternalTensor) and not is_absent(tensor) for tensor in tensors)
        if not outside and sum(map(stored_bytes, tensors)) < _LARGE:
            yield ir.to_proto(model), None
            return
        with temporary_folder() as folder:
            path = Path(folder) / "model.onnx"
            ir.save(model, path, external_data="model.onnx.data")
            yield load_proto(path), path.parent
