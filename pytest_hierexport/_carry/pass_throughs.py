"""Finds operations that pass a value through unchanged, by trial on random numbers.

An optimizer drops such operations: a Cast to the type that was there, a Transpose and its inverse. The consumers then
take an ancestor of the value that they took; but so does a consumer that absorbed an operation by fusion. On random
numbers the two differ. No list of operators could tell them apart.
"""

from __future__ import annotations

import math
from collections.abc import Container, Hashable, Iterator
from typing import Any

import numpy as np

from pytest_hierexport._carry.constants import array_of, evaluate
from pytest_hierexport._carry.flat import Flat, Node, Value
from pytest_hierexport._carry.tensors import TENSOR

__all__ = ["PassThroughs"]

_MOST_NODES = 32
_MOST_NUMBERS = 1 << 16
_SIZES = (3, 5, 7, 2, 11, 13)
"""What symbolic sizes are taken for, each symbol another."""
_UPSTREAM = 2
"""How many operations before the first are computed too: `Relu` changes no number that `Relu` gave."""
_SCALES = (3.0, 0.1, 1e8, 1e-15)
"""Large numbers hide what is added to them, or saturate a softmax; small ones stay inside every bound."""
_NEAR = 4
"""How many operations an optimizer drops at once."""


class PassThroughs:
    """Tries the operations of one graph, equal ones once."""

    def __init__(self, flat: Flat) -> None:
        """Try operations of this graph."""
        self._flat = flat
        self._tried: dict[Hashable, bool | None] = {}

    def found(self, names_after: Container[str]) -> Iterator[tuple[Value, Value]]:
        """Yield each value that equals an ancestor of its own, with that ancestor.

        Values whose names are in the graph after are left out, unless such a lost value was computed from them: of a
        chain of inverse operations an optimizer may drop any two.
        """
        tried: set[Value] = set()
        for value in self._flat.producer:
            lost = value.varying and value.leaf is None and value.name and value.name not in names_after
            pending = [value] if lost else []
            for each in pending:
                if each in tried:
                    continue
                tried.add(each)
                source = next((near for near in self._ancestors(each) if self.is_unchanged(near, each)), None)
                if source is not None:
                    yield each, source
                    operands = self._flat.producer[each].operands
                    pending += [value for value in operands if value.varying and value in self._flat.producer]

    def _ancestors(self, value: Value) -> Iterator[Value]:
        """Yield the ancestors of the value's type that few operations lie between, the nearest first.

        torch does not know the type of every value before it optimizes: of such a value, yield its direct operands.
        """
        typed = value.dtype is not None and value.shape is not None
        level, seen = [value], {value}
        for _ in range(_NEAR if typed else 1):
            producers = (self._flat.producer.get(each) for each in level)
            passed = (node for node in producers if node is not None and not _takes_weight(node))
            level = [operand for node in passed for operand in node.operands if operand.varying]
            level = [operand for operand in dict.fromkeys(level) if operand not in seen]
            seen.update(level)
            yield from (each for each in level if _may_equal(each, value) and (typed or _is_sized(each)))

    def is_unchanged(self, source: Value, value: Value) -> bool | None:
        """Whether `value`, which is computed from `source`, equals it; None where that cannot be tried."""
        found = self._try(source, value, 0)
        if found is False and self._repeats(source, value):
            return self._try(source, value, _UPSTREAM) is True
        return found

    def _repeats(self, source: Value, value: Value) -> bool:
        """Whether the operation that gives the value also ran just before the source: the second may be idempotent."""
        producers, level = [self._flat.producer.get(value)], [source]
        for _ in range(_UPSTREAM):
            before = [node for node in map(self._flat.producer.get, level) if node is not None]
            producers += before
            level = [operand for node in before for operand in node.operands]
        operators = [node.operator for node in producers if node is not None]
        return operators[0] in operators[1:]

    def _try(self, source: Value, value: Value, upstream: int) -> bool | None:
        trial = _Trial(self._flat, source, value, upstream)
        if trial.key not in self._tried:
            self._tried[trial.key] = trial.run()
        return self._tried[trial.key]


def _may_equal(operand: Value, value: Value) -> bool:
    """Whether the type of an operand is that of a value, as far as the value's is known."""
    return value.dtype in (None, operand.dtype) and value.shape in (None, operand.shape)


def _is_sized(value: Value) -> bool:
    """Whether all sizes are numbers: a trial says nothing about symbols."""
    return value.shape is not None and all(isinstance(size, int) for size in value.shape)


