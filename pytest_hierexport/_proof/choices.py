"""Makes the eager run choose as the graph did where an operation leaves a choice open.

Two right runs of one model may differ in random numbers, in the order of equal elements and of those that nothing
asks to be sorted, and in the order of elements that lie nearer to each other than two programs round. Such a difference
hides all that is computed from it:

    graph   noise = RandomUniformLike(x)    i = TopK(noise)    h = Gather(x, i)
    eager   torch.rand_like(x) is given the graph's noise, topk its i; h is then equal in both

ViT-MAE (its mask) and VITS (its noise) need the random numbers, RT-DETR and RT-DETRv2 the orders of equal anchors, and
a segmentation the largest of near scores: of five random ones that give the class of each of 262,144 pixels, one did.

In goes the graph; in the context of :func:`following_choices`, operations of PyTorch choose as it does.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import onnx
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from pytest_hierexport._grouping import grouped
from pytest_hierexport._onnx.operators import draws
from pytest_hierexport._proof.session import Fetched
from pytest_hierexport._proof.tensors import array_of
from pytest_hierexport._proof.tolerance import Array, distances, gaps, tolerance_of

_MOST_BYTES = 1 << 28
"""How many bytes of a graph's random numbers are held."""
_DISTRIBUTION = 2.5
"""The distance between two samples' distributions, times the root of their size, that one pair in 10⁵ exceeds."""
_ATEN = torch.ops.aten
_RANKING: Mapping[Any, str | bool] = {
    _ATEN.topk.default: "largest",
    **dict.fromkeys((_ATEN.sort.default, _ATEN.sort.stable), "descending"),
    **dict.fromkeys((_ATEN.argmax.default, _ATEN.max.dim), True),
    **dict.fromkeys((_ATEN.argmin.default, _ATEN.min.dim), False),
}
"""The operations that give the places of ordered elements, or of the first, along `dim`.

Each with whether the largest come first, or the option that says so.
"""
_PLACES = {"TopK": 1, "ArgMax": 0, "ArgMin": 0}
"""The operators that these become, with the position of the output that holds the places."""


def has_choices(proto: onnx.ModelProto) -> bool:
    """Whether a graph draws random numbers or puts elements in order."""
    return any(_draws(node) or _ranks(node) for node in proto.graph.node)


@contextmanager
def following_choices(
    proto: onnx.ModelProto,
    run: Callable[[Sequence[str]], Iterable[Fetched]],
    tolerance: Callable[[str], float] = tolerance_of,
) -> Iterator[Callable[[], None]]:
    """Let PyTorch's operations choose as the nodes of a graph do; give what lets the next run begin with the first.

    The graph draws its random numbers once, on entry, and holds them.

    Args:
        proto: The graph; it is as before when the context ends.
        run: Gives values of it by name: computed ones, inputs and initializers.
        tolerance: Gives the relative tolerance, by dtype, within which elements that are put in order count as equal.
    """
    drawing = drawn(proto)
    ranking = [node for node in proto.graph.node if _ranks(node)]
    used = (value for node in ranking for value in (node.input[0], _places(node)))
    arrays = {value.name: value.arrays[0] for value in run(list(dict.fromkeys([*drawing, *used])))}
    sizes = np.cumsum([arrays[name].nbytes for name in drawing])
    held = {name: arrays[name] for name, size in zip(drawing, sizes, strict=True) if size <= _MOST_BYTES}
    rankings = [_Ranking.of(node, arrays[node.input[0]], arrays[_places(node)]) for node in ranking]
    with holding(proto, held), _ChoiceFollower(rankings, held.values(), tolerance) as follower:
        yield follower.restart


def drawn(proto: onnx.ModelProto) -> list[str]:
    """Return the names of the random numbers that a graph draws."""
    return [node.output[0] for node in proto.graph.node if _draws(node)]


@contextmanager
def holding(proto: onnx.ModelProto, held: Mapping[str, Array]) -> Iterator[None]:
    """Let a graph give these numbers where it draws; it is as before when the context ends."""
    before = onnx.GraphProto(node=proto.graph.node)
    try:
        for node in (node for node in proto.graph.node if _draws(node) and node.output[0] in held):
            value = onnx.numpy_helper.from_array(held[node.output[0]])
            node.CopyFrom(onnx.helper.make_node("Constant", [], node.output, value=value))
        yield
    finally:
        del proto.graph.node[:]
        proto.graph.node.extend(before.node)


def _draws(node: onnx.NodeProto) -> bool:
    """Whether a node draws random numbers that do not depend on the elements of its inputs."""
    return draws(node.domain, node.op_type, len(node.input))


def _ranks(node: onnx.NodeProto) -> bool:
    """Whether a node gives the places of ordered elements."""
    return node.op_type in _PLACES and node.domain in {"", "ai.onnx"} and bool(_places(node))


def _places(node: onnx.NodeProto) -> str:
    """Return the name of the places that a node gives; empty where it leaves them out."""
    return next(iter(node.output[_PLACES[node.op_type] :]), "")


