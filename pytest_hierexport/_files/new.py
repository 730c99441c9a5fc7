"""Writes files that are not there yet, and never one that is."""

from __future__ import annotations

from pathlib import Path

__all__ = ["write_new"]


def write_new(path: Path, text: str) -> bool:
    """Write a text file, with the folders above it; return whether it is new.

    Raises:
        OSError: It cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except FileExistsError:
        return False
    return True
