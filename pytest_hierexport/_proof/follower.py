"""What PyTorch's operations are made to decide, and when: never what they might not have decided by themselves."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from pytest_hierexport._proof.values import Array, relative_tolerance

__all__ = ["Follower", "Order"]

_ALIKE = 2.5
"""How far the distributions of two draws may lie apart, times the root of their sizes: farther is one chance in 10⁵."""
_SMALL = 0.25
"""The quantile of the magnitudes by which near nought is measured."""
_GLANCE = 256
"""How many elements are compared first."""


class Order:
    """What a node of the graph put in order."""

    def __init__(self, elements: Array, places: Array) -> None:
        """Hold the elements, and the places in them that the node gave."""
        self.elements = torch.from_numpy(elements.astype(np.float64))
        # What is no whole number is no place, and fits no operation's.
        self.places = torch.from_numpy(places if places.dtype == np.int64 else np.empty(0, np.int64))

    def distance(self, elements: torch.Tensor) -> float | None:
        """Return how far other elements lie from these; None where they are not the same but for rounding."""
        tolerance = relative_tolerance(str(elements.dtype).rpartition(".")[2])
        step = max(1, elements.numel() // _GLANCE)
        # What is near nought for a few elements may not be so for all.
        glance = _distance(elements.flatten()[::step], self.elements.flatten()[::step], 8 * tolerance)
        return None if glance is None else _distance(elements, self.elements, tolerance)

    def names_places(self, dim: int, size: int) -> bool:
        """Whether these are some of so many places along a dimension, each once."""
        places = self.places.sort(dim)[0]
        return bool(((places >= 0) & (places < size)).all() and (places.diff(dim=dim) > 0).all())


class Follower(TorchDispatchMode):
    """Lets operations decide as a graph did, while it is entered."""

    supports_higher_order_operators = True

    def __init__(self, orders: Iterable[Order], draws: Iterable[Array]) -> None:
        """Follow the orders and, in their own order, the draws of a graph."""
        super().__init__()  # type: ignore[no-untyped-call]  # torch does not annotate its modes
        self.orders: dict[Hashable, list[Order]] = {}
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
        """Run an operation."""
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
            if apart is None or not order.names_places(dim, elements.shape[dim]):
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
