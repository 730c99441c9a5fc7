"""Tells the commit of a folder."""

from __future__ import annotations

import subprocess
from pathlib import Path

__all__ = ["commit"]

_SECONDS = 10


def commit(folder: Path) -> str:
    """Return the commit that is checked out, with `-dirty` where files that git knows differ from it.

    Empty outside a repository, without git, or where git takes too long.
    """
    command = ["git", "-C", str(folder), "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty"]
    try:
        ended = subprocess.run(  # noqa: S603  # fixed words and a folder
            command, capture_output=True, text=True, check=True, timeout=_SECONDS, stdin=subprocess.DEVNULL
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return ""
    return ended.stdout.strip()
