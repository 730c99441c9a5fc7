"""Lists folders, and remembers the names in those that have not changed since."""

from __future__ import annotations

import os
import time

_SETTLED = 2.0
"""The age in seconds from which a change of a folder cannot be hidden by a coarse clock of its file system."""
_known: dict[str, tuple[tuple[int, int, int], tuple[str, ...]]] = {}


def names_in(folder: str | os.PathLike[str]) -> tuple[str, ...]:
    """Return the names in a folder, in no order; none where it cannot be listed.

    The time at which a folder changed tells whether a list of its names still holds, unless that was just now.
    """
    path = os.fspath(folder)
    try:
        status = os.stat(path)  # noqa: PTH116  # called for every folder that every cached result depends on
        state = status.st_dev, status.st_ino, status.st_mtime_ns
        known = _known.get(path)
        if known is not None and known[0] == state:
            return known[1]
        names = tuple(os.listdir(path))  # noqa: PTH208  # as above
    except (OSError, ValueError):
        return ()
    if status.st_mtime < time.time() - _SETTLED:
        _known[path] = state, names
    return names
