"""Takes example inputs in the forms that users write them in. Importing it imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def as_inputs(args: Any, kwargs: Mapping[str, Any] | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return inputs by position and by name; a bare tensor is the only one, a bare mapping has keyword inputs."""
    if isinstance(args, Mapping):
        return (), {**args, **(kwargs or {})}
    return (tuple(args) if isinstance(args, (tuple, list)) else (args,)), dict(kwargs or {})