class _Trial:
    """The operations between two values, some before the first, and the values that these take from outside."""

    def __init__(self, flat: Flat, source: Value, value: Value, upstream: int) -> None:
        self.flat, self.source, self.value = flat, source, value
        self.given: dict[Value, int] = {}
        self.found: set[Node] = set()
        self._collect_between()
        self._collect_upstream(upstream)
        self.nodes = sorted(self.found, key=flat.order.__getitem__)
        self.key = self._key()

    def _collect_between(self) -> None:
        """Collect the nodes that compute the value's elements, up to the source and to a bound."""
        pending = [self.value]
        for value in pending:
            producer = self._producer(value)
            if value is self.source or producer in self.found:
                continue
            if producer is None or len(self.found) == _MOST_NODES:
                self._give(value)
                continue
            self.found.add(producer)
            data = list(producer.data_operands)
            pending.extend(data)
            self._give(*(operand for operand in producer.operands if operand not in data))

    def _collect_upstream(self, levels: int) -> None:
        level = [self.source]
        for _ in range(levels):
            producers = [None if node is None or _takes_weight(node) else node for node in map(self._producer, level)]
            self._give(*(value for value, node in zip(level, producers, strict=True) if node is None))
            self.found.update(node for node in producers if node is not None)
            level = [operand for node in producers if node is not None for operand in node.operands]
        self._give(*level)

    def _producer(self, value: Value) -> Node | None:
        return None if value.leaf is not None else self.flat.producer.get(value)

    def _give(self, *values: Value) -> None:
        self.given.update({value: len(self.given) + i for i, value in enumerate(values) if value not in self.given})

    def _key(self) -> Hashable:
        """Return what equal trials have in common."""
        places: dict[Value | None, Hashable] = {None: None}
        places.update(self.given.items())
        for i, node in enumerate(self.nodes):
            places.update((output, (i, j)) for j, output in enumerate(node.outputs))
        steps = tuple((n.operator, n.attributes, tuple(places[value] for value in n.inputs)) for n in self.nodes)
        given = tuple((value.dtype, value.shape, value.leaf) for value in self.given)
        return given, steps, places[self.source], places[self.value]

    def run(self) -> bool | None:
        """Return whether the two values are equal at every scale; None where some scale does not tell."""
        if any(map(_takes_weight, self.nodes)):
            return None
        tells = True
        for scale in _SCALES:
            equal = self._run_at(scale)
            # Most operations change something, and the first numbers show it.
            if equal is False:
                return False
            tells = tells and equal is not None
        return True if tells else None

    def _run_at(self, scale: float) -> bool | None:
        try:
            with np.errstate(all="ignore"):
                source, value = self._compute(scale)
        except Exception:  # noqa: BLE001 onnx's reference raises anything for what it cannot compute
            return None
        if source.dtype != value.dtype or source.shape != value.shape:
            return False
        return bool(np.array_equal(source, value)) if _tells(source) else None

    def _compute(self, scale: float) -> tuple[Any, Any]:
        random, sizes = np.random.default_rng(0), dict[str, int]()
        arrays = {value: _array(value, random, sizes, scale) for value in self.given}
        for node in self.nodes:
            if not node.pure:
                raise ValueError(f"{node.key} computes something else each time")
            inputs = [None if value is None else arrays[value] for value in node.inputs]
            arrays.update(zip(node.outputs, evaluate(node, inputs, self.flat.opsets), strict=True))
        return arrays[self.source], arrays[self.value]


def _takes_weight(node: Node) -> bool:
    """Whether the node takes a tensor too large to be known by its content: a weight changes what it meets."""
    return any(value.tensor is not None and not _is_content(value) for value in node.operands)


def _is_content(value: Value) -> bool:
    return isinstance(value.leaf, tuple) and value.leaf[0] == TENSOR


def _tells(numbers: Any) -> bool:
    """Whether numbers show what happens to them: many operations leave a constant, or NaN, as it is."""
    floating = numbers.astype(np.float64)
    different = np.unique(floating[np.isfinite(floating)]).size
    return not np.isnan(floating).any() and (different > 1 or (different == numbers.size == 1))


def _array(value: Value, random: np.random.Generator, sizes: dict[str, int], scale: float) -> Any:
    """Return the content of a constant, or random numbers of the value's type; integers are always of one scale."""
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
