"""Makes and removes the run folder, which holds a run's temporary files.

    hierexport-RUN.lock   locked by the session, before the folder is made
    hierexport-RUN/       the exports, the second exports, the crashes, temporary files

A killed session cannot remove its run folder. The next session does: it acquires each lock that no process holds and
removes the folder beside it. A folder without a lock file of this form is not ours.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_hierexport._pytest.reads import unrecorded

if TYPE_CHECKING:
    from filelock import BaseFileLock

__all__ = ["RunFolder", "run_folder"]

_LOCK = re.compile(r"hierexport-[0-9a-f]{32}\.lock")


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
        # The cache's results depend on what the models read, not on what else lies in TMPDIR.
        with unrecorded():
            self._lock.acquire()
            # A warning about the cache may have made it already.
            path.mkdir(exist_ok=True)

    def pytest_unconfigure(self) -> None:
        """Remove the folder and its lock."""
        _remove(self.path, self._lock)

    @staticmethod
    def remove_dead(home: Path) -> None:
        """Remove the folders of sessions that ended without removing them; leave what cannot be removed."""
        with unrecorded():
            for file in home.glob("hierexport-*.lock"):
                # Somebody else's, one that is held, a file system without locks: none is ours to remove.
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
