"""Checks and writes the files that a run puts where the user says: reports, the summary, the cache's folder."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from pytest_hierexport._errors import UsageError
from pytest_hierexport._files.atomic import staging, write_atomically
from pytest_hierexport._files.ownership import GENERATOR, ForeignFileError
from pytest_hierexport._files.paths import absolute, exists, is_folder
from pytest_hierexport._files.unrecorded import unrecorded

_MARK = re.compile(rf"\bgenerat(?:or|edBy)\W+(?:content\W+)?{GENERATOR}\b")
_HEAD = 300
"""The number of characters at the beginning of a file that are searched for its mark."""


def check_output(path: Path) -> None:
    """Raise a UsageError, before the run, where an output cannot be written, or a file of the user's is in its way."""
    real = Path(os.path.realpath(path))
    above = next(parent for parent in real.parents if exists(parent))
    try:
        # A name may be too long for the file system, and its folder one that cannot be searched.
        for name in real.relative_to(above).parts:
            with suppress(FileNotFoundError, NotADirectoryError):
                (above / name).lstat()
    except OSError as error:
        raise _refused(path, error.strerror or str(error), "name another file") from None
    if path.is_dir():
        raise _refused(path, "a folder")
    if not above.is_dir():
        raise _refused(path, f"a file, {above}, in the place of a folder")
    if _is_foreign(path):
        raise _refused(path, "a file that pytest-hierexport did not write")
    if not _is_stream(path) and not os.access(above, os.W_OK | os.X_OK):
        raise _refused(path, f"a folder that cannot be written, {above}", "make that folder writable, or name another")


def check_different(paths: Iterable[Path]) -> None:
    """Raise a UsageError where two outputs have one path: the one would replace the other."""
    counted = Counter(Path(os.path.realpath(path)) for path in paths)
    for path, count in counted.items():
        if count > 1 and not _is_stream(path):
            raise UsageError("a file of its own for each output", found=f"{count} at {path}", do="name another file")


@unrecorded()
def check_folder(folder: Path) -> None:
    """Raise a UsageError where a folder for the cache neither exists nor can be made; one that can be read will do."""
    if is_folder(folder):
        return
    above = next(each for each in (folder, *folder.parents) if os.path.lexists(each))
    try:
        with staging(above) as stage:
            (stage.folder / folder.relative_to(above)).mkdir(parents=True)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        found = f"{folder}: {reason}" if is_folder(above) else f"a file, {above}"
        raise UsageError("a folder for the cache that can be written", found=found, do="name another folder") from None


def write_output(path: Path, text: str) -> None:
    """Write a new file, or replace one that an earlier run wrote.

    A pipe, a terminal and the summary of a GitHub step, which all commands of the step share, are appended to.

    Raises:
        ForeignFileError: A file of the user's has this path.
        OSError: It cannot be written; the old file is unchanged.
    """
    if _is_stream(path):
        with path.open("a", encoding="utf-8", newline="\n") as file:
            file.write(text)
        return
    if _is_foreign(path):
        raise ForeignFileError(path)
    Path(os.path.realpath(path)).parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text)


def _is_stream(path: Path) -> bool:
    shared = os.environ.get("GITHUB_STEP_SUMMARY")
    return (path.exists() and not path.is_file()) or (bool(shared) and path == absolute(shared or ""))


def _is_foreign(path: Path) -> bool:
    """Whether a file has content without the mark of our reports and summaries."""
    if not path.is_file() or _is_stream(path):
        return False
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            head = file.read(_HEAD)
    except OSError:
        return True
    return bool(head) and _MARK.search(head) is None


def _refused(path: Path, found: str, do: str = "name another file, or move that one away") -> UsageError:
    return UsageError(f"{path} to be written", found=found, do=do)
