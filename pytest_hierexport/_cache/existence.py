"""Tells of each question whether a file or a folder exists.

    if Path("override.yaml").exists():        asked now: nothing is there
        options |= load("override.yaml")      later: a new override.yaml, a file

No audit event tells of such a question: the functions of `os.path` and the methods of `Path` are replaced.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from pytest_hierexport._cache.loading import trimmed

_QUESTIONS = ((os.path, ("exists", "lexists", "isfile", "isdir")), (Path, ("exists", "is_file", "is_dir")))


def watch_existence(asked: Callable[[object, FrameType], None]) -> None:
    """Call a function with the path of each question from now on, and the frame of the code that asks."""
    for owner, names in _QUESTIONS:
        for name in names:
            told = _telling(getattr(owner, name), asked)
            # pickle looks for a function by its names and must find this one: `exists` is one of `genericpath`.
            told.__module__ = getattr(owner, "__module__", owner.__name__)
            told.__qualname__ = f"{owner.__name__}.{name}" if isinstance(owner, type) else name
            setattr(owner, name, told)


def _telling(ask: Callable[..., bool], asked: Callable[[object, FrameType], None]) -> Callable[..., bool]:
    def tell_and_ask(*args: Any, **named: Any) -> bool:
        __tracebackhide__ = True  # the outermost frame remains; pytest leaves it out
        asked(next(iter((*args, *named.values())), None), sys._getframe(1))
        return ask(*args, **named)

    told: Callable[..., bool] = functools.wraps(ask)(trimmed(tell_and_ask))
    return told


def kind_of(path: str) -> str:
    """Return what is at a path now: `folder`, `file`, or the empty text for nothing."""
    return "folder" if os.path.isdir(path) else "file" * os.path.isfile(path)  # noqa: PTH112, PTH113  # fast
