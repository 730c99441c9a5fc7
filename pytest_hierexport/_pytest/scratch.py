"""Places a run's temporary files: chooses a temporary folder with room, and makes and removes the run folder in it.

    hierexport-RUN.lock   locked by the session, before the folder is made
    hierexport-RUN/       the exports, the second exports, the crashes, temporary files

A killed session cannot remove its run folder. The next session does: it acquires each lock that no process holds and
removes the folder beside it. A folder without a lock file of this form is not ours.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_hierexport._errors import UsageError
from pytest_hierexport._files.paths import absolute

if TYPE_CHECKING:
    from filelock import BaseFileLock

__all__ = ["RunFolder", "run_folder", "use_folder_with_room"]

ROOM = 16 * 1024 * 1024
"""The bytes that a run of small models needs at least."""
_LOCK = re.compile(r"hierexport-[0-9a-f]{32}\.lock")


def use_folder_with_room() -> str:
    """Choose the temporary folder of this process and of those that it starts.

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
    """Return the folder that Python chooses, which may have room for a few bytes only."""
    try:
        return tempfile.gettempdir()
    except FileNotFoundError:
        return None


def _has_room(folder: Path) -> bool:
    try:
        return os.access(folder, os.W_OK | os.X_OK) and shutil.disk_usage(folder).free >= ROOM
    except OSError:
        return False


def run_folder(run: str) -> Path:
    """Return the folder of a run with this id of 32 hexadecimal digits."""
    return Path(tempfile.gettempdir()) / f"hierexport-{run}"


class RunFolder:
    """The folder of a living session, which it removes at its end: a plugin of pytest."""

    def __init__(self, path: Path) -> None:
        """Lock and make the folder.

        Raises:
            OSError: It cannot be written.
        """
        self.path = path
        self._lock = _lock_of(path)
        self._lock.acquire()
        path.mkdir()

    def pytest_unconfigure(self) -> None:
        """Remove the folder and its lock."""
        _remove(self.path, self._lock)

    @staticmethod
    def remove_dead(home: Path) -> None:
        """Remove the folders of sessions that were killed, as far as that can be done."""
        for file in home.glob("hierexport-*.lock"):
            # Another user's file, a lock that is held, a file system without locks: none is ours to remove.
            with suppress(OSError, NotImplementedError):
                if _LOCK.fullmatch(file.name) and not file.is_symlink():
                    lock = _lock_of(file.with_suffix(""))
                    lock.acquire(timeout=0)
                    _remove(file.with_suffix(""), lock)


def _lock_of(folder: Path) -> BaseFileLock:
    from filelock import FileLock

    return FileLock(folder.with_suffix(".lock"))


def _remove(folder: Path, lock: BaseFileLock) -> None:
    if not folder.is_symlink():
        shutil.rmtree(folder, ignore_errors=True)
    lock.release()
    if not folder.exists():
        # No other run takes the same name, so the lock can go after its release.
        Path(lock.lock_file).unlink(missing_ok=True)
