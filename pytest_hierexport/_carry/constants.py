"""Folds small constants with onnx's reference implementation, each expression once.

Constants that were computed by different expressions may be equal, and an optimizer that folds and deduplicates them
finds out. So value numbering needs their contents.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from onnx.reference.ops import load_op

from pytest_hierexport._carry.flat import Node
from pytest_hierexport._carry.tensors import tensor_key
from pytest_hierexport._onnx.operators import reads_elements

__all__ = ["Constants", "array_of", "evaluate"]

_Contents = tuple[Hashable | None, ...]
_Type = tuple[Any, tuple[int, ...] | None]
"""An element type and a shape; None for what is not known."""
_Types = tuple[_Type | None, ...]


class Constants:
    """Computes the outputs of nodes whose inputs are known constants, equal ones once."""

    def __init__(self, opsets: dict[str, int]) -> None:
        """Compute with the operators of these opsets."""
        self._opsets = opsets
        self._known: dict[Hashable, _Contents] = {}

    def outputs_of(self, node: Node, inputs: _Contents) -> _Contents:
        """Return the content of each output, as :func:`tensor_key` writes it; None where it is not known."""
        types = _types_taken(node)
        key = (node.operator, node.attributes, inputs, types)
        if key not in self._known:
            self._known[key] = self._compute(node, inputs, types)
        return self._known[key]

    def _compute(self, node: Node, inputs: _Contents, types: _Types) -> _Contents:
        unknown: _Contents = (None,) * len(node.outputs)
        known = bool(inputs) and all(pair != (None, None) for pair in zip(inputs, types, strict=True))
        if not known or not node.pure:
            return unknown
        whole = all(kind is None or None not in kind for kind in types)
        try:
            first, *others = [self._trial(node, inputs, types, trial) for trial in _STAND_INS[: 1 if whole else None]]
        except Exception:  # noqa: BLE001 onnx's reference raises anything for what it cannot compute
            return unknown
        return first if len(first) == len(unknown) and all(other == first for other in others) else unknown

    def _trial(self, node: Node, inputs: _Contents, types: _Types, unknown: _Type) -> _Contents:
        pairs = zip(inputs, types, strict=True)
        arrays = [array_of(content) if kind is None else _stand_in(kind, unknown) for content, kind in pairs]
        return tuple(tensor_key(ir.tensor(array)) for array in evaluate(node, arrays, self._opsets))


def evaluate(node: Node, inputs: Sequence[Any], opsets: Mapping[str, int]) -> list[Any]:
    """Compute the outputs of a node by onnx's reference implementation.

    Args:
        node: The node.
        inputs: Arrays; None for an input that is left out.
        opsets: The versions of the operators by domain.

    Raises:
        Exception: The reference cannot compute it; it raises exceptions of any class.
    """
    domain, name, _ = node.source.op_identifier()
    operator: Any = load_op(domain, name, opsets.get(domain, 1))
    given = operator.eval(*inputs, n_outputs=len(node.outputs), **_attributes(node.source))
    return [np.asarray(result) for result in (given if isinstance(given, tuple) else (given,))]


def _types_taken(node: Node) -> _Types:
    """Return the type of each input of which a node takes the type or shape alone; None for the others."""
    domain, name, _ = node.source.op_identifier()
    return tuple(
        None if value is None or reads_elements(domain, name, i) else (value.dtype, _whole(value.shape))
        for i, value in enumerate(node.inputs)
    )


def _whole(shape: Sequence[int | str | None] | None) -> tuple[int, ...] | None:
    sizes = tuple(size for size in shape or () if isinstance(size, int))
    return None if shape is None or len(sizes) < len(shape) else sizes


def _stand_in(kind: _Type, unknown: _Type) -> Any:
    """Return an array of a type; what is unknown of it comes from another type."""
    dtype, shape = (known if known is not None else other for known, other in zip(kind, unknown, strict=True))
    return np.broadcast_to(np.zeros((), dtype.numpy()), shape)


_STAND_INS: tuple[_Type, ...] = ((ir.DataType.FLOAT, ()), (ir.DataType.INT64, (1,)))
"""Two types in place of an unknown one: a result that is the same for both does not depend on it."""


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
