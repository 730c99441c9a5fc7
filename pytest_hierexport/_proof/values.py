"""Which tensors of two runs are the same value, within the rounding of their dtype.

Every tensor is seen as a :class:`Snapshot`, whose size is bounded however large the tensor is. :class:`Values` numbers
the values of one run, the same only where every element is, and finds the numbers that a tensor of another run may
stand for. Everything else in the proof compares numbers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["COARSEST", "Array", "Shown", "Snapshot", "Values", "relative_tolerance", "snapshot"]

Array = NDArray[Any]
Shown = tuple[frozenset[int], ...]
"""The numbers that a value of a graph may stand for; of a sequence, those of each tensor."""

KEPT = 1 << 14
"""How many numbers of a tensor are kept as they are; a larger one is folded to this many weighted sums."""

_TOLERANCES = {"float64": 1e-5, "float32": 1e-4, "float16": 1e-2, "bfloat16": 5e-2}
_COARSE = 1e-1
"""For the floating dtypes of 8 bits and fewer."""
_SATURATED = 0.25
"""The share of a dtype's largest number from which on a number stands for infinity, as masks use it."""
_SMALL = 0.75
"""The quantile of a tensor's magnitudes by which the tolerance near zero is set: rounding errors are as large as
the numbers that were added up, and a mask's few huge numbers must not hide the others."""
_HARDLY = 0.02
"""The distance, as a share of the tolerance, within which nothing is told apart."""
_TIMES = 4.0
"""How many times as far as the nearest value another may lie and still be meant: two kernels' rounding errors."""


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """What is kept of a tensor."""

    key: tuple[str, tuple[int, ...], bytes]
    """Dtype, shape, and a digest of what must agree exactly: every element of an integer or boolean tensor, the
    places of NaN, infinities and saturated numbers of a floating one."""
    numbers: Array | None
    """The floating numbers, or their weighted sums; None for integers and booleans."""
    constant: bool
    """Whether all elements are one and the same, so that the tensor says nothing of how it was made."""

    def digest(self) -> bytes:
        """Return what differs between two snapshots with any different number at all."""
        numbers = b"" if self.numbers is None else self.numbers.tobytes()
        return hashlib.blake2b(repr(self.key).encode() + numbers, digest_size=16).digest()

    @property
    def dtype(self) -> str:
        """The dtype's name, the same for torch and numpy: `float32`, `bfloat16`, `int64`, `bool`."""
        return self.key[0]

    @property
    def shape(self) -> tuple[int, ...]:
        """The tensor's shape."""
        return self.key[1]


def relative_tolerance(dtype: str) -> float:
    """Return how far two equal values of a dtype may lie apart, relative to their magnitude, unless told otherwise."""
    return _TOLERANCES.get(dtype, _COARSE) if _is_floating(dtype) else 0.0


def snapshot(array: Array, dtype: str = "") -> Snapshot:
    """Return what is kept of an array.

    Args:
        array: The elements; a dtype that numpy lacks comes as a wider one.
        dtype: The name of the dtype that the elements came from; empty for the array's own.
    """
    dtype = dtype or array.dtype.name
    if not _is_floating(dtype):
        data = np.ascontiguousarray(array).reshape(-1)
        digest = hashlib.blake2b(data.view(np.uint8).data, digest_size=16).digest()
        return Snapshot((dtype, array.shape, digest), None, _is_constant(data, integral=True))
    plain = np.float64 if dtype == "float64" else np.float32
    work = np.ascontiguousarray(array, dtype=plain).ravel()
    constant = _is_constant(work, integral=False)
    ordinary, places = _without_special(work, dtype)
    # Adding nought makes a copy, and noughts of one sign.
    return Snapshot((dtype, array.shape, places), _fold(ordinary) + 0, constant)


def _is_floating(dtype: str) -> bool:
    return dtype.startswith(("float", "bfloat"))


