"""Files: their digests, and writing one whole or not at all."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

__all__ = ["absolute", "digest", "write_atomically"]

_CHUNK = 1 << 20


def absolute(path: str | os.PathLike[str]) -> Path:
    """Return the path from the root, links not followed: this is how pytest compares paths."""
    return Path(os.path.abspath(path))  # noqa: PTH100  # Path.resolve follows links


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


def write_atomically(path: Path, text: str) -> None:
    """Write a file so that a reader sees all of it or what stood there before."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink()
        raise
