"""Compares what two models declare: inputs, outputs and operator sets, of the graph and of each function."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pytest_hierexport._calls.names import encode_operator
from pytest_hierexport._onnx.element_types import element_name
from pytest_hierexport._tools.comparing.contents import Data, attribute_changes
from pytest_hierexport._tools.comparing.texts import NONE, change

if TYPE_CHECKING:
    import onnx

_SIZE_NAME = re.compile(r"(?![0-9]+$)[\w .*+/()-]+")
"""The names of sizes that cannot be taken for a number or for several sizes; others are quoted."""


def interface_changes(before: onnx.ModelProto, after: onnx.ModelProto, data: Data) -> Iterator[str]:
    """Yield the differences between the declarations of two models as texts.

    Raises:
        UsageError: The data of an attribute's default is missing, or does not fit its shape.
    """
    yield from _of_entries("opset", _opsets(before), _opsets(after))
    for kind in ("input", "output"):
        types = [{value.name: _type(value.type) for value in getattr(proto.graph, kind)} for proto in (before, after)]
        yield from _of_entries(kind, *types)
        yield from _of_order(f"{kind}s", *types)
        if types[0].keys() == types[1].keys():  # a list may repeat a name
            yield from _of_number(kind, before.graph, after.graph)
    functions = [{(f.domain, f.name, f.overload): f for f in proto.functions} for proto in (before, after)]
    for identity, function in functions[0].items():
        if other := functions[1].get(identity):
            yield from (f"{function_title(*identity)}: {text}" for text in _in_function(function, other, data))


def function_title(domain: str, name: str, overload: str) -> str:
    """Return a function as text: `function my::Leaky`, with its overload behind a colon."""
    return f"function {encode_operator(domain, name)}{f':{overload}' * bool(overload)}"


def _opsets(declaring: onnx.ModelProto | onnx.FunctionProto) -> dict[str, int]:
    return {opset.domain or "ai.onnx": opset.version for opset in declaring.opset_import}


def _in_function(before: onnx.FunctionProto, after: onnx.FunctionProto, data: Data) -> Iterator[str]:
    """Yield the differences between the declarations of two functions; their nodes are compared with all others."""
    yield from _of_entries("opset", _opsets(before), _opsets(after))
    for kind in ("input", "output"):
        yield from _of_number(kind, before, after)
    required = [dict.fromkeys(function.attribute, "required") for function in (before, after)]
    yield from _of_entries("attribute", *required)
    old, new = ({each.name: each for each in function.attribute_proto} for function in (before, after))
    for name, text in attribute_changes(old, new, data):
        yield f"default of attribute {name}: {text}"


def _of_entries(kind: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    for name in dict.fromkeys((*before, *after)):
        if before.get(name) != after.get(name):
            yield change(f"{kind} {name}", str(before.get(name, NONE)), str(after.get(name, NONE)))


def _of_number(
    kind: str, before: onnx.GraphProto | onnx.FunctionProto, after: onnx.GraphProto | onnx.FunctionProto
) -> Iterator[str]:
    """Yield a text if two graphs or functions have other numbers of inputs, or of outputs."""
    numbers = [len(getattr(each, kind)) for each in (before, after)]
    if numbers[0] != numbers[1]:
        yield change(f"number of {kind}s", *map(str, numbers))


def _of_order(kind: str, before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    """Yield a text if the names that both have are in another order."""
    shared = [[name for name in names if name in others] for names, others in ((before, after), (after, before))]
    if shared[0] != shared[1]:
        yield change(f"order of the {kind}", *(", ".join(names) for names in shared))


def _type(declared: onnx.TypeProto) -> str:
    """Return a type as text, `FLOAT[2, N]` or `sequence(INT64)`, without denotations; equal texts mean equal types."""
    kind = declared.WhichOneof("value")
    if kind in {"sequence_type", "optional_type"}:
        return f"{kind.removesuffix('_type')}({_type(getattr(declared, kind).elem_type)})"
    if kind != "tensor_type":  # no value of PyTorch has such a type
        return " ".join(str(declared).split()) or "of an unknown type"
    tensor = declared.tensor_type
    element = element_name(tensor.elem_type)
    return f"{element}[{', '.join(map(_dimension, tensor.shape.dim))}]" if tensor.HasField("shape") else element


def _dimension(declared: onnx.TensorShapeProto.Dimension) -> str:
    kind = declared.WhichOneof("value")
    if kind != "dim_param":
        return "?" if kind is None else str(declared.dim_value)
    return declared.dim_param if _SIZE_NAME.fullmatch(declared.dim_param) else json.dumps(declared.dim_param)
