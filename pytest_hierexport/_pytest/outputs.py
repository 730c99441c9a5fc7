"""The files that a run writes where the user says: reports and the summary."""

from __future__ import annotations

import os
import re
from pathlib import Path

from pytest_hierexport._errors import UsageError
from pytest_hierexport._files.atomic import write_atomically
from pytest_hierexport._files.ownership import GENERATOR, ForeignFileError
from pytest_hierexport._files.paths import absolute

__all__ = ["check_output", "write_output"]

_MARK = re.compile(rf"\bgenerator\W+(?:content\W+)?{GENERATOR}\b")
_HEAD = 300
"""How far into a file its mark may stand."""


def check_output(path: Path) -> None:
    """Find out before the run, not after it, that a file would have to be written in the place of something else.

    Raises:
        UsageError: A folder or a file of the user's is in the way.
    """
    above = next((parent for parent in path.parents if parent.exists()), None)
    if path.is_dir():
        raise _refused(path, "a folder")
    if above is not None and not above.is_dir():
        raise _refused(path, f"a file, {above}, in the place of a folder")
    if _is_foreign(path):
        raise _refused(path, "a file that pytest-hierexport did not write")


def write_output(path: Path, text: str) -> None:
    """Write a file in the place of nothing, or of one that an earlier run wrote.

    What is no regular file (a pipe, a terminal) and the summary of a step on GitHub, which all commands of the step
    share, are written to and not replaced.

    Raises:
        ForeignFileError: A file of the user's stands there.
        OSError: It cannot be written; what stood there is left as it was.
    """
    if _is_stream(path):
        with path.open("a", encoding="utf-8", newline="\n") as file:
            file.write(text)
        return
    if _is_foreign(path):
        raise ForeignFileError(path)
    # A link is the user's: the file that it leads to is replaced, not the link.
    target = Path(os.path.realpath(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, text)


def _is_stream(path: Path) -> bool:
    shared = os.environ.get("GITHUB_STEP_SUMMARY")
    return (path.exists() and not path.is_file()) or (bool(shared) and path == absolute(shared or ""))


def _is_foreign(path: Path) -> bool:
    """Whether a file holds something that no report or summary of ours begins with."""
    if not path.is_file() or _is_stream(path):
        return False
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            head = file.read(_HEAD)
    except OSError:
        return True
    return bool(head) and _MARK.search(head) is None


def _refused(path: Path, found: str) -> UsageError:
    return UsageError(f"{path} to be written", found=found, do="name another file, or move that one away")
