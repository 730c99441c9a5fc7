"""Finds where a dropped chain of operations gives its source back before its end.

Example. `layer` transposes its result there and back, and `head` its input. The optimizer drops all four, and the graph
after shows one alias alone: `w` of `y`. Computed on one tensor, `u` equals `y` too: neither call undoes the other's
work, and neither owns the `MatMul` for it.

    before                    call       after
    y = MatMul(x, w)          layer      y = MatMul(x, w)
    t = Transpose(y)          layer
    u = Transpose(t)          layer
    v = Transpose(u)          head
    w = Transpose(v)          head
    z = Relu(w)               head       z = Relu(y)

One of 2,000 random architectures needs it (seed 501908).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import count
from math import prod

import numpy as np
import onnx_ir as ir

from pytest_hierexport._carry.constants import evaluated
from pytest_hierexport._carry.flat import Flat, Node, Value, types_may_agree
from pytest_hierexport._carry.numbering import Numbering
from pytest_hierexport._carry.slices import between
from pytest_hierexport._carry.tensors import Array, content_array

_LARGE = 1 << 20
"""The most elements of a tensor to compute with, which bounds the time."""


def restored(before: Flat, numbering: Numbering, value: Value, source: Value) -> list[Value]:
    """Return the values between one and its source that equal the source, where they can be computed."""
    nodes = between(source, value, before, numbering)
    inner = [output for node in nodes for output in node.outputs if output is not value]
    return _equal_to(source, inner, nodes, before, numbering)


def gives_back(before: Flat, numbering: Numbering, value: Value, source: Value) -> bool:
    """Whether a value equals its source, where it can be computed: what lies between the two changes nothing."""
    return bool(_equal_to(source, [value], between(source, value, before, numbering), before, numbering))


def _equal_to(
    source: Value, values: Sequence[Value], nodes: Sequence[Node], before: Flat, numbering: Numbering
) -> list[Value]:
    """Return those of some values that equal their source, given the nodes that compute them, in order."""
    candidates = [each for each in values if types_may_agree(each, source)]
    sample = _sample(source) if candidates else None
    if sample is None:
        return []
    known = {source: sample}
    for node in nodes:
        known.update(zip(node.outputs, _computed(node, known, before, numbering), strict=False))
    return [each for each in candidates if each in known and _is_same(known[each], sample)]


def _sample(value: Value) -> Array | None:
    """Return a random tensor of a value's type, each dynamic axis with a size of its own; None where it is unknown."""
    if value.shape is None or value.dtype is None:
        return None
    free = count(3)
    named = defaultdict[str, int](partial(next, free))
    shape = [next(free) if size is None else size if isinstance(size, int) else named[size] for size in value.shape]
    if prod(shape) > _LARGE:
        return None
    draws = np.random.default_rng(0).standard_normal(shape)
    return draws > 0 if value.dtype == ir.DataType.BOOL else (100 * draws).astype(value.dtype.numpy())


def _computed(node: Node, known: Mapping[Value, Array], before: Flat, numbering: Numbering) -> list[Array]:
    """Return what a node computes of known values and small constants; nothing where it takes another value."""
    found = (known.get(value, _content(numbering, value)) for value in node.inputs if value is not None)
    arrays = [array for array in found if array is not None]
    if not node.pure or len(arrays) < len(node.inputs):
        return []
    try:
        return evaluated(node, before.opsets.get(node.source.domain, 1), arrays)
    except Exception:  # noqa: BLE001 onnx's reference raises anything for what it cannot compute
        return []


def _content(numbering: Numbering, value: Value) -> Array | None:
    content = numbering.contents.get(numbering.old[value])
    return None if content is None else content_array(content)


def _is_same(a: Array, b: Array) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
