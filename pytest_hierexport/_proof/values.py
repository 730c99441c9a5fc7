"""Numbers the values of the eager run, and finds the numbers that a tensor of the graph may have.

Two tensors of the eager run have one number only where all their elements are equal. A tensor of the graph may equal
several of them within the tolerance of its dtype. The rest of the proof compares numbers, which
:meth:`Values.add` and :meth:`Values.find` give.

    eager run   add(h) = 0    add(h * 1.05) = 1    add(k) = 2
    graph       find(h * 1.000001) = {0}           find(k + 1) = {}
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import compress
from math import prod

import numpy as np

from pytest_hierexport._proof.arrangements import Arrangement, arrangements, may_hold, sampled
from pytest_hierexport._proof.directions import told_apart
from pytest_hierexport._proof.fingerprints import Fingerprint, fingerprint, ordinary_numbers, step_of
from pytest_hierexport._proof.tolerance import Array, distances, gaps, is_floating, scale, tolerance_of

Candidates = tuple[frozenset[int], ...]
"""The numbers that a value of the graph may have; of a sequence, those of each tensor."""

COARSEST = 1e-2
"""The largest tolerance, relative to magnitude, that a finer dtype gets, in the coarser retry or as errors grow."""
_HARDLY = 0.02
"""The distance, as a share of the tolerance, within which values are not distinguished."""
_TIMES = 4.0
"""How many times as far as the nearest value another may lie and still be a candidate. Without these two, two near
values of random architectures are distinguished by rounding errors alone (seeds 91 and 179 of the benchmark). Were all
within the tolerance candidates, a residual stream in bfloat16 would be the same before and after a small layer."""


@dataclass(frozen=True)
class _Value:
    """A value of the eager run."""

    number: int
    fingerprint: Fingerprint
    scales: Array
    """The magnitude that the distance from each of its numbers is relative to."""

    @property
    def numbers(self) -> Array:
        """The numbers of a floating tensor: others are not compared by them."""
        assert self.fingerprint.numbers is not None, "a floating tensor has numbers"  # noqa: S101
        return self.fingerprint.numbers

    def distance(self, numbers: Array, step: int = 1) -> float:
        """Return how far the numbers of another tensor lie from these; of each `step` numbers the first counts."""
        return float(gaps(self.numbers[::step], numbers[::step], self.scales[::step]).max(initial=0.0))


@dataclass
class Values:
    """The values of a run.

    Args:
        tolerances: Relative tolerances by dtype, in place of the dtype's own.
        coarseness: The factor on the dtypes' own tolerances; the product is at most `COARSEST`.
        precision: The floating dtype that tensors of any floating dtype are rounded to; empty: each keeps its own.
        bounds: Values whose measured rounding error exceeds the tolerance, each with how far an equal one may lie.
    """

    tolerances: Mapping[str, float] = field(default_factory=dict)
    coarseness: float = 1
    precision: str = ""
    bounds: Mapping[int, float] = field(default_factory=dict)
    quantized: set[int] = field(default_factory=set)
    """The values that are integers of quantized tensors."""
    _numbers: dict[bytes, int] = field(default_factory=dict)
    _values: list[_Value] = field(default_factory=list)
    _equal: dict[object, list[_Value]] = field(default_factory=lambda: defaultdict(list))
    """The values by all that must agree exactly."""
    _shapes: set[tuple[str, tuple[int, ...]]] = field(default_factory=set)

    def __getitem__(self, number: int) -> Fingerprint:
        """Return the fingerprint of a value."""
        return self._values[number].fingerprint

    @property
    def digests(self) -> tuple[bytes, ...]:
        """What tells the values of one run from those of another, in the order of their numbers."""
        return tuple(self._numbers)

    def add(self, found: Fingerprint) -> int:
        """Return the number of a value of the first run, a new one unless an equal value was added before."""
        number = self._numbers.setdefault(found.digest(), len(self._values))
        if number == len(self._values):
            value = _Value(number, found, scale(np.empty(0) if found.numbers is None else found.numbers))
            self._values.append(value)
            self._equal[found.key].append(value)
            self._shapes.add((found.dtype, found.shape))
            if found.quantized:
                self.quantized.add(number)
        return number

    def find(self, found: Fingerprint, inherited: float = 0) -> frozenset[int]:
        """Return the numbers of the nearest value within the tolerance and of those hardly farther.

        Args:
            found: The fingerprint of a tensor of another run.
            inherited: The relative tolerance of what it was computed from, where that is larger than its own.
        """
        equal = self._equal.get(found.key, [])
        if found.numbers is None:
            return frozenset(value.number for value in equal)
        tolerance = max(inherited, self.tolerance(found.dtype))
        within = {value.number: max(tolerance, self.bounds.get(value.number, 0.0)) for value in equal}
        step = step_of(found.numbers.size)
        near = (value for value in equal if value.distance(found.numbers, step) <= within[value.number])
        measured = ((value.number, value.distance(found.numbers)) for value in near)
        apart = {number: distance for number, distance in measured if distance <= within[number]}
        limit = max(_HARDLY * tolerance, _TIMES * min(apart.values(), default=0.0))
        chosen = {number: self._values[number] for number, distance in apart.items() if distance <= limit}
        if not self.bounds or len(chosen) < 2:  # nothing to tell apart
            return frozenset(chosen)
        return frozenset(told_apart({n: (value.numbers, value.scales) for n, value in chosen.items()}, found.numbers))

    def find_rearranged(self, array: Array, inherited: float = 0) -> frozenset[int]:
        """Return the numbers of the values that an array is a transposition of, or is in another shape, or both.

        Integers and booleans are taken as they are: too many of the same size hold the same numbers.
        """
        own = self.fingerprint(array)
        found = self.find(own, inherited)
        if own.numbers is None or not array.size:
            return found
        tolerance = max(inherited, self.tolerance(own.dtype))
        waiting: dict[tuple[int, ...], dict[int, float]] = defaultdict(dict)
        for value in self._values:
            other = value.fingerprint
            like = other.dtype == own.dtype and may_hold(array.shape, other.shape)
            within = max(tolerance, self.bounds.get(value.number, 0.0))
            # Of padding with zeros, the sum of the squares is the same.
            if like and value.number not in found and abs(other.power - own.power) <= _TIMES * within * other.power:
                waiting[other.shape][value.number] = within
        for shape, within_of in waiting.items():
            left = set(within_of)
            for arrangement in self._agreeing(array, shape, within_of):
                left -= self.find(self.fingerprint(arrangement.of(array)), inherited)
                if not left:
                    break
            found |= within_of.keys() - left
        return found

    def _agreeing(self, array: Array, shape: tuple[int, ...], within: Mapping[int, float]) -> Iterator[Arrangement]:
        """Yield the arrangements of an array in a shape that agree with a value of this shape in a sample."""
        places = sampled(array.shape, shape, step_of(prod(shape)))
        samples = ordinary_numbers(array.ravel()[places], self.precision)
        agrees = np.zeros(len(places), bool)
        for number, most in within.items():
            own = self._values[number].fingerprint.sample
            assert own is not None, "floating tensors alone are arranged"  # noqa: S101
            agrees |= distances(own, samples).max(axis=1, initial=0.0) <= _TIMES * most
        yield from compress(arrangements(array.shape, shape), agrees)

    def distance(self, found: Fingerprint, numbers: Iterable[int]) -> float:
        """Return how far a tensor lies from the nearest of these values that has its shape; 0 where none has."""
        if found.numbers is None:
            return 0.0
        like = (self._values[number] for number in numbers if self[number].shape == found.shape)
        return min((value.distance(found.numbers) for value in like), default=0.0)

    def tolerance(self, dtype: str) -> float:
        """Return how far two equal values of a dtype may lie apart, relative to their magnitude."""
        dtype = self._taken_for(dtype)
        own = tolerance_of(dtype)
        return self.tolerances.get(dtype, max(own, min(own * self.coarseness, COARSEST)))

    def has_shape(self, dtype: str, shape: tuple[int, ...]) -> bool:
        """Whether a value of this dtype and shape was added."""
        return (self._taken_for(dtype), shape) in self._shapes

    def fingerprint(self, array: Array) -> Fingerprint:
        """Return the fingerprint by which a tensor is added or found."""
        return fingerprint(array, self.precision)

    def _taken_for(self, dtype: str) -> str:
        return self.precision if self.precision and is_floating(dtype) else dtype
