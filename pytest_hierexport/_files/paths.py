"""Files: their digests, and the folder for temporary ones."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

__all__ = [
    "absolute",
    "digest",
    "exists",
    "is_folder",
    "keep_temporary_files_in",
    "temporary_folder",
    "temporary_home",
]

_CHUNK = 1 << 20


def absolute(path: str | os.PathLike[str]) -> Path:
    """Return the path from the root, links not followed: this is how pytest compares paths."""
    return Path(os.path.abspath(path))  # noqa: PTH100  # Path.resolve follows links


def exists(path: Path) -> bool:
    """Whether there is such a file or folder; none has a name that is too long or holds a null character."""
    return os.path.exists(path)  # noqa: PTH110  # Path.exists raises for such names


def is_folder(path: Path) -> bool:
    """Whether there is such a folder; see :func:`exists`."""
    return os.path.isdir(path)  # noqa: PTH112  # Path.is_dir raises for such names


def digest(path: Path) -> str:
    """Return the SHA-256 of a file's content, the empty text for one that cannot be read."""
    summed = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                summed.update(chunk)
    except OSError:
        return ""
    return summed.hexdigest()


def keep_temporary_files_in(folder: Path | None) -> Path | None:
    """Set the folder for temporary files of this process, None for the system's; return the one before."""
    global _temporary_home  # what needs a temporary file knows nothing of the run that it serves
    before, _temporary_home = _temporary_home, folder
    return before


def temporary_home() -> Path | None:
    """Return the folder for temporary files of this process, None for the system's."""
    return _temporary_home


def temporary_folder() -> tempfile.TemporaryDirectory[str]:
    """Return a context that makes a folder and removes it.

    Where a process is killed, whoever owns the folder around it removes it: see :func:`keep_temporary_files_in`.
    """
    return tempfile.TemporaryDirectory(prefix="hierexport-", dir=_temporary_home)


_temporary_home: Path | None = None
