"""The processes that a test starts: to interrupt them, and to see that none is left."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["carrying", "interruptible"]


@contextmanager
def interruptible() -> Iterator[None]:
    """Take SIGINT, and let processes that are started meanwhile take it.

    A shell starts what runs in the background with SIGINT ignored, and so do its children.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def carrying(mark: str) -> list[str]:
    """Return the commands of the processes with a mark in their environment; none where the system does not tell."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found
