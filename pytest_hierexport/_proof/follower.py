"""Replaces the choices of PyTorch's operations by those of a graph that the operations could have made themselves."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from pytest_hierexport._proof.tolerance import Array, distances, tolerance_of

__all__ = ["ChoiceFollower", "Ranking"]

_DISTRIBUTION = 2.5
"""The distance between two samples' distributions, times the root of their size, that one pair in 10⁵ exceeds."""


@dataclass(frozen=True)
class Ranking:
    """An order in which a node of the graph put elements."""

    elements: Array
    places: Array
    """The places of the elements, in the node's order."""

    @classmethod
    def of(cls, elements: Array, places: Array) -> Ranking:
        """Return the ranking; places that are no integers fit no operation's."""
        return cls(elements.astype(np.float64), places if places.dtype == np.int64 else np.empty(0, np.int64))

    def distance(self, elements: Array, tolerance: float) -> float | None:
        """Return how far other elements lie from these; None where they differ by more than rounding."""
        if not bool((distances(elements, self.elements) <= tolerance).all()):
            return None
        return _farthest(elements, self.elements)

    def is_permutation(self, dim: int, size: int) -> bool:
        """Whether these are some of so many places along a dimension, each once."""
        places = np.sort(self.places, dim)
        return bool(((places >= 0) & (places < size)).all() and (np.diff(places, axis=dim) > 0).all())


class ChoiceFollower(TorchDispatchMode):
    """Lets PyTorch's operations choose as a graph did, while it is entered."""

    supports_higher_order_operators = True

    def __init__(self, rankings: Iterable[Ranking], draws: Iterable[Array]) -> None:
        """Follow the rankings and, in their order, the random numbers of a graph."""
        super().__init__()  # type: ignore[no-untyped-call]  # torch does not annotate its modes
        self._rankings: dict[Hashable, list[Ranking]] = {}
        for ranking in rankings:
            self._rankings.setdefault((ranking.elements.shape, ranking.places.shape), []).append(ranking)
        self._draws: dict[Hashable, deque[torch.Tensor]] = {}
        for array in draws:
            # torch.from_numpy knows no dtype of ml_dtypes.
            draw = torch.from_numpy(array.astype(np.float64)).to(getattr(torch, array.dtype.name))
            self._draws.setdefault((draw.dtype, draw.shape), deque()).append(draw)

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run an operation."""
        options = kwargs or {}
        if not isinstance(func, torch._ops.OpOverload):
            return func(*args, **options)
        generator = options.get("generator") or torch.default_generator
        before = generator.get_state() if torch.Tag.nondeterministic_seeded in func.tags else None
        result = func(*args, **options)
        if before is not None and isinstance(result, torch.Tensor) and not torch.equal(before, generator.get_state()):
            self._draw(result)
        elif _gives_places(func, result):
            named = dict(zip((argument.name for argument in func._schema.arguments), args, strict=False))
            self._rank(args[0], result, {**named, **options})
        return result

    def _draw(self, own: torch.Tensor) -> None:
        """Replace random numbers by the graph's next ones that may come from the same distribution."""
        left = self._draws.get((own.dtype, own.shape))
        if left and _may_share_distribution(_array(own), _array(left[0])):
            own.copy_(left.popleft())

    def _rank(self, tensor: torch.Tensor, own: tuple[torch.Tensor, torch.Tensor], options: Mapping[str, Any]) -> None:
        """Put elements in an order of the graph's that differs from their own within rounding alone."""
        dim = options.get("dim", -1)
        rankings = self._rankings.get((tensor.shape, own[1].shape), [])
        if not rankings or not own[0].numel():
            return
        elements, values = _array(tensor), _array(own[0])
        if _farthest(np.take_along_axis(elements, own[1].numpy(), dim), values):
            return
        tolerance = tolerance_of(str(tensor.dtype).rpartition(".")[2])
        for ranking in rankings:
            apart = ranking.distance(elements, tolerance)
            if apart is None or not ranking.is_permutation(dim, elements.shape[dim]):
                continue
            taken = np.take_along_axis(elements, ranking.places, dim)
            # Without `sorted`, any order of the same elements is right.
            pair = (taken, values) if options.get("sorted", True) else (np.sort(taken, dim), np.sort(values, dim))
            # Elements that rounding exchanged lie no farther apart than both were moved.
            if _farthest(*pair) <= 2 * apart:
                own[1].copy_(torch.from_numpy(ranking.places))
                own[0].copy_(tensor.gather(dim, own[1]))
                return


def _gives_places(func: torch._ops.OpOverload, result: Any) -> bool:
    """Whether an operation may have given elements of its first argument together with their places along `dim`."""
    returns, arguments = func._schema.returns, func._schema.arguments
    if len(returns) != 2 or any(part.alias_info for part in returns) or not any(a.name == "dim" for a in arguments):
        return False
    values, places = result
    if not isinstance(values, torch.Tensor) or not isinstance(places, torch.Tensor):
        return False
    return bool(places.dtype == torch.int64 and values.shape == places.shape != () and not values.is_complex())


def _array(tensor: torch.Tensor) -> Array:
    return tensor.detach().double().numpy()


def _farthest(one: Array, other: Array) -> float:
    """Return the largest gap between elements; infinity and NaN equal themselves."""
    with np.errstate(invalid="ignore"):
        gaps = np.nan_to_num(np.abs(one - other), nan=np.inf)
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    return float(np.where(same, 0.0, gaps).max(initial=0.0))


def _may_share_distribution(one: Array, other: Array) -> bool:
    """Whether two samples of one size may come from one distribution, by the test of Kolmogorov and Smirnov.

    MUST-006 needs the test: a graph that draws from another distribution than its model breaks the rule.
    """
    size = max(1, one.size)
    joined = np.concatenate([one, other], axis=None)
    counts = [np.searchsorted(np.sort(sample, axis=None), joined, side="right") for sample in (one, other)]
    return bool(np.abs(counts[0] - counts[1]).max(initial=0) / size <= _DISTRIBUTION * (2 / size) ** 0.5)
