"""Replaces attributes, such as functions of torch, for the time of an export."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any

ONE_AT_A_TIME = RLock()
"""Held while functions of torch are replaced: otherwise a thread could restore another thread's replacement."""


@contextmanager
def replaced(holder: Any, name: str, value: Any) -> Iterator[None]:
    """Set an attribute while the context lasts."""
    original = getattr(holder, name)
    setattr(holder, name, value)
    try:
        yield
    finally:
        setattr(holder, name, original)
