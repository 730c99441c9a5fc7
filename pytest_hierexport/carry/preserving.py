"""Whether operations hand a value on unchanged: tried on numbers, since no list of operators could say it.

A consumer that now reads an ancestor of what it read may have lost a no-op in between (a cast to the type that was
there, two transposes), or have taken in an operation that it absorbs (`Relu` after `Relu`). On random numbers the
two come apart.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any

import numpy as np

from pytest_hierexport.carry.constants import SHAPE_ALONE, array_of, evaluate
from pytest_hierexport.carry.flat import TENSOR, Flat, Node, Value

__all__ = ["Preserving"]

_MOST_NODES = 32
_MOST_NUMBERS = 1 << 20
_SIZES = (3, 5, 7, 2, 11, 13)  # what sizes without a number are taken for, each another


class Preserving:
    """Tries the operations of one graph, equal ones once."""

    def __init__(self, flat: Flat) -> None:
        """Try operations of this graph."""
        self._flat = flat
        self._found: dict[Hashable, bool] = {}

    def holds(self, source: Value, value: Value) -> bool:
        """Whether `value`, which is computed from `source`, is the same; also where that cannot be tried."""
        trial = _Trial(self._flat, source, value)
        if trial.key not in self._found:
            self._found[trial.key] = trial.run()
        return self._found[trial.key]


class _Trial:
    """The operations between two values, and what else they read."""

    def __init__(self, flat: Flat, source: Value, value: Value) -> None:
        self.flat, self.source, self.value = flat, source, value
        self.nodes: list[Node] = []
        self.given: dict[Value, int] = {source: 0}
        self._collect()
        made = {output: (i, j) for i, node in enumerate(self.nodes) for j, output in enumerate(node.outputs)}
        self.key: Hashable = (
            tuple(_type(leaf) for leaf in self.given),
            tuple(
                (n.operator, n.attributes, tuple(v and (made.get(v) or self.given.get(v)) for v in n.inputs))
                for n in self.nodes
            ),
            made.get(value),
        )

    def _collect(self) -> None:
        """Walk back from the value, not past the source, nor past a shape, nor too far."""
        found: dict[Node, None] = {}
        at = [self.value]
        for value in at:
            maker = self.flat.maker.get(value)
            if value is self.source or value in self.given or maker in found:
                continue
            if maker is None or value.leaf is not None or len(found) == _MOST_NODES:
                self.given[value] = len(self.given)
                continue
            found[maker] = None
            if maker.operator in SHAPE_ALONE:
                self.given.update((v, len(self.given)) for v in maker.reads if v not in self.given)
            else:
                at.extend(maker.reads)
        self.nodes = sorted(found, key=self.flat.order.__getitem__)

    def run(self) -> bool:
        try:
            before, after = self._compute()
        except Exception:  # noqa: BLE001 what onnx's reference cannot compute on these numbers cannot be tried
            return True
        return bool(before.dtype == after.dtype and before.shape == after.shape and _equal(before, after))

    def _compute(self) -> tuple[Any, Any]:
        random, sizes = np.random.default_rng(0), dict[str, int]()
        arrays = {value: _array(value, random, sizes) for value in self.given}
        for node in self.nodes:
            if not node.repeatable:
                raise ValueError(f"{node.key} computes something else each time")
            given = [None if value is None else arrays[value] for value in node.inputs]
            arrays.update(zip(node.outputs, evaluate(node, given, self.flat.opsets), strict=True))
        return arrays[self.source], arrays[self.value]


def _type(value: Value) -> Hashable:
    return (value.dtype, value.shape, value.leaf)


def _equal(a: Any, b: Any) -> bool:
    return bool(np.all((a == b) | ((a != a) & (b != b))))  # noqa: PLR0124 not a number is not itself


def _array(value: Value, random: np.random.Generator, sizes: dict[str, int]) -> Any:
    """Return what a value holds, or random numbers of its type."""
    if isinstance(value.leaf, tuple) and value.leaf[0] == TENSOR:
        return array_of(value.leaf)
    if value.tensor is not None:
        return value.tensor.numpy()
    if value.shape is None or value.dtype is None:
        raise ValueError(f"the type of {value.name} is not known")
    shape = [_size(dim, sizes) for dim in value.shape]
    if math.prod(shape) > _MOST_NUMBERS:
        raise ValueError(f"{value.name} is too large to try")
    dtype = value.dtype.numpy()
    numbers = random.standard_normal(shape) * 3
    return (numbers > 0) if dtype == np.bool_ else numbers.astype(dtype)


def _size(dim: int | str | None, sizes: dict[str, int]) -> int:
    if isinstance(dim, int):
        return dim
    if dim is None:
        raise ValueError("a size is not known")
    return sizes.setdefault(dim, _SIZES[len(sizes) % len(_SIZES)])