def _is_constant(data: Array, *, integral: bool) -> bool:
    if data.size < 2:
        return integral or data.size == 0 or float(data[0]) in (0.0, 1.0, -1.0)
    few = slice(None, None, max(1, data.size // 16))
    return all(_all_the_same(part, integral=integral) for part in (data[few], data))


def _all_the_same(data: Array, *, integral: bool) -> bool:
    return bool((data == data[0]).all() or (not integral and np.isnan(data).all()))


def _without_special(work: Array, dtype: str) -> tuple[Array, bytes]:
    """Put 0 in the place of NaN, infinities and saturated numbers; return a digest of where each kind stood as well."""
    limit = _SATURATED * _largest(dtype)
    with np.errstate(invalid="ignore"):
        # NaN is below and above nothing.
        if not work.size or (work.max() < limit and work.min() > -limit):
            return work, b""
        ordinary = np.abs(work) < limit
    kinds = np.zeros(work.shape, np.uint8)
    kinds[~ordinary] = 1
    kinds[work >= limit] = 2
    kinds[work <= -limit] = 3
    kinds[np.isnan(work)] = 4
    kinds[np.isposinf(work)] = 5
    kinds[np.isneginf(work)] = 6
    return np.where(ordinary, work, 0).astype(work.dtype), hashlib.blake2b(kinds.data, digest_size=16).digest()


@cache
def _largest(dtype: str) -> float:
    import ml_dtypes

    info = np.finfo if dtype in ("float16", "float32", "float64") else ml_dtypes.finfo
    return float(info(np.dtype(dtype)).max)


def _fold(work: Array) -> Array:
    """Return the numbers of a small tensor, weighted sums over a large one's: equal tensors, equal sums."""
    if work.size <= KEPT:
        return work
    rows, rest = divmod(work.size, KEPT)
    weights = _summands(rows + 1, work.dtype.name)
    sums: Array = weights[:rows] @ work[: rows * KEPT].reshape(rows, KEPT)
    sums[:rest] += weights[rows] * work[rows * KEPT :]
    return np.asarray(sums / np.sqrt(rows), work.dtype)


@lru_cache(maxsize=256)
def _summands(rows: int, dtype: str) -> Array:
    """Weights of either sign and all different, so that no exchange of elements leaves every sum as it was."""
    generator = np.random.default_rng(rows)
    weights: Array = generator.uniform(0.5, 1.5, rows) * generator.choice([-1, 1], rows)
    return weights.astype(dtype)


COARSEST = 1e-2
"""How far equal values of a finer dtype may lie apart at most, relative to their magnitude, however rounding grew."""


class Values:
    """Numbers the values of a run and finds them again in another.

    Args:
        tolerances: Relative tolerances by dtype, before the dtype's own.
        coarseness: How many times as far as their dtype's own says equal values may lie apart, up to `COARSEST`.
    """

    def __init__(self, tolerances: Mapping[str, float] | None = None, coarseness: float = 1) -> None:
        """Begin with no value."""
        self._tolerances = dict(tolerances or {})
        self._coarseness = coarseness
        self._numbers: dict[bytes, int] = {}
        self._buckets: dict[tuple[str, tuple[int, ...], bytes], _Bucket] = {}
        self._shapes: set[tuple[str, tuple[int, ...]]] = set()
        self._snapshots: list[Snapshot] = []

    def __getitem__(self, number: int) -> Snapshot:
        """Return the snapshot of a value."""
        return self._snapshots[number]

    def add(self, shown: Snapshot) -> int:
        """Return the number of a value of the first run: that of the very same value, where it was added before."""
        digest = shown.digest()
        if digest not in self._numbers:
            number = self._numbers[digest] = len(self._snapshots)
            self._snapshots.append(shown)
            self._shapes.add((shown.dtype, shown.shape))
            self._buckets.setdefault(shown.key, _Bucket()).add(number, shown)
        return self._numbers[digest]

    def find(self, shown: Snapshot, rounding: float = 0) -> frozenset[int]:
        """Return the numbers of the values that a tensor of another run may stand for.

        That is the nearest that lies within the tolerance, and those that lie hardly farther.

        Args:
            shown: The tensor.
            rounding: The relative tolerance of what it was computed from, where that is larger than its own.
        """
        bucket = self._buckets.get(shown.key)
        return frozenset() if bucket is None else bucket.find(shown, max(rounding, self.tolerance(shown.dtype)))

    def distance(self, shown: Snapshot, numbers: Iterable[int]) -> float:
        """Return how far a tensor lies from the nearest of the values found for it; 0 where there are none."""
        bucket = self._buckets.get(shown.key)
        return 0.0 if bucket is None else bucket.distance(shown, numbers)

    def tolerance(self, dtype: str) -> float:
        """Return how far two equal values of a dtype may lie apart, relative to their magnitude."""
        own = relative_tolerance(dtype)
        return self._tolerances.get(dtype, max(own, min(own * self._coarseness, COARSEST)))

    def has_shape(self, dtype: str, shape: tuple[int, ...]) -> bool:
        """Whether a value of this dtype and shape was added at all."""
        return (dtype, shape) in self._shapes


@dataclass(frozen=True, slots=True)
class _Member:
    """A value of a bucket."""

    number: int
    numbers: Array
    floor: float
    """A magnitude below which numbers are compared as if they had it."""

    @classmethod
    def of(cls, number: int, numbers: Array) -> _Member:
        magnitudes = np.abs(numbers[numbers != 0])
        return cls(number, numbers, float(np.quantile(magnitudes, _SMALL)) if magnitudes.size else 1.0)

    def magnitudes(self) -> Array:
        """Return what the distance of each number to another tensor's is relative to."""
        return np.asarray(np.abs(self.numbers) + self.floor)

    def distance(self, numbers: Array) -> float:
        """Return the largest relative distance of a number to another tensor's."""
        return float(np.max(np.abs(self.numbers - numbers) / self.magnitudes(), initial=0.0))


class _Bucket:
    """The values of one dtype, shape and exact part, found by a weighted mean before they are compared."""

    def __init__(self) -> None:
        self._exact: list[int] = []
        self._members: list[_Member] = []
        self._places: dict[int, int] = {}
        self._means: list[float] = []
        self._magnitudes: list[float] = []

    def add(self, number: int, shown: Snapshot) -> None:
        if shown.numbers is None:
            self._exact.append(number)
            return
        member = _Member.of(number, shown.numbers)
        self._places[number] = len(self._members)
        self._members.append(member)
        self._means.append(_mean(shown.numbers))
        self._magnitudes.append(float(member.magnitudes().mean()) if shown.numbers.size else 0.0)

    def find(self, shown: Snapshot, tolerance: float) -> frozenset[int]:
        if shown.numbers is None:
            return frozenset(self._exact)
        apart = np.abs(np.array(self._means) - _mean(shown.numbers))
        # The weights of the mean are 1.5 at most; the rest is for its own rounding.
        near = apart <= 1.6 * (tolerance + _MEANS) * np.array(self._magnitudes)
        members = [self._members[i] for i in np.flatnonzero(near)]
        distances = {member.number: member.distance(shown.numbers) for member in members}
        limit = min(tolerance, max(_HARDLY * tolerance, _TIMES * min(distances.values(), default=0.0)))
        return frozenset(number for number, distance in distances.items() if distance <= limit)

    def distance(self, shown: Snapshot, numbers: Iterable[int]) -> float:
        if shown.numbers is None:
            return 0.0
        members = (self._members[self._places[number]] for number in numbers)
        return min((member.distance(shown.numbers) for member in members), default=0.0)


_MEANS = 1e-6
"""The relative rounding error of a weighted mean."""


def _mean(numbers: Array) -> float:
    return float(np.dot(numbers, _weights(numbers.size, numbers.dtype.name)) / max(numbers.size, 1))


@lru_cache(maxsize=256)
def _weights(size: int, dtype: str) -> Array:
    return np.random.default_rng(size).uniform(0.5, 1.5, size).astype(dtype)
