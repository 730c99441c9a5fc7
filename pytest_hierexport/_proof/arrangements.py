"""Lists the arrays of a shape that a reshape, a transposition and another reshape make of an array.

    array    [[1, 2, 3], [4, 5, 6]]
    shape    (3, 2)
    yields   [[1, 2], [3, 4], [5, 6]]    the array in this shape
             [[1, 4], [2, 5], [3, 6]]    the array transposed

Either the axes of the array are transposed, or those of the shape, one of which may be split in two: ONNX Runtime keeps
the channels of an image in blocks. An order that no transposition explains, such as that of a flip, is not among them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import permutations
from math import prod
from typing import NamedTuple

import numpy as np

from pytest_hierexport._proof.tolerance import Array

_RANK = 6
"""The number of axes longer than 1 up to which transpositions are listed."""
_Shape = tuple[int, ...]


class Arrangement(NamedTuple):
    """A reshape, a transposition and another reshape."""

    sizes: _Shape
    axes: _Shape
    shape: _Shape

    def of(self, array: Array) -> Array:
        """Return the elements of an array in this arrangement."""
        return np.asarray(array.reshape(self.sizes).transpose(self.axes).reshape(self.shape))


@lru_cache(maxsize=64)
def arrangements(given: _Shape, shape: _Shape) -> tuple[Arrangement, ...]:
    """Return the arrangements in a shape of an array of the given shape, the array itself first."""
    return tuple(dict.fromkeys(_arrangements(tuple(size for size in given if size > 1), shape)))


@lru_cache(maxsize=64)
def sampled(given: _Shape, shape: _Shape, step: int) -> Array:
    """Return which elements of an array each arrangement puts at every `step`-th place, in a row each."""
    places = np.arange(prod(given))
    return np.stack([each.of(places).ravel()[::step] for each in arrangements(given, shape)])


def _arrangements(given: _Shape, shape: _Shape) -> Iterator[Arrangement]:
    yield from (Arrangement(given, axes, shape) for axes in _orders(given))
    for sizes in _splits([size for size in shape if size > 1]):
        for axes in _orders(sizes):
            yield Arrangement(tuple(sizes[axis] for axis in axes), tuple(map(int, np.argsort(axes))), shape)


def _splits(shape: Sequence[int]) -> Iterator[Sequence[int]]:
    """Yield a shape, then the same with one axis split in two."""
    yield shape
    for axis, size in enumerate(shape):
        for part in range(2, size):
            if size % part == 0:
                yield (*shape[:axis], size // part, part, *shape[axis + 1 :])


def _orders(shape: Sequence[int]) -> Iterator[tuple[int, ...]]:
    axes = tuple(range(len(shape)))
    return permutations(axes) if len(axes) <= _RANK else iter([axes])
