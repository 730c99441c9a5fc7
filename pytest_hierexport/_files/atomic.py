"""Writes files so that each place has its old content or all of the new, also after a crash."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from pytest_hierexport._errors import ExportError
from pytest_hierexport._files.paths import absolute
from pytest_hierexport._files.unrecorded import unrecorded

try:
    import fcntl
except ImportError:  # Windows, where no folder can be locked: what a killed process left there stays
    fcntl = None  # type: ignore[assignment]

STAGED = ".hierexport-staged-"
"""The beginning of the names of folders for files that are not yet in their place."""
_cleared: set[Path] = set()
"""The folders in which this process has looked for what others left."""


@dataclass(frozen=True)
class Staged:
    """A private folder in the target, whose files are moved into the target."""

    folder: Path
    target: Path

    def land(self, names: Sequence[str]) -> None:
        """Move the staged files into the target, one by one in this order; a name may be a path in a folder.

        All are flushed to the disk before the first moves, and each move is flushed before the next. So a crash leaves
        each place with its old or its new file, and never a later file without those before it.
        """
        for name in names:
            file, place = self.folder / name, self.target / name
            if place.is_dir():
                raise IsADirectoryError(errno.EISDIR, "a folder is in the way", str(place))
            if place.is_file():
                shutil.copymode(place, file)
            _to_disk(file)
        for name in names:
            place = self.target / name
            place.parent.mkdir(parents=True, exist_ok=True)
            os.replace(self.folder / name, place)  # noqa: PTH105 - the call that is atomic, by its name
            _to_disk(place.parent)


@contextmanager
def staging(target: Path) -> Iterator[Staged]:
    """Give a folder for files that go into the folder `target`; files that were not moved are removed.

    The folder is locked, so that others know that it is in use: those that a killed process left are removed as well.

    Raises:
        OSError: The folder does not exist or cannot be written, or a file could not be; the error names the folder.
    """
    _remove_abandoned(absolute(target))
    try:
        while True:
            with tempfile.TemporaryDirectory(prefix=STAGED, dir=target) as made, locked(folder := Path(made)):
                if folder.is_dir():  # else another process found it before it was locked
                    yield Staged(folder, target)
                    return
    except OSError as error:
        if STAGED not in str(error.filename):
            raise
        # The staging folder is gone when the user reads its name.
        raise OSError(error.errno, error.strerror, str(target)) from error


@unrecorded()
def _remove_abandoned(target: Path) -> None:
    """Remove the staging folders of processes that ended without that, once per process and folder."""
    if target in _cleared:
        return
    _cleared.add(target)
    with suppress(OSError), os.scandir(target) as entries:
        for entry in entries:
            if not entry.name.startswith(STAGED) or not entry.is_dir(follow_symlinks=False):
                continue
            with locked(Path(entry), wait=False) as is_ours:
                if is_ours:
                    shutil.rmtree(entry, ignore_errors=True)


@contextmanager
def locked(folder: Path, *, wait: bool = True) -> Iterator[bool]:
    """Keep out other processes that lock a folder; give whether it could be locked."""
    is_ours = False
    with ExitStack() as stack:
        # It may be gone, another's, held, or on a file system without locks.
        with suppress(OSError):
            if fcntl is not None:
                descriptor = os.open(folder, os.O_RDONLY)
                stack.callback(os.close, descriptor)
                fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
                is_ours = True
        yield is_ours


def write_atomically(path: Path, text: str) -> None:
    """Write a text file so that other processes see the old content or all of the new.

    A link belongs to the user: what it leads to is replaced, not the link.

    Raises:
        OSError: It cannot be written; the old file is unchanged.
    """
    path = Path(os.path.realpath(path))
    with staging(path.parent) as stage:
        (stage.folder / path.name).write_text(text, encoding="utf-8", newline="\n")
        stage.land([path.name])


def write_new(path: Path, text: str) -> bool:
    """Write a text file, with the folders above it, where there is none; return whether it is new.

    Raises:
        OSError: It cannot be written; no part of it is left.
        UnicodeEncodeError: UTF-8 cannot encode the text; nothing is made.
    """
    content = text.encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        file = path.open("xb")
    except FileExistsError:
        return False
    try:
        with file:
            file.write(content)
    except BaseException:
        path.unlink()
        raise
    return True


@contextmanager
def staged(path: Path) -> Iterator[Staged]:
    """As :func:`staging`, for the files at and beside `path`, with an error for the user.

    Raises:
        ExportError: The folder of `path` does not exist or cannot be written, a file could not be, or it is a folder.
    """
    try:
        if not path.name:
            raise IsADirectoryError(errno.EISDIR, "a folder is in the way", str(path))
        with staging(path.parent) as stage:
            yield stage
    except OSError as error:
        raise ExportError(
            f"to write {path}",
            found=f"{error.strerror or error}: {error.filename or path.parent}",
            do="create the folder, make it writable and see that the disk has room, or choose another path",
        ) from error


def _to_disk(path: Path) -> None:
    """Flush a file's content, or a folder's entries, to the disk."""
    if path.is_dir() and os.name != "posix":
        return  # only POSIX opens folders
    descriptor = os.open(path, os.O_RDONLY if os.name == "posix" else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
