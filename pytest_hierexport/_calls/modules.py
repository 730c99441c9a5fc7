"""Holds the module instances that a model declares, called or not, with their parameters and buffers.

path             class            parameters and buffers
""               m.Net
layers.0.linear  torch.nn.Linear  weight (4, 4), bias (4)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

_MOST_ELEMENTS = 2**63 - 1
"""ONNX and torch count the elements of a tensor in 64 bits."""


def element_count(shape: Iterable[int]) -> int:
    """Return the number of elements of a tensor of that shape.

    Raises:
        ValueError: A dimension is negative, or the elements exceed 64 bits.
    """
    # Sorted, so that a 0 comes before a product of more digits than memory.
    count = 1
    for dimension in sorted(shape):
        if dimension < 0:
            raise ValueError("a negative dimension")
        count *= dimension
        if count > _MOST_ELEMENTS:
            raise ValueError("a shape of more than 2**63 - 1 elements")
    return count


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter or buffer, as the module that owns it declares it."""

    name: str
    """The encoded attribute name within its module."""
    shape: tuple[int, ...]
    dtype: str
    trainable: bool
    """True for a parameter, False for a buffer."""
    shared: str | None = None
    """The dotted name under which the model declares the same tensor first; None for that declaration itself."""


@dataclass(frozen=True, slots=True)
class Module:
    """A module instance of the model, called or not."""

    path: str
    cls: str
    parameters: tuple[Parameter, ...] = ()
    shared: str | None = None
    """The path under which the model declares the same instance first; None for that declaration itself."""

    def __repr__(self) -> str:
        """Return the instance's path, its class and the number of its parameters and buffers."""
        return f"<module {self.path!r} of {self.cls}, {len(self.parameters)} parameters and buffers>"
