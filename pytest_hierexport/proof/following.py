"""What a run leaves open, decided in the eager run as it was in the graph's.

Two right runs of one model may differ: in the order of equals, and of what lies so near that rounding turns it round;
in the order of results that nobody asked to be sorted; in random numbers. A difference of that kind proves nothing
against a tag, and hides all that is computed from it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from math import inf
from typing import Any

import numpy as np
import onnx
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from pytest_hierexport.operators import is_deterministic
from pytest_hierexport.proof.bodies import subgraphs
from pytest_hierexport.proof.session import Fetched
from pytest_hierexport.proof.values import Array

__all__ = ["following"]

_ASKS = frozenset({"sorted", "stable"})
"""What an attribute is called by which an operator is asked for a definite order."""
_NEAR = 1e-2
"""How far elements may lie from those of a tensor that is the same but for rounding, by the largest among them."""


@contextmanager
def following(
    proto: onnx.ModelProto, feeds: Mapping[str, Array], run: Callable[[Sequence[str]], Iterable[Fetched]]
) -> Iterator[None]:
    """Let what PyTorch runs decide as the graph does, while the context lasts.

    The graph draws its random numbers once, before, and holds them; an operation of PyTorch's that draws as many of
    the same type is given them, in the order of the nodes. An operation that puts elements in order takes that of the
    node which was given the same, where it is an order that it might have given itself.

    Args:
        proto: The graph; it is left as it was.
        feeds: The elements of its inputs.
        run: Computes values of it.
    """
    drawing = [node for node in proto.graph.node if not any(subgraphs(node)) and not _is_deterministic(proto, node)]
    ordering = [node for node in proto.graph.node if any(attribute.name in _ASKS for attribute in node.attribute)]
    drawn = [value for node in drawing for value in node.output if value]
    ordered = [(node.input[0], node.output[-1]) for node in ordering if node.input]
    made = {value for node in proto.graph.node for value in node.output if value}
    found = {
        value.name: value for value in run([name for name in dict.fromkeys(chain(drawn, *ordered)) if name in made])
    }
    arrays = {**feeds, **{name: value.arrays[0] for name, value in found.items()}}
    orders = [
        _Order(*(torch.from_numpy(arrays[n].astype(t)) for n, t in zip(names, (np.float64, np.int64), strict=True)))
        for names in ordered
        if names[0] in arrays and names[1] in arrays
    ]
    held = [node for node in drawing if len(node.output) == 1 and not found[node.output[0]].dtype]
    draws = [torch.tensor(arrays[node.output[0]]) for node in held]
    with _holding(held, arrays), _Following(orders, draws):
        yield


def _is_deterministic(proto: onnx.ModelProto, node: onnx.NodeProto) -> bool:
    opsets = {opset.domain: opset.version for opset in proto.opset_import}
    return is_deterministic(node.op_type, opsets.get(node.domain, 1), node.domain)


@contextmanager
def _holding(nodes: Sequence[onnx.NodeProto], arrays: Mapping[str, Array]) -> Iterator[None]:
    """Let nodes give the same elements each time."""
    own = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    try:
        for node in nodes:
            held = onnx.numpy_helper.from_array(arrays[node.output[0]])
            node.CopyFrom(onnx.helper.make_node("Constant", [], list(node.output), name=node.name, value=held))
        yield
    finally:
        for node, before in zip(nodes, own, strict=True):
            node.CopyFrom(before)


@dataclass(frozen=True)
class _Order:
    """What a node of the graph put in order."""

    elements: torch.Tensor
    places: torch.Tensor

    def distance(self, elements: torch.Tensor, places: torch.Tensor) -> float:
        """Return how far other elements lie from these; infinity where places of another shape are asked for."""
        if self.elements.shape != elements.shape or self.places.shape != places.shape:
            return inf
        return _apart(self.elements, elements)


class _Following(TorchDispatchMode):
    supports_higher_order_operators = True

    def __init__(self, orders: Sequence[_Order], draws: Iterable[torch.Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch does not annotate its modes
        self.orders = orders
        self.draws: dict[Hashable, deque[torch.Tensor]] = {}
        for draw in draws:
            self.draws.setdefault(_type(draw), deque()).append(draw)

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = func(*args, **(kwargs or {}))
        if isinstance(func, torch._ops.OpOverload):
            if torch.Tag.nondeterministic_seeded in func.tags and isinstance(given, torch.Tensor):
                self._draw(given, lambda: func(*args, **(kwargs or {})))
            elif _puts_in_order(given, args):
                named = dict(zip((argument.name for argument in func._schema.arguments), args, strict=False))
                self._order(args[0], given, {**named, **(kwargs or {})})
        return given

    def _draw(self, given: torch.Tensor, again: Callable[[], torch.Tensor]) -> None:
        """Put the graph's random numbers in the place of others; what comes out the same again was not drawn."""
        left, own = self.draws.get(_type(given)), given.clone()
        if left and not torch.equal(own, again()):
            given.copy_(left.popleft())

    def _order(self, elements: torch.Tensor, given: Sequence[torch.Tensor], asked: Mapping[str, Any]) -> None:
        """Put the elements in the order that the graph gave them, where they are the same but for rounding."""
        values, places = given
        nearest = min(self.orders, key=lambda order: order.distance(elements, places), default=None)
        apart = inf if nearest is None else nearest.distance(elements, places)
        if nearest is None or apart > (_NEAR * _largest(elements) if elements.is_floating_point() else 0):
            return
        dim = asked.get("dim", -1)
        if not bool(((nearest.places >= 0) & (nearest.places < elements.shape[dim])).all()):
            return
        taken = elements.gather(dim, nearest.places)
        in_order = (taken, values) if asked.get("sorted", True) else (taken.sort(dim)[0], values.sort(dim)[0])
        # What rounding turned round lies no farther apart than the two were moved.
        if _apart(*in_order) <= 2 * apart:
            values.copy_(taken)
            places.copy_(nearest.places)


def _puts_in_order(given: Any, args: Sequence[Any]) -> bool:
    """Whether an operation gave elements of its first argument together with their places."""
    if not (args and isinstance(args[0], torch.Tensor) and isinstance(given, Sequence) and len(given) == 2):
        return False
    values, places = given
    tensors = isinstance(values, torch.Tensor) and isinstance(places, torch.Tensor)
    if not tensors or values.shape != places.shape or places.dtype != torch.int64 or values.is_complex():
        return False
    return bool(values.dtype == args[0].dtype and values.dim() == args[0].dim() > 0)


def _type(tensor: torch.Tensor) -> Hashable:
    return tensor.dtype, tensor.shape


def _apart(one: torch.Tensor, other: torch.Tensor) -> float:
    """Return how far two tensors of one shape lie apart; infinity where NaN has no counterpart."""
    gaps = torch.where(one == other, 0.0, (one.double() - other.double()).abs())
    return float(gaps.nan_to_num(nan=inf).max()) if gaps.numel() else 0.0


def _largest(elements: torch.Tensor) -> float:
    finite = elements[elements.isfinite()].abs()
    return float(finite.max()) if finite.numel() else 0.0
