"""Reduces a tensor to a fingerprint of bounded size, by which tensors of two runs are compared.

A fingerprint holds what must agree exactly (dtype, shape, integers, the places of NaN and infinity) as a digest, and
the floating numbers as they are; of a tensor of more than 16,384 numbers, as many weighted sums.

That of an array is given by :func:`fingerprint`, that of a tensor of torch by `tensors.fingerprint_of`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import ml_dtypes  # it tells numpy the names of its dtypes
import numpy as np

from pytest_hierexport._proof.tolerance import Array, is_floating

KEPT = 1 << 14
"""How many numbers of a tensor are kept as they are; a larger one is reduced to this many weighted sums."""
_SAMPLE = 64
"""How many numbers are compared first: most tensors differ in these already."""
_SATURATED = 0.25
"""The share of a dtype's largest number from which on a number counts as saturated: masks are filled with such, and a
sum over them would hide all others."""


@dataclass(frozen=True, slots=True, eq=False)
class Fingerprint:
    """What is kept of a tensor."""

    key: tuple[str, tuple[int, ...], bytes]
    """Dtype, shape, and a digest of what must agree exactly: every element of an integer or boolean tensor, the
    places of NaN, infinities and saturated numbers of a floating one."""
    numbers: Array | None
    """The floating numbers, or their weighted sums; None for integers and booleans."""
    constant: bool
    """Whether all elements are equal, so that many computations would give the tensor."""
    sample: Array | None = None
    """Of the floating numbers, each `step_of(size)`-th as it is."""
    power: float = 0.0
    """The sum of the squares of the floating numbers, the same for every arrangement of them."""
    quantized: bool = False
    """Whether these are the integers of a quantized tensor."""

    def digest(self) -> bytes:
        """Return bytes that are equal only for fingerprints whose numbers are all equal."""
        numbers = b"" if self.numbers is None else self.numbers.tobytes()
        return _digest(repr(self.key).encode() + numbers)

    @property
    def dtype(self) -> str:
        """The dtype's name, the same for torch and numpy: `float32`, `bfloat16`, `int64`, `bool`."""
        return self.key[0]

    @property
    def shape(self) -> tuple[int, ...]:
        """The tensor's shape."""
        return self.key[1]


def fingerprint(array: Array, precision: str = "") -> Fingerprint:
    """Return the fingerprint of an array.

    Args:
        array: The elements.
        precision: The floating dtype that those of any floating dtype are rounded to; empty: each keeps its own.
    """
    dtype = array.dtype.name
    if not is_floating(dtype):
        return Fingerprint((dtype, array.shape, _digest(array.tobytes())), None, _all_equal(array.ravel()))
    dtype = precision or dtype
    numbers = _as_numbers(array, dtype)
    constant = _all_equal(numbers) or bool(np.isnan(numbers[0]) and np.isnan(numbers).all())
    if numbers.size == 1:
        constant = float(numbers[0]) in (0.0, 1.0, -1.0)
    ordinary, places = _ordinary(numbers, dtype, precision)
    with np.errstate(over="ignore"):
        power = float(np.dot(ordinary, ordinary))
    # The addition copies the array and makes every zero positive.
    sample = ordinary[:: step_of(array.size)].copy()
    return Fingerprint((dtype, array.shape, places), _reduced(ordinary) + 0, constant, sample, power)


def step_of(size: int) -> int:
    """Return the step between the numbers of a sample of a tensor of this size."""
    return 1 + size // _SAMPLE


def ordinary_numbers(array: Array, precision: str = "") -> Array:
    """Return the elements of a floating array as a fingerprint compares them."""
    dtype = precision or array.dtype.name
    return _ordinary(_as_numbers(array, dtype), dtype, precision)[0].reshape(array.shape)


def _as_numbers(array: Array, dtype: str) -> Array:
    with np.errstate(over="ignore"):  # the lowest number of float64, by which masks are filled
        return array.ravel().astype(np.float64 if dtype == "float64" else np.float32, copy=False)


def _ordinary(numbers: Array, dtype: str, precision: str) -> tuple[Array, bytes]:
    ordinary, places = _without_special(numbers, dtype)
    if precision:
        # A tensor and its cast are one value.
        ordinary = ordinary.astype(precision).astype(np.float32)
    return ordinary, places


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def _all_equal(data: Array) -> bool:
    # Most tensors differ in the few numbers that are compared first.
    return not data.size or all(bool((part == data[0]).all()) for part in (data[:: step_of(data.size)], data))


def _without_special(numbers: Array, dtype: str) -> tuple[Array, bytes]:
    """Replace NaN, infinities and saturated numbers by 0; return a digest of the places of each kind as well."""
    limit = _SATURATED * _largest(dtype)
    # Two numbers tell it of most tensors, without an array of the same size. A comparison with NaN is false.
    if not numbers.size or (-limit < numbers.min() and numbers.max() < limit):
        return numbers, b""
    with np.errstate(invalid="ignore"):
        ordinary = np.abs(numbers) < limit
    kinds = np.where(np.isfinite(numbers), np.sign(numbers), np.nan_to_num(numbers, nan=2, posinf=3, neginf=-3))
    return np.where(ordinary, numbers, numbers.dtype.type(0)), _digest(np.where(ordinary, 0, kinds).tobytes())


@cache
def _largest(dtype: str) -> float:
    info: Any = ml_dtypes.finfo  # it knows numpy's dtypes too
    return float(info(np.dtype(dtype)).max)


def _reduced(numbers: Array) -> Array:
    """Return the numbers of a small tensor, weighted sums over those of a large one."""
    if numbers.size <= KEPT:
        return numbers
    rows, rest = divmod(numbers.size, KEPT)
    weights = _row_weights(rows + 1, numbers.dtype.name)
    sums: Array = weights[:rows] @ numbers[: rows * KEPT].reshape(rows, KEPT)
    sums[:rest] += weights[rows] * numbers[rows * KEPT :]
    return np.asarray(sums / np.sqrt(rows), numbers.dtype)


@lru_cache(maxsize=256)
def _row_weights(rows: int, dtype: str) -> Array:
    """Return weights of either sign, all different, so that an exchange of elements changes a sum."""
    generator = np.random.default_rng(rows)
    weights: Array = generator.uniform(0.5, 1.5, rows) * generator.choice([-1, 1], rows)
    return weights.astype(dtype)
