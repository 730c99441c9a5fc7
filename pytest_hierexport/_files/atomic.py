"""Files that land whole or not at all."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pytest_hierexport._errors import ExportError

__all__ = ["Staged", "staged", "staging", "write_atomically"]


class Staged:
    """A private folder beside the place where files shall land, on the same file system."""

    def __init__(self, folder: Path, target: Path) -> None:
        """Stage files in `folder` for `target`."""
        self.folder = folder
        self._target = target

    def land(self, names: Sequence[str]) -> None:
        """Move the staged files to their places, one by one in this order.

        Each is on the disk before the first one moves, and has moved on the disk before the next one does: a
        crash at any point leaves each place with its old file or its new one, and the places in this order.
        """
        for name in names:
            if (self._target / name).is_dir():
                raise IsADirectoryError(errno.EISDIR, "a folder is in the way", str(self._target / name))
            if (self._target / name).is_file():
                shutil.copymode(self._target / name, self.folder / name)
            _to_disk(self.folder / name)
        for name in names:
            os.replace(self.folder / name, self._target / name)  # noqa: PTH105 - the call that is atomic, by its name
            _to_disk(self._target)


@contextmanager
def staging(target: Path) -> Iterator[Staged]:
    """Give a place to write files that belong into the folder `target`; whatever has not landed is removed.

    Raises:
        OSError: The folder does not exist or cannot be written, or a file could not be.
    """
    with tempfile.TemporaryDirectory(prefix=".hierexport-", dir=target) as folder:
        yield Staged(Path(folder), target)


def write_atomically(path: Path, text: str) -> None:
    """Write a text file so that a reader sees all of it or what stood there before.

    Raises:
        OSError: It cannot be written; what stood there is left as it was.
    """
    with staging(path.parent) as stage:
        (stage.folder / path.name).write_text(text, encoding="utf-8", newline="\n")
        stage.land([path.name])


@contextmanager
def staged(path: Path) -> Iterator[Staged]:
    """Give a place to write the files that belong at and beside `path`; whatever has not landed is removed.

    Raises:
        ExportError: The folder of `path` does not exist or cannot be written, or a file could not be.
    """
    try:
        with staging(path.parent) as stage:
            yield stage
    except OSError as error:
        raise ExportError(
            f"to write {path}",
            found=f"{error.strerror or error}: {error.filename or path.parent}",
            do="create the folder, make it writable and see that the disk has room, or choose another path",
        ) from error


def _to_disk(path: Path) -> None:
    """Wait until a file's content, or a folder's entries, are on the disk."""
    if path.is_dir() and os.name != "posix":
        return  # only POSIX opens folders
    descriptor = os.open(path, os.O_RDONLY if os.name == "posix" else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
