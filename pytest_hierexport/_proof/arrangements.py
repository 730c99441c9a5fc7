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
from itertools import permutations

import numpy as np

from pytest_hierexport._proof.tolerance import Array

__all__ = ["arrangements"]

_RANK = 6
"""The number of axes longer than 1 up to which transpositions are listed."""


def arrangements(array: Array, shape: Sequence[int]) -> Iterator[Array]:
    """Yield the arrangements of an array's elements in a shape, the array itself first."""
    array = array.squeeze()
    for axes in _orders(array.shape):
        yield array.transpose(axes).reshape(shape)
    for sizes in _splits([size for size in shape if size > 1]):
        for axes in _orders(sizes):
            turned = array.reshape([sizes[axis] for axis in axes])
            yield turned.transpose(np.argsort(axes)).reshape(shape)


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
