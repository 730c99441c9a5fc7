"""What constant operations give, computed once for each way in which constants are combined.

Two constants that were computed in different ways are one value all the same, and an optimizer that folds and
deduplicates them knows it. Small ones are therefore computed, by onnx's own reference implementation.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from onnx.reference.ops import load_op

from pytest_hierexport.carry.flat import Node, tensor_key

__all__ = ["Constants", "array_of", "evaluate"]

_Contents = tuple[Hashable | None, ...]


class Constants:
    """Computes what nodes give whose inputs are known, and remembers it."""

    def __init__(self, opsets: dict[str, int]) -> None:
        """Compute with the operators of these opsets."""
        self._opsets = opsets
        self._known: dict[Hashable, _Contents] = {}

    def given_by(self, node: Node, inputs: _Contents) -> _Contents:
        """Return what each output holds, as :func:`tensor_key` writes it; None where that is not known."""
        key = (node.operator, node.attributes, inputs, _asked_shape(node))
        if key not in self._known:
            self._known[key] = self._compute(node, inputs)
        return self._known[key]

    def _compute(self, node: Node, inputs: _Contents) -> _Contents:
        unknown: _Contents = (None,) * len(node.outputs)
        arrays = _arrays(node, inputs)
        if arrays is None or not node.repeatable:
            return unknown
        try:
            contents = tuple(tensor_key(ir.tensor(array)) for array in evaluate(node, arrays, self._opsets))
        except Exception:  # noqa: BLE001 what onnx's reference cannot compute, or no tensor can hold, stays unknown
            return unknown
        return contents if len(contents) == len(node.outputs) else unknown


def evaluate(node: Node, inputs: Sequence[Any], opsets: Mapping[str, int]) -> list[Any]:
    """Compute what a node gives, by onnx's reference implementation.

    Args:
        node: The node.
        inputs: Arrays; None for an input that is left out.
        opsets: The versions of the operators by domain.

    Raises:
        Exception: The reference cannot; what it raises is its own affair.
    """
    domain, name, _ = node.source.op_identifier()
    operator: Any = load_op(domain, name, opsets.get(domain, 1))
    given = operator.eval(*inputs, n_outputs=len(node.outputs), **_attributes(node.source))
    return [np.asarray(result) for result in (given if isinstance(given, tuple) else (given,))]


def _asked_shape(node: Node) -> tuple[int, ...] | None:
    """Return the shape that a node asks for, where it is known whole: it needs no more of its input."""
    if node.operator not in _SHAPE_ALONE or not node.inputs or node.inputs[0] is None:
        return None
    shape = node.inputs[0].shape
    if shape is None:
        return None
    sizes = tuple(size for size in shape if isinstance(size, int))
    return sizes if len(sizes) == len(shape) else None


_SHAPE_ALONE = {("", "Shape", ""), ("", "Size", "")}
"""The two operators of ONNX that read their input's shape and nothing else of it."""


def _arrays(node: Node, inputs: _Contents) -> list[Any] | None:
    shape = _asked_shape(node)
    if shape is not None:
        return [np.broadcast_to(np.float32(0), shape)]
    if not inputs or any(content is None for content in inputs):
        return None
    return [array_of(content) for content in inputs]


def array_of(content: Any) -> Any:
    """Return the array that :func:`tensor_key` wrote."""
    _, dtype, shape, data = content
    return np.frombuffer(data, dtype=ir.DataType(dtype).numpy()).reshape(shape)


def _attributes(node: ir.Node) -> dict[str, Any]:
    found = {}
    for name, attribute in node.attributes.items():
        if attribute.is_ref():
            raise ValueError(f"attribute {name} refers to one of a function that is not known here")
        found[name] = attribute.value.numpy() if attribute.type == ir.AttributeType.TENSOR else attribute.value
    return found
