"""Names the stages of the work on a model, so that a model that hangs can be said to hang in one.

with stage("checking MUST-007"):
    with stage("building the model"):
        ...  # listeners are told ("checking MUST-007", "building the model")
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

LOADING = "importing torch"
WAITING = "waiting for another process, which exports it"
IDLE = frozenset({LOADING, WAITING})
"""The stages that are no work of this process on a model."""
Stages = tuple[str, ...]
"""The open stages, the innermost last."""

_open: ContextVar[Stages] = ContextVar("_open", default=())
_listeners: list[Callable[[Stages], None]] = []


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Name what this thread does meanwhile; also a decorator."""
    token = _open.set((*_open.get(), name))
    try:
        _tell()
        yield
    finally:
        _open.reset(token)
        _tell()


def load_torch() -> None:
    """Import torch, in a stage of its own where it was not imported before."""
    if "torch" not in sys.modules:
        with stage(LOADING):
            importlib.import_module("torch")


@contextmanager
def listening(listener: Callable[[Stages], None]) -> Iterator[None]:
    """Call a function with the open stages whenever these change."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def _tell() -> None:
    for listener in _listeners:
        listener(_open.get())
