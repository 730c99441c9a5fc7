"""Makes temporary folders, in a place with room, that are removed after use."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from pytest_hierexport._errors import UsageError
from pytest_hierexport._files.paths import absolute

ROOM = 16 * 1024 * 1024
"""The bytes that a run with small models needs."""
RUN_FOLDER = re.compile(r"hierexport-[0-9a-f]{32}(\.lock)?")
"""The name of the folder of a run's temporary files, and of its lock."""

_home: Path | None = None


def keep_temporary_files_in(folder: Path | None) -> Path | None:
    """Set the folder for temporary files of this process, None for the system's; return the one before."""
    global _home  # code that needs a temporary file does not know the run
    before, _home = _home, folder
    return before


def temporary_home() -> Path | None:
    """Return the folder for temporary files of this process, None for the system's."""
    return _home


def temporary_folder() -> tempfile.TemporaryDirectory[str]:
    """Return a context that makes a folder in the :func:`temporary_home` and removes it."""
    return tempfile.TemporaryDirectory(prefix="hierexport-", dir=_home)


def use_folder_with_room() -> str:
    """Choose the folder for temporary files of this process and of those that it starts.

    Returns:
        A warning where it is not the folder that was asked for, else the empty text.

    Raises:
        UsageError: No folder has room.
    """
    default = None
    with suppress(FileNotFoundError):  # Python finds none that it can write
        default = tempfile.gettempdir()
    asked = absolute(os.environ.get("TMPDIR") or default or "/tmp")  # noqa: S108  # where Unix has it
    folders = [Path(folder) for folder in (default, "/tmp", "/var/tmp", Path.cwd()) if folder is not None]  # noqa: S108
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


def _has_room(folder: Path) -> bool:
    try:
        return os.access(folder, os.W_OK | os.X_OK) and shutil.disk_usage(folder).free >= ROOM
    except OSError:
        return False
