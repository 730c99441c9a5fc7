"""Defines an example: a model with the inputs to run it on, and the forms in which factories may return one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

__all__ = ["Example", "parts_of"]

_PARTS = ("model", "args", "kwargs", "dynamic_shapes")


@dataclass
class Example:
    """A model and its example inputs."""

    model: torch.nn.Module
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    dynamic_shapes: Any = None
    """As for `torch.onnx.export`; a plain dict of input name to dimension names is enough."""
    notes: tuple[str, ...] = ()
    """What the user should know of the example, such as that its inputs were guessed."""


def parts_of(made: object) -> dict[str, Any]:
    """Return the parts of a factory's result by name; empty for a result of no known form."""
    if isinstance(made, Example):
        return {name: getattr(made, name) for name in _PARTS}
    if isinstance(made, Mapping):
        return dict(made) if set(made) <= set(_PARTS) else {}
    if isinstance(made, (tuple, list)):
        return dict(zip(_PARTS, made, strict=False)) if 1 <= len(made) <= len(_PARTS) else {}
    return {"model": made}
