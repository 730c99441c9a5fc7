"""Whether operations hand a value on unchanged: tried on numbers, since no list of operators could say it.

An optimizer drops what changes nothing: a cast to the type that was there, a transpose and its inverse. Its readers
then read an ancestor of what they read; but so do those that have taken in an operation they absorb. On random
numbers the two come apart.
"""

from __future__ import annotations

import math
from collections.abc import Container, Hashable, Iterator
from typing import Any

import numpy as np

from pytest_hierexport._carry.constants import array_of, evaluate
from pytest_hierexport._carry.flat import Flat, Node, Value
from pytest_hierexport._carry.tensors import TENSOR

__all__ = ["Preserving"]

_MOST_NODES = 32
_MOST_NUMBERS = 1 << 16
_SIZES = (3, 5, 7, 2, 11, 13)  # what sizes without a number are taken for, each another
_BEYOND = 2  # how many operations before the first are computed too: `Relu` changes no number that `Relu` gave
# Large numbers hide what is added to them, or make one of a softmax's weights all of it; small ones pass every bound.
_SCALES = (3.0, 0.1, 1e8, 1e-15)
_NEAR = 4  # how many operations an optimizer drops at once


class Preserving:
    """Tries the operations of one graph, equal ones once."""

    def __init__(self, flat: Flat) -> None:
        """Try operations of this graph."""
        self._flat = flat
        self._found: dict[Hashable, bool | None] = {}

    def handed_on(self, lives: Container[str]) -> Iterator[tuple[Value, Value]]:
        """Yield each value that is an ancestor of its own, with that.

        Those whose names live on are left out, unless such a lost value was computed from them: a chain of turns that
        undo each other may lose any two of them.
        """
        tried: set[Value] = set()
        for value in self._flat.maker:
            at = [value] if value.varying and value.leaf is None and value.name and value.name not in lives else []
            for lost in at:
                if lost in tried:
                    continue
                tried.add(lost)
                source = next((near for near in self._near(lost) if self.shows(near, lost)), None)
                if source is not None:
                    yield lost, source
                    at += [read for read in self._flat.maker[lost].reads if read.varying and read in self._flat.maker]

    def _near(self, value: Value) -> Iterator[Value]:
        """The ancestors of the value's own type from which few operations lead to it, the nearest first.

        torch does not say the type of everything before it optimizes: of such a value what is read to compute it.
        """
        typed = value.dtype is not None and value.shape is not None
        at, seen = [value], {value}
        for _ in range(_NEAR if typed else 1):
            makers = (self._flat.maker.get(current) for current in at)
            passed = (maker for maker in makers if maker is not None and not _weighs(maker))
            at = [read for maker in passed for read in maker.reads if read.varying]
            at = [read for read in dict.fromkeys(at) if read not in seen]
            seen.update(at)
            yield from (read for read in at if _same_kind(read, value) and (typed or _has_size(read)))

    def shows(self, source: Value, value: Value) -> bool | None:
        """Whether `value`, which is computed from `source`, is the same; None where that cannot be tried."""
        found = self._try(source, value, 0)
        if found is False and self._repeats(source, value):
            return self._try(source, value, _BEYOND) is True
        return found

    def _repeats(self, source: Value, value: Value) -> bool:
        """Whether what makes the value was done just before the source: such an operation may find nothing to do."""
        makers, at = [self._flat.maker.get(value)], [source]
        for _ in range(_BEYOND):
            before = [maker for maker in map(self._flat.maker.get, at) if maker is not None]
            makers += before
            at = [read for maker in before for read in maker.reads]
        operators = [maker.operator for maker in makers if maker is not None]
        return operators[0] in operators[1:]

    def _try(self, source: Value, value: Value, beyond: int) -> bool | None:
        trial = _Trial(self._flat, source, value, beyond)
        if trial.key not in self._found:
            self._found[trial.key] = trial.run()
        return self._found[trial.key]


def _same_kind(read: Value, value: Value) -> bool:
    """Whether the type of a value is that of another, as far as it is known."""
    return value.dtype in (None, read.dtype) and value.shape in (None, read.shape)


def _has_size(value: Value) -> bool:
    """Whether all sizes are numbers: of a symbol's size a trial says nothing."""
    return value.shape is not None and all(isinstance(size, int) for size in value.shape)


