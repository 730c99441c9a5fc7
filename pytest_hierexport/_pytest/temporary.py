"""The folder for temporary files: the one that was asked for, or else one that has room."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from pytest_hierexport._errors import UsageError
from pytest_hierexport._files.paths import absolute

__all__ = ["use_folder_with_room"]

ROOM = 16 * 1024 * 1024
"""The bytes that a run needs at the least, its models being small."""


def use_folder_with_room() -> str:
    """Choose the folder for temporary files of this process and of those that it starts.

    Returns:
        A warning where it is not the folder that was asked for, else the empty text.

    Raises:
        UsageError: No folder has room.
    """
    usual = _usual()
    asked = absolute(os.environ.get("TMPDIR") or usual or "/tmp")  # noqa: S108  # where Unix has it
    folders = [Path(folder) for folder in (usual, "/tmp", "/var/tmp", Path.cwd()) if folder is not None]  # noqa: S108
    chosen = next((folder for folder in folders if _has_room(folder)), None)
    if chosen is None:
        raise UsageError(
            f"a folder for temporary files that can be written, with {ROOM >> 20} MiB of room",
            found=f"none among {', '.join(map(str, dict.fromkeys((asked, *folders))))}",
            do="make room, or name another folder with the environment variable TMPDIR",
        )
    if chosen == asked:
        return ""
    tempfile.tempdir = os.environ["TMPDIR"] = str(chosen)
    return f"{asked} has no room or cannot be written: temporary files go to {chosen}"


def _usual() -> str | None:
    """Return the folder that Python takes, which holds a few bytes at the least."""
    try:
        return tempfile.gettempdir()
    except FileNotFoundError:
        return None


def _has_room(folder: Path) -> bool:
    try:
        return os.access(folder, os.W_OK | os.X_OK) and shutil.disk_usage(folder).free >= ROOM
    except OSError:
        return False
