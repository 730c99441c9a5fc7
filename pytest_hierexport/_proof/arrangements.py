"""Lists the arrays of a shape that a reshape, a transposition and another reshape make of an array, padding cut off.

    array    [[1, 2, 3], [4, 5, 6]]
    shape    (3, 2)
    gives    [[1, 2], [3, 4], [5, 6]]    the array in this shape
             [[1, 4], [2, 5], [3, 6]]    the array transposed

Either the axes of the array are transposed, or those of the shape, one of which may be split in two: ONNX Runtime
keeps the channels of an image in blocks, and fills up the last block with zeros. An order that no transposition
explains, such as that of a flip, is not among them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import permutations
from math import prod
from operator import ne
from typing import NamedTuple

import numpy as np

from pytest_hierexport._proof.tolerance import Array

_RANK = 6
"""The number of axes longer than 1 up to which transpositions are listed: 720 of them."""
_Shape = tuple[int, ...]


class Arrangement(NamedTuple):
    """A reshape, a transposition, another reshape, and a cut to the wanted shape."""

    sizes: _Shape
    axes: _Shape
    whole: _Shape
    shape: _Shape

    def of(self, array: Array) -> Array:
        """Return the elements of an array in this arrangement."""
        return np.asarray(self.transposed(array).reshape(self.whole)[tuple(map(slice, self.shape))])

    def transposed(self, array: Array) -> Array:
        """Return the elements of an array, in the order of this arrangement, without copying it."""
        return np.asarray(array.reshape(self.sizes).transpose(self.axes))


def may_hold(given: _Shape, shape: _Shape) -> bool:
    """Whether an array has as many elements as one of another shape, or the same axes, one of them longer.

    A padding along two axes is a node of a graph (the bottom and the right of an image), not a form of its input.
    """
    is_longer = len(given) == len(shape) and prod(given) > prod(shape)
    return prod(given) == prod(shape) or (is_longer and sum(map(ne, given, shape)) == 1)


@lru_cache(maxsize=64)
def arrangements(given: _Shape, shape: _Shape) -> tuple[Arrangement, ...]:
    """Return the arrangements in a shape of an array of the given shape, the array itself first."""
    whole = shape if prod(given) == prod(shape) else given
    listed = _arrangements(tuple(size for size in given if size > 1), whole)
    return tuple(dict.fromkeys(Arrangement(sizes, axes, whole, shape) for sizes, axes in listed))


@lru_cache(maxsize=64)
def sampled(given: _Shape, shape: _Shape, step: int) -> Array:
    """Return which elements of an array each arrangement puts at every `step`-th place, in a row each."""
    listed, places = arrangements(given, shape), np.arange(prod(given))
    wanted = places.reshape(listed[0].whole)[tuple(map(slice, shape))].ravel()[::step]
    return np.stack([each.transposed(places).flat[wanted] for each in listed])


def _arrangements(given: _Shape, whole: _Shape) -> Iterator[tuple[_Shape, _Shape]]:
    yield from ((given, axes) for axes in _orders(given))
    for sizes in _splits([size for size in whole if size > 1]):
        for axes in _orders(sizes):
            yield tuple(sizes[axis] for axis in axes), tuple(map(int, np.argsort(axes)))


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