class _Trial:
    """The operations between two values, some before the first, and what else they read."""

    def __init__(self, flat: Flat, source: Value, value: Value, beyond: int) -> None:
        self.flat, self.source, self.value = flat, source, value
        self.given: dict[Value, int] = {}
        self.found: set[Node] = set()
        self._collect_between()
        self._collect_before(beyond)
        self.nodes = sorted(self.found, key=flat.order.__getitem__)
        self.key = self._key()

    def _collect_between(self) -> None:
        """Walk back from the value, not past the source, nor past what reads a shape alone, nor too far."""
        at = [self.value]
        for value in at:
            maker = self._maker(value)
            if value is self.source or maker in self.found:
                continue
            if maker is None or len(self.found) == _MOST_NODES:
                self._give(value)
                continue
            self.found.add(maker)
            elements = list(maker.elements)
            at.extend(elements)
            self._give(*(read for read in maker.reads if read not in elements))

    def _collect_before(self, levels: int) -> None:
        at = [self.source]
        for _ in range(levels):
            makers = [None if maker is None or _weighs(maker) else maker for maker in map(self._maker, at)]
            self._give(*(value for value, maker in zip(at, makers, strict=True) if maker is None))
            self.found.update(maker for maker in makers if maker is not None)
            at = [value for maker in makers if maker is not None for value in maker.reads]
        self._give(*at)

    def _maker(self, value: Value) -> Node | None:
        return None if value.leaf is not None else self.flat.maker.get(value)

    def _give(self, *values: Value) -> None:
        self.given.update({value: len(self.given) + i for i, value in enumerate(values) if value not in self.given})

    def _key(self) -> Hashable:
        """What equal trials have in common."""
        places: dict[Value | None, Hashable] = {None: None}
        places.update(self.given.items())
        for i, node in enumerate(self.nodes):
            places.update((output, (i, j)) for j, output in enumerate(node.outputs))
        steps = tuple((n.operator, n.attributes, tuple(places[value] for value in n.inputs)) for n in self.nodes)
        held = tuple((value.dtype, value.shape, value.leaf) for value in self.given)
        return held, steps, places[self.source], places[self.value]

    def run(self) -> bool | None:
        if any(map(_weighs, self.nodes)):
            return None
        shown = True
        for scale in _SCALES:
            found = self._hands_on(scale)
            # Most operations change something, and the first numbers show it.
            if found is False:
                return False
            shown = shown and found is not None
        return True if shown else None

    def _hands_on(self, scale: float) -> bool | None:
        try:
            with np.errstate(all="ignore"):
                source, value = self._compute(scale)
        except Exception:  # noqa: BLE001 what onnx's reference cannot compute on these numbers cannot be tried
            return None
        if source.dtype != value.dtype or source.shape != value.shape:
            return False
        return bool(np.array_equal(source, value)) if _telling(source) else None

    def _compute(self, scale: float) -> tuple[Any, Any]:
        random, sizes = np.random.default_rng(0), dict[str, int]()
        arrays = {value: _array(value, random, sizes, scale) for value in self.given}
        for node in self.nodes:
            if not node.repeatable:
                raise ValueError(f"{node.key} computes something else each time")
            given = [None if value is None else arrays[value] for value in node.inputs]
            arrays.update(zip(node.outputs, evaluate(node, given, self.flat.opsets), strict=True))
        return arrays[self.source], arrays[self.value]


def _weighs(node: Node) -> bool:
    """Whether the node reads a tensor too large to be known by its content: a weight, which changes what it meets."""
    return any(value.tensor is not None and not _is_content(value) for value in node.reads)


def _is_content(value: Value) -> bool:
    return isinstance(value.leaf, tuple) and value.leaf[0] == TENSOR


def _telling(numbers: Any) -> bool:
    """Whether numbers show what happens to them: a constant, or what is no number, stays what it is in many ways."""
    floating = numbers.astype(np.float64)
    different = np.unique(floating[np.isfinite(floating)]).size
    return not np.isnan(floating).any() and (different > 1 or (different == numbers.size == 1))


def _array(value: Value, random: np.random.Generator, sizes: dict[str, int], scale: float) -> Any:
    """Return what a value holds, or random numbers of its type; whole ones are always of the first scale."""
    if _is_content(value):
        return array_of(value.leaf)
    if value.shape is None or value.dtype is None:
        raise ValueError(f"the type of {value.name} is not known")
    shape = [_size(dim, sizes) for dim in value.shape]
    if math.prod(shape) > _MOST_NUMBERS:
        raise ValueError(f"{value.name} is too large to try")
    dtype = value.dtype.numpy()
    numbers = random.standard_normal(shape) * (scale if value.dtype.is_floating_point() else _SCALES[0])
    return (numbers > 0) if dtype == np.bool_ else numbers.astype(dtype)


def _size(dim: int | str | None, sizes: dict[str, int]) -> int:
    if isinstance(dim, int):
        return dim
    if dim is None:
        raise ValueError("a size is not known")
    return sizes.setdefault(dim, _SIZES[len(sizes) % len(_SIZES)])