class _Ranking(NamedTuple):
    """An order in which a node of the graph put elements."""

    elements: Array
    places: Array
    """The places of the elements along the axis, in the node's order."""
    axis: int
    descending: bool

    @classmethod
    def of(cls, node: onnx.NodeProto, elements: Array, places: Array) -> _Ranking:
        """Return the order of a node; an axis that `ArgMax` removed is in the places again."""
        is_whole = node.op_type == "TopK"
        stated = {attribute.name: attribute.i for attribute in node.attribute}
        axis = stated.get("axis", -1 if is_whole else 0)
        descending = bool(stated.get("largest", 1)) if is_whole else node.op_type == "ArgMax"
        places = places if places.ndim == elements.ndim else np.expand_dims(places, axis)
        return cls(elements, places, axis, descending)


class _ChoiceFollower(TorchDispatchMode):
    """Lets PyTorch's operations choose as a graph did, while it is entered."""

    supports_higher_order_operators = True

    def __init__(self, rankings: Iterable[_Ranking], draws: Iterable[Array], tolerance: Callable[[str], float]) -> None:
        """Follow the rankings and, in their order, the random numbers of a graph."""
        super().__init__()  # type: ignore[no-untyped-call]  # torch does not annotate its modes
        self._rankings = grouped(
            rankings, lambda ranking: (ranking.elements.shape, ranking.places.shape, ranking.descending)
        )
        self._held = list(draws)
        self._tolerance = tolerance
        self.restart()

    def restart(self) -> None:
        """Give the next operation that draws the first random numbers."""
        self._draws: dict[Hashable, deque[torch.Tensor]] = defaultdict(deque)
        for array in self._held:
            # torch.from_numpy knows no dtype of ml_dtypes.
            draw = torch.from_numpy(array.astype(np.float64)).to(getattr(torch, array.dtype.name))
            self._draws[draw.shape].append(draw)

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
        elif func in _RANKING:
            self._rank(func, args, options, result)
        return result

    def _draw(self, own: torch.Tensor) -> None:
        """Replace random numbers by the graph's next ones that may come from the same distribution."""
        left = self._draws[own.shape]
        if left and _may_share_distribution(_array(own), _array(left[0])):
            own.copy_(left.popleft())

    def _rank(self, func: Any, args: Sequence[Any], options: Mapping[str, Any], own: Any) -> None:
        """Put elements in an order of the graph's that differs from their own within rounding alone."""
        defaults = {argument.name: argument.default_value for argument in func._schema.arguments}
        given = {**defaults, **dict(zip(defaults, args, strict=False)), **options}
        tensor, dim, descending = args[0], given["dim"], _RANKING[func]
        if dim is None or not tensor.ndim:
            return  # the place of the largest of all elements counts through all axes
        # Views of what the operation gave, with the axis that it may have removed.
        parts = own if isinstance(own, tuple) else (own,)
        *chosen, places = (part if part.ndim == tensor.ndim else part.unsqueeze(dim) for part in parts)
        is_descending = given[descending] if isinstance(descending, str) else descending
        elements = _array(tensor)
        values = np.take_along_axis(elements, places.numpy(force=True), dim)
        same_shapes = self._rankings.get((tensor.shape, places.shape, is_descending), ())
        own_tolerance = self._tolerance(str(tensor.dtype).removeprefix("torch."))
        for moved, ranking in self._near(same_shapes, elements, dim, own_tolerance):
            taken = np.take_along_axis(elements, ranking.places, dim)
            # Without `sorted`, any order of the same elements is right.
            pair = (taken, values) if given.get("sorted", True) else (np.sort(taken, dim), np.sort(values, dim))
            # Elements that rounding exchanged lie no farther apart than both were moved.
            if _farthest(*pair) <= 2 * moved:
                places.copy_(torch.from_numpy(ranking.places))
                for each in chosen:
                    each.copy_(tensor.gather(dim, places))
                return

    def _near(
        self, rankings: Iterable[_Ranking], elements: Array, dim: int, own_tolerance: float
    ) -> list[tuple[float, _Ranking]]:
        """Return the rankings of the same elements and how far these were moved, the nearest first.

        The quantizers of XCodec put elements in order that are nearly those of the quantizer before.
        """
        found: list[tuple[float, _Ranking]] = []
        for ranking in rankings:
            other = ranking.elements.astype(np.float64)
            tolerance = max(own_tolerance, self._tolerance(ranking.elements.dtype.name))
            if ranking.axis % elements.ndim == dim % elements.ndim and (distances(elements, other) <= tolerance).all():
                found.append((_farthest(elements, other), ranking))
        return sorted(found, key=lambda pair: pair[0])


def _array(tensor: torch.Tensor) -> Array:
    return array_of(tensor).astype(np.float64)


def _farthest(one: Array, other: Array) -> float:
    """Return the largest gap between elements; infinity and NaN equal themselves."""
    return float(gaps(one, other).max(initial=0.0))


def _may_share_distribution(one: Array, other: Array) -> bool:
    """Whether two samples of one size may come from one distribution, by the test of Kolmogorov and Smirnov.

    MUST-006 needs the test: a graph that draws from another distribution than its model breaks the rule.
    """
    size = max(1, one.size)
    joined = np.concatenate([one, other], axis=None)
    counts = [np.searchsorted(np.sort(sample, axis=None), joined, side="right") for sample in (one, other)]
    return bool(np.abs(counts[0] - counts[1]).max(initial=0) / size <= _DISTRIBUTION * (2 / size) ** 0.5)
