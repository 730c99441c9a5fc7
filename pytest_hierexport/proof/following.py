"""What a run leaves open, decided in the eager run as it was in the graph's.

Two right runs of one model may differ: in random numbers, in the order of equals and of what nobody asked to be sorted,
and in that of elements so near to each other that rounding turns them round. Such a difference proves nothing against a
tag, and hides all that is computed from it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import onnx
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from pytest_hierexport.graph import reads_elements
from pytest_hierexport.operators import definition, is_deterministic
from pytest_hierexport.proof.session import Fetched
from pytest_hierexport.proof.values import Array, relative_tolerance

__all__ = ["following", "leaves_open"]

_ASKS = frozenset({"sorted", "stable"})
"""What an attribute is called by which an operator is asked for a definite order."""
_MOST_BYTES = 1 << 28
"""How much of what a graph drew is held."""
_ALIKE = 2.5
"""How far the distributions of two draws may lie apart, times the root of their sizes: farther is one chance in 10⁵."""
_SMALL = 0.25
"""The quantile of the magnitudes by which near nought is measured."""
_GLANCE = 256
"""How many elements are compared first."""


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
    orders = [_Order(*(arrays[name] for name in pair)) for pair in ordering if arrays.keys() >= set(pair)]
    with _holding([drawing[name] for name in held], held.values()), _Following(orders, held.values()):
        yield


# the graph's side


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


# PyTorch's side


class _Following(TorchDispatchMode):
    supports_higher_order_operators = True

    def __init__(self, orders: Iterable[_Order], draws: Iterable[Array]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch does not annotate its modes
        self.orders: dict[Hashable, list[_Order]] = {}
        for order in orders:
            self.orders.setdefault((order.elements.shape, order.places.shape), []).append(order)
        self.draws: dict[Hashable, deque[torch.Tensor]] = {}
        for array in draws:
            # numpy knows some of PyTorch's types under names alone.
            draw = torch.from_numpy(array.astype(np.float64)).to(getattr(torch, array.dtype.name))
            self.draws.setdefault(_type(draw), deque()).append(draw)

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        asked = kwargs or {}
        if not isinstance(func, torch._ops.OpOverload):
            return func(*args, **asked)
        generator = asked.get("generator") or torch.default_generator
        before = generator.get_state() if torch.Tag.nondeterministic_seeded in func.tags else None
        given = func(*args, **asked)
        if before is not None and isinstance(given, torch.Tensor) and not torch.equal(before, generator.get_state()):
            self._draw(given)
        elif _gives_places(func, given):
            named = dict(zip((argument.name for argument in func._schema.arguments), args, strict=False))
            self._order(args[0], given, {**named, **asked})
        return given

    def _draw(self, own: torch.Tensor) -> None:
        """Put the graph's random numbers in the place of others that are distributed alike."""
        left = self.draws.get(_type(own))
        if left and _alike_distributed(own, left[0]):
            own.copy_(left.popleft())

    def _order(self, elements: torch.Tensor, own: tuple[torch.Tensor, torch.Tensor], asked: Mapping[str, Any]) -> None:
        """Put elements in an order that the graph gave them, where they are the same but for rounding."""
        values, places = own
        dim = asked.get("dim", -1)
        orders = self.orders.get((elements.shape, places.shape), [])
        if not orders or not values.numel() or not _equal(values, elements.gather(dim, places)):
            return
        for order in orders:
            apart = order.distance(elements)
            if apart is None or not order.is_within(elements.shape[dim]):
                continue
            taken = elements.gather(dim, order.places)
            # Where nobody asked for an order, any will do.
            pair = (taken, values) if asked.get("sorted", True) else (taken.sort(dim)[0], values.sort(dim)[0])
            # What rounding turned round lies no farther apart than the two were moved.
            if float(_gaps(*pair).max()) <= 2 * apart:
                values.copy_(taken)
                places.copy_(order.places)
                return


def _gives_places(func: torch._ops.OpOverload, given: Any) -> bool:
    """Whether an operation may have given elements of its first argument together with their places along `dim`."""
    returns, taken = func._schema.returns, func._schema.arguments
    if len(returns) != 2 or any(part.alias_info for part in returns) or not any(a.name == "dim" for a in taken):
        return False
    values, places = given
    if not isinstance(values, torch.Tensor) or not isinstance(places, torch.Tensor):
        return False
    return bool(places.dtype == torch.int64 and values.shape == places.shape != () and not values.is_complex())


class _Order:
    """What a node of the graph put in order."""

    def __init__(self, elements: Array, places: Array) -> None:
        self.elements = torch.from_numpy(elements.astype(np.float64))
        # What is no whole number is no place, and fits no operation's.
        self.places = torch.from_numpy(places if places.dtype == np.int64 else np.empty(0, np.int64))

    def distance(self, elements: torch.Tensor) -> float | None:
        """Return how far other elements lie from these; None where they are not the same but for rounding."""
        tolerance = relative_tolerance(str(elements.dtype).rpartition(".")[2])
        step = max(1, elements.numel() // _GLANCE)
        glance = _distance(elements.flatten()[::step], self.elements.flatten()[::step], tolerance)
        return None if glance is None else _distance(elements, self.elements, tolerance)

    def is_within(self, size: int) -> bool:
        """Whether the places are some of so many."""
        return bool(((self.places >= 0) & (self.places < size)).all())


def _distance(one: torch.Tensor, other: torch.Tensor, tolerance: float) -> float | None:
    magnitudes = one.double().abs()
    magnitudes = magnitudes[magnitudes.isfinite() & (magnitudes > 0)]
    floor = float(magnitudes.kthvalue(1 + int(_SMALL * (magnitudes.numel() - 1)))[0]) if magnitudes.numel() else 0.0
    gaps = _gaps(one, other)
    bound = tolerance * (one.double().abs().nan_to_num(0.0, 0.0, 0.0) + floor)
    return float(gaps.max()) if bool((gaps <= bound).all()) else None


def _gaps(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return how far elements lie apart; infinity and NaN do not, from themselves."""
    same = (one == other) | (one.isnan() & other.isnan())
    return torch.where(same, 0.0, (one.double() - other.double()).abs().nan_to_num(torch.inf))


def _equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    return bool((_gaps(one, other) == 0).all())


def _alike_distributed(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two draws may come from one distribution, by the test of Kolmogorov and Smirnov."""
    size = one.numel()
    joined = torch.cat([one.flatten().double(), other.flatten().double()]).unique()
    counts = [torch.searchsorted(part.flatten().double().sort()[0], joined, right=True) for part in (one, other)]
    farthest = float((counts[0] - counts[1]).abs().max()) / max(1, size)
    return bool(farthest <= _ALIKE * (2 / max(1, size)) ** 0.5)


def _type(tensor: torch.Tensor) -> Hashable:
    return tensor.dtype, tensor.shape
