"""Tells values apart that lie nearer to each other than rounding errors are large, by the direction of the errors.

    values   h = [1, 1, 1, 1, …]    g = [1.1, 0.9, 1.1, 0.9, …]
    tensor   [1.1, 1.1, 0.9, 0.9, …]    as far from `h` as `g` is, but off the way from `h` to `g`
    yields   `h` where these have 160 elements; `h` and `g` where they have 80, too few to know the share of the way

Errors as large as the difference of two values hardly ever point from one to the other, so the share of the way on
which a tensor lies is known better than its distance from either: a linear discriminant (Fisher, 1936). The residual
stream of a mixture of experts needs it, before and after the experts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import sqrt

import numpy as np

from pytest_hierexport._proof.tolerance import Array

_MIDWAY = 0.5
_DEVIATIONS = 6.0
"""A tensor is not the farther of two values if this many standard deviations of independent errors do not move it half
the way there."""


def told_apart(values: Mapping[int, tuple[Array, Array]], tensor: Array) -> Iterator[int]:
    """Yield the numbers of those values that a tensor may be.

    Args:
        values: Near values by their number, each with the magnitudes that distances from its numbers are relative to.
        tensor: A tensor with rounding errors.
    """
    errors = {number: _relative(tensor - value, scale) for number, (value, scale) in values.items()}
    powers = {number: float(error @ error) for number, error in errors.items()}
    nearest = min(powers, key=powers.__getitem__)
    origin, scale = values[nearest]
    for number, (value, _) in values.items():
        way = _relative(value - origin, scale)
        length = float(way @ way)
        if number == nearest or not length:  # the length is no number where sums of large numbers are infinite
            yield number
            continue
        share, deviation = float(errors[nearest] @ way) / length, sqrt(powers[nearest] / length / tensor.size)
        if share + _DEVIATIONS * deviation >= _MIDWAY:
            yield number


def _relative(difference: Array, scale: Array) -> Array:
    return np.asarray(difference / scale, np.float64)
