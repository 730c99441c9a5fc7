"""Numbers the values of the eager run, and finds the numbers that a tensor of the graph may have.

Two tensors of the eager run have one number only where all their elements are equal. A tensor of the graph may equal
several of them within the tolerance of its dtype. The rest of the proof compares numbers.

    eager run   add(h) = 0    add(h * 1.05) = 1    add(k) = 2
    graph       find(h * 1.000001) = {0}           find(k + 1) = {}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from pytest_hierexport._proof.fingerprints import Fingerprint
from pytest_hierexport._proof.tolerance import Array, scale, tolerance_of

__all__ = ["Candidates", "Values"]

Candidates = tuple[frozenset[int], ...]
"""The numbers that a value of the graph may have; of a sequence, those of each tensor."""

COARSEST = 1e-2
"""The largest tolerance, relative to magnitude, that a finer dtype gets in the coarser retry."""
_HARDLY = 0.02
"""The distance, as a share of the tolerance, within which values are not distinguished."""
_TIMES = 4.0
"""How many times as far as the nearest value another may lie and still be a candidate. Without these two, two near
values of random architectures are distinguished by rounding errors alone (seeds 91 and 179 of the benchmark)."""
_MEANS = 1e-6
"""The relative rounding error of a weighted mean."""


@dataclass
class Values:
    """The values of a run.

    Args:
        tolerances: Relative tolerances by dtype, in place of the dtype's own.
        coarseness: The factor on the dtypes' own tolerances; the product is at most `COARSEST`.
    """

    tolerances: Mapping[str, float] = field(default_factory=dict)
    coarseness: float = 1
    _numbers: dict[bytes, int] = field(default_factory=dict)
    _fingerprints: list[Fingerprint] = field(default_factory=list)
    _buckets: dict[tuple[str, tuple[int, ...], bytes], _Bucket] = field(default_factory=dict)
    _shapes: set[tuple[str, tuple[int, ...]]] = field(default_factory=set)

    def __getitem__(self, number: int) -> Fingerprint:
        """Return the fingerprint of a value."""
        return self._fingerprints[number]

    def add(self, found: Fingerprint) -> int:
        """Return the number of a value of the first run, a new one unless an equal value was added before."""
        digest = found.digest()
        if digest not in self._numbers:
            number = self._numbers[digest] = len(self._fingerprints)
            self._fingerprints.append(found)
            self._shapes.add((found.dtype, found.shape))
            self._buckets.setdefault(found.key, _Bucket()).add(number, found)
        return self._numbers[digest]

    def find(self, found: Fingerprint, inherited: float = 0) -> frozenset[int]:
        """Return the numbers of the nearest value within the tolerance and of those hardly farther.

        Args:
            found: The fingerprint of a tensor of another run.
            inherited: The relative tolerance of what it was computed from, where that is larger than its own.
        """
        bucket = self._buckets.get(found.key)
        return frozenset() if bucket is None else bucket.find(found, max(inherited, self.tolerance(found.dtype)))

    def distance(self, found: Fingerprint, numbers: Iterable[int]) -> float:
        """Return how far a tensor lies from the nearest of these values; 0 where there are none."""
        bucket = self._buckets.get(found.key)
        return 0.0 if bucket is None or found.numbers is None else bucket.distance(found.numbers, numbers)

    def tolerance(self, dtype: str) -> float:
        """Return how far two equal values of a dtype may lie apart, relative to their magnitude."""
        own = tolerance_of(dtype)
        return self.tolerances.get(dtype, max(own, min(own * self.coarseness, COARSEST)))

    def has_shape(self, dtype: str, shape: tuple[int, ...]) -> bool:
        """Whether a value of this dtype and shape was added."""
        return (dtype, shape) in self._shapes


@dataclass
class _Bucket:
    """The values of one dtype, shape and exact part; a weighted mean selects those that are worth a comparison."""

    _members: dict[int, tuple[Array, Array]] = field(default_factory=dict)
    """The floating numbers and their scale, by number."""
    _exact: list[int] = field(default_factory=list)
    _means: list[float] = field(default_factory=list)
    _scales: list[float] = field(default_factory=list)

    def add(self, number: int, found: Fingerprint) -> None:
        if found.numbers is None:
            self._exact.append(number)
            return
        scales = scale(found.numbers)
        self._members[number] = found.numbers, scales
        self._means.append(_mean(found.numbers))
        self._scales.append(float(scales.mean()) if scales.size else 0.0)

    def find(self, found: Fingerprint, tolerance: float) -> frozenset[int]:
        if found.numbers is None:
            return frozenset(self._exact)
        apart = np.abs(np.array(self._means) - _mean(found.numbers))
        # The weights of the mean are 1.5 at most; the rest is for its own rounding.
        near = apart <= 1.6 * (tolerance + _MEANS) * np.array(self._scales)
        members = (number for number, is_near in zip(self._members, near, strict=True) if is_near)
        distances = {number: self.distance(found.numbers, [number]) for number in members}
        limit = min(tolerance, max(_HARDLY * tolerance, _TIMES * min(distances.values(), default=0.0)))
        return frozenset(number for number, distance in distances.items() if distance <= limit)

    def distance(self, numbers: Array, members: Iterable[int]) -> float:
        pairs = (self._members[member] for member in members)
        return min((float(np.max(np.abs(own - numbers) / scales, initial=0.0)) for own, scales in pairs), default=0.0)


def _mean(numbers: Array) -> float:
    return float(np.dot(numbers, _weights(numbers.size, numbers.dtype.name)) / max(numbers.size, 1))


@lru_cache(maxsize=256)
def _weights(size: int, dtype: str) -> Array:
    return np.random.default_rng(size).uniform(0.5, 1.5, size).astype(dtype)
