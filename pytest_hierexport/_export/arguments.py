"""Splits example inputs, as users write them, into positional and keyword inputs. Importing it imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def as_inputs(args: Any, kwargs: Mapping[str, Any] | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the positional and the keyword inputs.

    `args` is a tuple or list of positional inputs, a mapping of keyword inputs, or a single input.
    """
    if isinstance(args, Mapping):
        return (), {**args, **(kwargs or {})}
    return (tuple(args) if isinstance(args, (tuple, list)) else (args,)), dict(kwargs or {})
