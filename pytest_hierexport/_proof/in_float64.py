"""Lets a graph compute in float64 what it computes in float32, wherever ONNX Runtime has a kernel for it.

The kernels of a runtime round, each in its own way. ONNX Runtime's `Sigmoid` is off by up to 2e-7, however small its
result is, so a score of 1e-5 is off by 1 % (YOLO). In float64 it is not:

    before  y = Sigmoid(x)
    after   x/float64 = Cast<to=DOUBLE>(x)    y/float64 = Sigmoid(x/float64)    y = Cast<to=FLOAT>(y/float64)

A node that has no such kernel (`Conv`) stays as it is, and so does one with a graph inside.

In goes a graph with inlined functions; out comes another, in which all values have their names, by :func:`in_float64`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping

import onnx

from pytest_hierexport._errors import UsageError
from pytest_hierexport._onnx.loading import import_runtime, options_to_load, runtime_errors_told
from pytest_hierexport._onnx.models import with_types

_SINGLE, _DOUBLE = onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE


def in_float64(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return a graph that computes in float64, and gives each value in the dtype that it has.

    Args:
        proto: The graph; it is not changed.
    """
    dtypes = _dtypes(proto)
    known: dict[Hashable, bool] = {}

    def is_widened(node: onnx.NodeProto) -> bool:
        codes = tuple(dtypes.get(name) if name else 0 for name in (*node.input, "", *node.output))
        if _SINGLE not in codes or None in codes:
            return False
        kind = node.domain, node.op_type, codes
        if kind not in known:
            known[kind] = _has_kernel(node, dtypes, proto)
        return known[kind]

    widened = type(proto)()
    widened.CopyFrom(proto)
    del widened.graph.node[:]
    for node in proto.graph.node:
        widened.graph.node.extend(_widened(node, dtypes) if is_widened(node) else [node])
    return widened


def _dtypes(proto: onnx.ModelProto) -> dict[str, int]:
    """Return the code of the dtype of each tensor of the main graph, where it is known."""
    graph = with_types(proto).graph
    computed = (value for node in graph for value in node.outputs)
    values = (*graph.inputs, *graph.initializers.values(), *computed)
    return {value.name: int(value.dtype) for value in values if value.name and value.dtype is not None}


def _has_kernel(node: onnx.NodeProto, dtypes: Mapping[str, int], proto: onnx.ModelProto) -> bool:
    """Whether ONNX Runtime has a kernel that takes and gives float64 where a node takes and gives float32."""
    inputs, outputs = (
        [onnx.helper.make_tensor_value_info(name, _wide(dtypes[name]), None) for name in dict.fromkeys(names) if name]
        for names in (node.input, node.output)
    )
    graph = onnx.helper.make_graph([node], "alone", inputs, outputs)
    model = onnx.helper.make_model(graph, opset_imports=proto.opset_import, ir_version=proto.ir_version)
    options = options_to_load("DISABLE_ALL")
    try:
        with runtime_errors_told(graph, loaded=False):
            import_runtime().InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except UsageError:
        return False
    return True


def _wide(dtype: int) -> int:
    return _DOUBLE if dtype == _SINGLE else dtype


def _widened(node: onnx.NodeProto, dtypes: Mapping[str, int]) -> Iterator[onnx.NodeProto]:
    """Yield a node that computes in float64 between the casts of what it takes and gives."""
    # Each node has casts of its own: these names are then unique, as those of its outputs are.
    first = next(filter(None, node.output))
    taken = {name: f"{first}/float64/{name}" for name in node.input if dtypes.get(name) == _SINGLE}
    given = {name: f"{name}/float64" for name in node.output if dtypes.get(name) == _SINGLE}
    for name, wide in taken.items():
        yield onnx.helper.make_node("Cast", [name], [wide], to=_DOUBLE)
    inner = onnx.NodeProto()
    inner.CopyFrom(node)
    inner.input[:] = [taken.get(name, name) for name in node.input]
    inner.output[:] = [given.get(name, name) for name in node.output]
    yield inner
    for name, wide in given.items():
        yield onnx.helper.make_node("Cast", [wide], [name], to=_SINGLE)
