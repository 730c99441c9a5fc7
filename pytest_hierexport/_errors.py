"""What goes wrong for a reason that the user can mend, said so that they can."""

from __future__ import annotations

import difflib
import errno
import sys
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path

from pytest_hierexport._calls.names import one_line

__all__ = [
    "CollectError",
    "CrashError",
    "DiskFullError",
    "ExportError",
    "HierexportError",
    "NoVerdictError",
    "TagError",
    "UsageError",
    "cause",
    "chain",
    "disk_full",
    "gist",
    "in_words",
    "nearest",
    "not_installed",
    "raise_if_disk_full",
]

_LONGEST = 300
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS})
_MACHINERY = ("torch", "onnxscript", "onnx_ir", "onnx", "onnxruntime")
"""The packages beneath an export: what a model raises is raised above them."""


class HierexportError(Exception):
    """A failure with what was expected, what was found and what to do next.

    The doors of the package (the pytest plugin, the command line) show the message and no traceback.
    """

    def __init__(self, expected: str, *, found: str, do: str) -> None:
        """Say what was expected, what was found and what to do, each without a full stop."""
        super().__init__(f"expected {one_line(expected)}; found {one_line(found)}\nto do: {one_line(do)}")
        self.expected = expected
        self.found = found
        self.do = do

    def __reduce__(self) -> tuple[object, ...]:
        """Survive pickling between processes, keyword arguments included."""
        return (_rebuild, (type(self), self.expected, self.found, self.do))


def _rebuild(kind: type[HierexportError], expected: str, found: str, do: str) -> HierexportError:
    return kind(expected, found=found, do=do)


class UsageError(HierexportError):
    """The request itself cannot be served: an unknown model, an option that makes no sense."""


class CollectError(HierexportError):
    """A selector was understood but no case comes of it: a factory that fails, a broken manifest."""


class ExportError(HierexportError):
    """A model could not be exported or its file could not be written."""


class DiskFullError(HierexportError):
    """A file could not be written for lack of room, which says nothing of the model or of a rule."""


class CrashError(HierexportError):
    """A process of the run ended while it worked on a model."""


class NoVerdictError(HierexportError):
    """A rule is neither kept nor broken: there is nothing to compare the export with."""


class TagError(HierexportError):
    """An ONNX file does not hold the tags that were asked of it, or holds them in a form we do not know."""


def disk_full(found: str) -> DiskFullError:
    """Return the error for a file that there was no room for."""
    return DiskFullError(
        "room on the disk",
        found=found,
        do="make room, or name another folder for temporary files with the environment variable TMPDIR",
    )


def raise_if_disk_full(error: BaseException) -> None:
    """Raise the error that a user can mend where a full disk is what lies beneath another error.

    Raises:
        DiskFullError: The error, or one that it comes of, is of a file that there was no room for.
    """
    below: BaseException | None = error
    while below is not None:
        if isinstance(below, OSError) and below.errno in _NO_ROOM:
            raise disk_full(": ".join(str(part) for part in (below.strerror, below.filename) if part)) from error
        below = below.__cause__ or below.__context__


def not_installed(package: str | None, what: str) -> CollectError:
    """Return the error for a package that only some models need."""
    return CollectError(f"{package} {what}", found="it is not installed", do="pip install 'pytest-hierexport[zoo]'")


def nearest(wanted: str, known: Iterable[str]) -> str:
    """Return the known names most like the wanted one, for a message; all of them where none is."""
    names = sorted(known)
    close = difflib.get_close_matches(wanted, names, n=3, cutoff=0.5)
    shown = close or names[:12]
    return ", ".join(shown) + (", …" if not close and len(names) > len(shown) else "")


def cause(error: BaseException) -> str:
    """Return what stands at the bottom of a chain of errors, in a sentence: see :func:`gist`."""
    *_, bottom = chain(error)
    return gist(bottom)


def chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, what caused it, what caused that, and so on."""
    below: BaseException | None = error
    while below is not None:
        yield below
        below = below.__cause__ or (None if below.__suppress_context__ else below.__context__)


def gist(error: BaseException) -> str:
    """Return what other people's code raised, in a sentence, and the line that raised it."""
    return f"{in_words(error)}{_place(error)}"


def in_words(error: BaseException) -> str:
    """Return an error's type and the first of what it says."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or ["no message"]
    # "These do not fit:" and the like: the gist stands below.
    said = next((i for i, line in enumerate(lines) if not line.endswith(":")), len(lines) - 1)
    return f"{type(error).__name__}: {' '.join(lines[: said + 1])[:_LONGEST]}"


def _place(error: BaseException) -> str:
    """Return the innermost line of somebody's own code; nothing where only an exporter underneath ran."""
    folders = [_folder(name) for name in _MACHINERY]
    ours = Path(__file__).parent
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = Path(frame.filename)
        if ours in file.parents:
            break
        if file.is_absolute() and not any(folder in file.parents for folder in folders if folder is not None):
            return f" ({file.name}, line {frame.lineno})"
    return ""


def _folder(package: str) -> Path | None:
    file = getattr(sys.modules.get(package), "__file__", None)
    return None if file is None else Path(file).parent
