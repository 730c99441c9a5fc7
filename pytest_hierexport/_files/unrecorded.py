"""Marks the reads of files that no result depends on, for the cache that records reads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

paused: ContextVar[bool] = ContextVar("paused", default=False)


@contextmanager
def unrecorded() -> Iterator[None]:
    """Record nothing that this thread reads meanwhile: no result depends on it."""
    token = paused.set(True)
    try:
        yield
    finally:
        paused.reset(token)
