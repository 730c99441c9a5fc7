"""Makes and removes the run folder, which holds a run's temporary files.

    hierexport-RUN.lock   locked by the session, before the folder is made
    hierexport-RUN/       the exports, the second exports, the crashes, what hangs, temporary files

A killed session cannot remove its run folder. The next session does: it acquires each lock that no process holds and
removes the folder beside it. A folder without a lock file of this form is not ours.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

from pytest_hierexport._files.temporary import RUN_FOLDER


class RunFolder:
    """The run folder of a session, which removes it at its end: a plugin of pytest."""

    def __init__(self, path: Path) -> None:
        from filelock import FileLock

        self.path = path
        self._lock = FileLock(path.with_suffix(".lock"))

    def make(self) -> None:
        """Lock and make the folder.

        Raises:
            OSError: It cannot be written.
        """
        self._lock.acquire()
        # A warning about the cache may have made it already.
        self.path.mkdir(exist_ok=True)

    def remove(self) -> None:
        """Remove the folder and its lock."""
        if not self.path.is_symlink():
            shutil.rmtree(self.path, ignore_errors=True)
        self._lock.release()
        if not self.path.exists():
            # No other run takes the same name, so the lock can go after its release.
            Path(self._lock.lock_file).unlink(missing_ok=True)

    pytest_unconfigure = remove

    @staticmethod
    def remove_dead(home: Path) -> None:
        """Remove the folders of sessions that ended without removing them; leave what cannot be removed."""
        for file in home.glob("hierexport-*.lock"):
            # Somebody else's, one that is held, a file system without locks: none is ours to remove.
            with suppress(OSError, NotImplementedError):
                if RUN_FOLDER.fullmatch(file.name) and not file.is_symlink():
                    dead = RunFolder(file.with_suffix(""))
                    dead._lock.acquire(timeout=0)
                    dead.remove()
