"""What a run leaves open, decided in the eager run as it was in the graph's.

Two right runs of one model may differ: in random numbers, in the order of equals and of what nobody asked to be sorted,
and in that of elements so near to each other that rounding turns them round. Such a difference proves nothing against a
tag, and hides all that is computed from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import onnx

from pytest_hierexport._onnx.operators import definition, is_deterministic, reads_elements
from pytest_hierexport._proof.follower import Follower, Order
from pytest_hierexport._proof.session import Fetched
from pytest_hierexport._proof.values import Array

__all__ = ["following", "leaves_open"]

_ASKS = frozenset({"sorted", "stable"})
"""What an attribute is called by which an operator is asked for a definite order."""
_MOST_BYTES = 1 << 28
"""How much of what a graph drew is held."""


def leaves_open(proto: onnx.ModelProto) -> bool:
    """Whether a graph decides anything that it might have decided otherwise."""
    opsets = _opsets(proto)
    return any(_draws(node, opsets) or _orders(node, opsets) for node in proto.graph.node)


@contextmanager
def following(
    proto: onnx.ModelProto, feeds: Mapping[str, Array], run: Callable[[Sequence[str]], Iterable[Fetched]]
) -> Iterator[None]:
    """Let what PyTorch runs decide as the nodes of a graph do, while the context lasts.

    The graph draws its random numbers once, before, and holds them; an operation of PyTorch's that draws as many of
    the same type, and alike distributed, is given them in the order of the nodes. An operation that puts elements in
    order takes that of a node which was given the same, where it is an order that it might have given itself.

    Args:
        proto: The graph; it is left as it was.
        feeds: The elements of its inputs.
        run: Computes values of it.
    """
    opsets = _opsets(proto)
    made = {value for node in proto.graph.node for value in node.output if value}
    drawing = {node.output[0]: node for node in proto.graph.node if _draws(node, opsets)}
    ordering = [(node.input[0], node.output[-1]) for node in proto.graph.node if _orders(node, opsets)]
    wanted = dict.fromkeys([*drawing, *(value for pair in ordering for value in pair if value in made)])
    found = {value.name: value for value in run(list(wanted))}
    arrays = {**feeds, **{name: value.arrays[0] for name, value in found.items() if value.arrays}}
    held = dict(_first_of({name: _typed(arrays[name], found[name].dtype) for name in drawing if name in arrays}))
    orders = [Order(*(arrays[name] for name in pair)) for pair in ordering if arrays.keys() >= set(pair)]
    with _holding([drawing[name] for name in held], held.values()), Follower(orders, held.values()):
        yield


def _opsets(proto: onnx.ModelProto) -> Mapping[str, int]:
    return {opset.domain: opset.version for opset in proto.opset_import}


def _draws(node: onnx.NodeProto, opsets: Mapping[str, int]) -> bool:
    """Whether a node draws random numbers, alike whatever elements it is given."""
    if len(node.output) != 1 or not node.output[0] or any(attribute.type in _BODIES for attribute in node.attribute):
        return False
    reads = any(value and reads_elements(node.domain, node.op_type, i) for i, value in enumerate(node.input))
    return not reads and not is_deterministic(node.op_type, opsets.get(node.domain, 1), node.domain)


_BODIES = frozenset([onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS])


def _orders(node: onnx.NodeProto, opsets: Mapping[str, int]) -> bool:
    """Whether a node puts elements in an order of which it gives the places."""
    if not node.input or len(node.output) < 2 or not node.output[-1]:
        return False
    found = definition(node.op_type, opsets.get(node.domain, 1), node.domain)
    return found is not None and not _ASKS.isdisjoint(found.attributes)


def _typed(array: Array, dtype: str) -> Array:
    """Return an array as the graph has it; ONNX Runtime's values of some types come as others that numpy knows."""
    return array.astype(np.dtype(dtype)) if dtype else array


def _first_of(drawn: Mapping[str, Array]) -> Iterator[tuple[str, Array]]:
    size = 0
    for name, array in drawn.items():
        size += array.nbytes
        if size <= _MOST_BYTES:
            yield name, array


@contextmanager
def _holding(nodes: Sequence[onnx.NodeProto], arrays: Iterable[Array]) -> Iterator[None]:
    """Let nodes give the same elements each time."""
    own = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    try:
        for node, array in zip(nodes, arrays, strict=True):
            value = onnx.numpy_helper.from_array(array)
            node.CopyFrom(onnx.helper.make_node("Constant", [], list(node.output), name=node.name, value=value))
        yield
    finally:
        for node, before in zip(nodes, own, strict=True):
            node.CopyFrom(before)
