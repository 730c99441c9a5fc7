"""Makes the eager run choose as the graph did where an operation leaves a choice open.

Two right runs of one model may differ in random numbers, in the order of equal elements and of those that nothing
asks to be sorted, and in the order of elements that lie nearer to each other than two programs round. Such a difference
hides all that is computed from it:

    graph   noise = RandomUniformLike(x)    i = TopK(noise)    h = Gather(x, i)
    eager   torch.rand_like(x) is given the graph's noise, topk its i; h is then equal in both

ViT-MAE (its mask) and VITS (its noise) need the random numbers, RT-DETR and RT-DETRv2 the orders of equal anchors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import onnx

from pytest_hierexport._onnx.graph import subgraphs_proto
from pytest_hierexport._onnx.operators import definition, is_deterministic, reads_elements
from pytest_hierexport._proof.follower import ChoiceFollower, Ranking
from pytest_hierexport._proof.session import Fetched
from pytest_hierexport._proof.tolerance import Array

__all__ = ["following_choices", "has_choices"]

_SORTING = frozenset({"sorted", "stable"})
"""The attributes by which an operator is asked for a definite order."""
_MOST_BYTES = 1 << 28
"""How many bytes of a graph's random numbers are held."""


def has_choices(proto: onnx.ModelProto) -> bool:
    """Whether a graph draws random numbers or puts elements in order."""
    opsets = _opsets(proto)
    return any(_draws(node, opsets) or _ranks(node, opsets) for node in proto.graph.node)


@contextmanager
def following_choices(
    proto: onnx.ModelProto, feeds: Mapping[str, Array], run: Callable[[Sequence[str]], Iterable[Fetched]]
) -> Iterator[None]:
    """Let PyTorch's operations choose as the nodes of a graph do.

    The graph draws its random numbers once, on entry, and holds them.

    Args:
        proto: The graph; it is as before when the context ends.
        feeds: The elements of its inputs.
        run: Computes values of it.
    """
    opsets = _opsets(proto)
    produced = {value for node in proto.graph.node for value in node.output if value}
    drawing = {node.output[0]: node for node in proto.graph.node if _draws(node, opsets)}
    ranking = [(node.input[0], node.output[-1]) for node in proto.graph.node if _ranks(node, opsets)]
    wanted = dict.fromkeys([*drawing, *(value for pair in ranking for value in pair if value in produced)])
    found = {value.name: value for value in run(list(wanted)) if value.arrays}
    arrays = {**feeds, **{name: value.arrays[0] for name, value in found.items()}}
    held = dict(_within_budget({name: _typed(found[name]) for name in drawing if name in found}))
    rankings = [Ranking.of(*(arrays[name] for name in pair)) for pair in ranking if arrays.keys() >= set(pair)]
    with _holding([drawing[name] for name in held], held.values()), ChoiceFollower(rankings, held.values()):
        yield


def _opsets(proto: onnx.ModelProto) -> Mapping[str, int]:
    return {opset.domain: opset.version for opset in proto.opset_import}


def _draws(node: onnx.NodeProto, opsets: Mapping[str, int]) -> bool:
    """Whether a node draws random numbers that do not depend on the elements of its inputs."""
    if len(node.output) != 1 or not node.output[0] or any(subgraphs_proto(node)):
        return False
    reads = any(value and reads_elements(node.domain, node.op_type, i) for i, value in enumerate(node.input))
    return not reads and not is_deterministic(node.op_type, opsets.get(node.domain, 1), node.domain)


def _ranks(node: onnx.NodeProto, opsets: Mapping[str, int]) -> bool:
    """Whether a node puts elements in order and gives their places."""
    if not node.input or len(node.output) < 2 or not node.output[-1]:
        return False
    found = definition(node.op_type, opsets.get(node.domain, 1), node.domain)
    return found is not None and not _SORTING.isdisjoint(found.attributes)


def _typed(value: Fetched) -> Array:
    """Return an array in the dtype that the graph has; that of a dtype that numpy lacks comes as float32."""
    return value.arrays[0].astype(np.dtype(value.dtype)) if value.dtype else value.arrays[0]


def _within_budget(drawn: Mapping[str, Array]) -> Iterator[tuple[str, Array]]:
    size = 0
    for name, array in drawn.items():
        size += array.nbytes
        if size <= _MOST_BYTES:
            yield name, array


@contextmanager
def _holding(nodes: Sequence[onnx.NodeProto], arrays: Iterable[Array]) -> Iterator[None]:
    """Replace nodes by constants."""
    own = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    try:
        for node, array in zip(nodes, arrays, strict=True):
            value = onnx.numpy_helper.from_array(array)
            node.CopyFrom(onnx.helper.make_node("Constant", [], list(node.output), name=node.name, value=value))
        yield
    finally:
        for node, before in zip(nodes, own, strict=True):
            node.CopyFrom(before)
