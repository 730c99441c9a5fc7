"""Holds tensors: in memory up to a bound, in files beyond it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import numpy as np

from pytest_hierexport._proof.session import BUDGET
from pytest_hierexport._proof.tolerance import Array

KeyT = TypeVar("KeyT")


class Arrays(Mapping[KeyT, Array]):
    """Tensors by key; what exceeds the bound is in files, which are mapped when read."""

    def __init__(self, folder: Path, budget: int = BUDGET) -> None:
        """Hold nothing yet."""
        self._folder, self._left = folder, budget
        self._arrays: dict[KeyT, Array] = {}

    def add(self, key: KeyT, array: Array) -> None:
        """Keep a copy of a tensor, unless the key has one."""
        if key in self._arrays:
            return
        self._left -= array.nbytes
        if self._left >= 0 or not array.size:
            self._arrays[key] = np.array(array)
            return
        path = self._folder / str(len(self._arrays))
        held = np.memmap(path, array.dtype, "w+", shape=array.shape or (1,))
        held[...] = array
        self._arrays[key] = np.memmap(path, array.dtype, "r", shape=array.shape or (1,)).reshape(array.shape)

    def __getitem__(self, key: KeyT) -> Array:
        """Return the tensor of a key."""
        return self._arrays[key]

    def __iter__(self) -> Iterator[KeyT]:
        """Iterate over the keys."""
        return iter(self._arrays)

    def __len__(self) -> int:
        """Count the tensors."""
        return len(self._arrays)
