"""Reads a node's attributes, and from the definition of its operator: their defaults, optional outputs, purity."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np
import onnx
import onnx_ir as ir

from pytest_hierexport._carry.tensors import tensor_key
from pytest_hierexport._onnx.graph import subgraphs_ir
from pytest_hierexport._onnx.operators import definition, is_deterministic


def stated(node: ir.Node, passed: Mapping[str, ir.Attr]) -> Mapping[str, ir.Attr]:
    """Return the attributes of a node; in a function's body, those in place that its call `passed` to the function."""
    found = node.attributes.items()
    return {name: passed.get(each.ref_attr_name or "", each) if each.is_ref() else each for name, each in found}


def attributes(node: ir.Node, opsets: Mapping[str, int], given: Mapping[str, ir.Attr]) -> tuple[tuple[str, str], ...]:
    """Return given attributes in a comparable form, without those that have their default value: tools drop these."""
    defaults = _defaults(node.op_type, opsets.get(node.domain, 1), node.domain)
    comparable = ((name, _attribute(value)) for name, value in given.items())
    return tuple(sorted((name, value) for name, value in comparable if defaults.get(name) != value))


@lru_cache(maxsize=4096)
def _defaults(op_type: str, opset: int, domain: str) -> Mapping[str, str]:
    schema = definition(op_type, opset, domain)
    stated = {} if schema is None else schema.attributes
    return {name: _attribute(ir.from_proto(attribute.default_value)) for name, attribute in stated.items()}


def _attribute(attribute: ir.Attr) -> str:
    if attribute.is_ref():
        return f"@{attribute.ref_attr_name}"
    if attribute.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS):
        return ""
    if attribute.type == ir.AttributeType.TENSOR:
        known = tensor_key(attribute.value)
        return repr(id(attribute.value) if known is None else known)
    if attribute.type in (ir.AttributeType.FLOAT, ir.AttributeType.FLOATS):
        # As a file would hold it: a number that was never written down has more digits.
        return repr((attribute.type.value, np.float32(attribute.value).tolist()))
    return repr((attribute.type.value, attribute.value))


def arity(node: ir.Node, opsets: Mapping[str, int]) -> int:
    """Return the number of outputs of a node, without unused optional ones at the end."""
    outputs = list(node.outputs)
    optional = _optional_outputs(node.op_type, opsets.get(node.domain, 1), node.domain)
    while len(outputs) - 1 in optional and not outputs[-1].uses() and not outputs[-1].is_graph_output():
        outputs.pop()
    return len(outputs)


@lru_cache(maxsize=4096)
def _optional_outputs(op_type: str, opset: int, domain: str) -> frozenset[int]:
    schema = definition(op_type, opset, domain)
    optional = onnx.defs.OpSchema.FormalParameterOption.Optional
    outputs = () if schema is None else schema.outputs
    return frozenset(i for i, output in enumerate(outputs) if output.option == optional)


def is_pure(node: ir.Node, opsets: Mapping[str, int]) -> bool:
    """Whether operator, attributes and inputs determine the outputs: no random numbers, no subgraphs."""
    if next(subgraphs_ir(node), None) is not None:
        return False
    return is_deterministic(node.op_type, opsets.get(node.domain, 1), node.domain)
