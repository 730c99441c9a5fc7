"""Computes small constants from small ones with onnx's reference implementation, each expression once.

Constants that were computed by different expressions may be equal, and an optimizer that folds and deduplicates them
finds out. So value numbering needs their contents (higgs_audio_v2).

In go a node and the contents of its inputs; out come those of its outputs, by :meth:`Constants.outputs_of`.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import onnx_ir as ir
from onnx.reference.ops import load_op

from pytest_hierexport._carry.flat import Node, Value
from pytest_hierexport._carry.tensors import SMALL, TENSOR, Array, content_array, tensor_key
from pytest_hierexport._onnx.operators import reads_elements

_Contents = tuple[Hashable | None, ...]
_Type = tuple[Any, tuple[int, ...] | None]
"""An element type and a shape; None for what is not known."""

_STAND_INS: tuple[_Type, ...] = ((ir.DataType.FLOAT, (2,) * 8), (ir.DataType.INT64, (3,) * 9))
"""Two types in place of an unknown one, as with dynamic shapes: what is the same for both does not depend on it.

They have many dimensions, for a node may take one: an empty tensor or a size of one could be the same by accident.
"""


class Constants:
    """Computes the outputs of nodes whose inputs are known constants, equal ones once."""

    def __init__(self) -> None:
        """Start without any."""
        self._known: dict[Hashable, _Contents] = {}

    def outputs_of(self, node: Node, inputs: _Contents, opsets: Mapping[str, int]) -> _Contents:
        """Return the content of each output, as :func:`tensor_key` writes it; None where it is not known."""
        given = tuple(content or _type_taken(node, i) for i, content in enumerate(inputs))
        opset = opsets.get(node.source.domain, 1)
        key = (node.operator, opset, node.attributes, len(node.outputs), given)
        if key not in self._known:
            self._known[key] = _computed(node, opset, given)
        return self._known[key]


def _computed(node: Node, opset: int, given: tuple[Any, ...]) -> _Contents:
    unknown: _Contents = (None,) * len(node.outputs)
    if None in given or not node.pure or any(map(_is_large, node.outputs)):
        return unknown
    partly = any(None in each for each in given)
    try:
        first, *others = [_trial(node, opset, given, type_) for type_ in _STAND_INS[: None if partly else 1]]
    except Exception:  # noqa: BLE001 onnx's reference raises anything for what it cannot compute
        return unknown
    return first if len(first) == len(unknown) and all(other == first for other in others) else unknown


def _is_large(value: Value) -> bool:
    """Whether a value is stated to have so many elements that, at a byte each, its content is not kept."""
    sizes = [size for size in value.shape or () if isinstance(size, int)]
    return prod(sizes) > SMALL


def _trial(node: Node, opset: int, given: tuple[Any, ...], unknown: _Type) -> _Contents:
    outputs = evaluated(node, opset, [_array(each, unknown) for each in given])
    return tuple(tensor_key(ir.tensor(output)) for output in outputs)


def evaluated(node: Node, opset: int, arrays: Sequence[Array]) -> list[Array]:
    """Return what a node computes of its inputs; onnx's reference raises anything where it cannot."""
    operator: Any = load_op(node.source.domain, node.source.op_type, opset)
    computed = operator.eval(*arrays, n_outputs=len(node.outputs), **_attributes(node))
    return [np.asarray(output) for output in (computed if isinstance(computed, tuple) else (computed,))]


def _type_taken(node: Node, position: int) -> _Type | None:
    """Return the type of an input of which the node takes the type or shape alone."""
    value, (domain, name, _) = node.inputs[position], node.source.op_identifier()
    if value is None or reads_elements(domain, name, position):
        return None
    sizes = tuple(size for size in value.shape or () if isinstance(size, int))
    return value.dtype, None if value.shape is None or len(sizes) < len(value.shape) else sizes


def _array(given: Any, unknown: _Type) -> Any:
    """Return the array that :func:`tensor_key` wrote, or any array of a type."""
    if given[0] == TENSOR:
        return content_array(given)
    dtype, shape = (known if known is not None else other for known, other in zip(given, unknown, strict=True))
    return np.broadcast_to(np.zeros((), dtype.numpy()), shape)


def _attributes(node: Node) -> dict[str, Any]:
    found = {}
    for name, attribute in node.stated.items():
        if attribute.is_ref():
            raise ValueError(f"attribute {name} refers to one of a function that is not known here")
        found[name] = attribute.value.numpy() if attribute.type == ir.AttributeType.TENSOR else attribute.value
    return found
