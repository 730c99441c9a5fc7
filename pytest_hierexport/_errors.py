"""Defines the errors that a user can fix, and puts the errors of other code into words."""

from __future__ import annotations

import difflib
import errno
import heapq
import sys
import traceback
from collections.abc import Collection, Coroutine, Iterable, Iterator, Mapping
from functools import partial
from importlib import metadata
from operator import attrgetter
from os.path import commonprefix
from pathlib import Path

from pytest_hierexport._text import one_line, without_colours

_LONGEST = 300
_MOST_COMPARED = 500
"""Names whose similarity is computed, a millisecond each: those that share most of their beginning and end."""
_MOST_SIMILAR = 3
_MOST_LISTED = 20
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS})
_MACHINERY = ("torch", "onnxscript", "onnx_ir", "onnx", "onnxruntime", "_pytest")
"""The packages that an export runs in, and pytest: an error of the model is raised by a frame outside them."""


class HierexportError(Exception):
    """A failure with what was expected, what was found and what to do next.

    The pytest plugin and the command line show the message and no traceback.
    """

    def __init__(self, expected: str, *, found: str, do: str) -> None:
        """Say what was expected, what was found and what to do, each without a full stop."""
        super().__init__(f"expected {one_line(expected)}; found {one_line(found)}\nto do: {one_line(do)}")
        self.expected = expected
        self.found = found
        self.do = do

    def __reduce__(self) -> tuple[object, ...]:
        """Survive pickling between processes, keyword arguments included."""
        return partial(type(self), found=self.found, do=self.do), (self.expected,)


class UsageError(HierexportError):
    """The request itself cannot be served: an unknown model, an option that makes no sense."""


class CollectError(HierexportError):
    """A selector is valid but gives no case: a factory fails, a manifest is broken."""


class ExportError(HierexportError):
    """A model could not be exported or its file could not be written."""


class DiskFullError(HierexportError):
    """A file could not be written for lack of room; this is no fault of a model and breaks no rule."""


class PackageError(HierexportError):
    """A package of the installation cannot be imported; this is no fault of a model and breaks no rule."""


class CrashError(HierexportError):
    """A process of the run ended while it worked on a model."""

    ended = "ended its process"
    """What the model did, in the titles of messages."""


class HangError(CrashError):
    """A test of a model took longer than its limit."""

    ended = "did not finish in time"


class NoVerdictError(HierexportError):
    """A rule is neither kept nor broken: there is nothing to compare the export with."""


class TagError(HierexportError):
    """An ONNX file has no tags in the requested place, or tags that cannot be read."""


class Interruption(BaseException):
    """Stops code of the project from outside: no failure of that code."""


STOPS = (KeyboardInterrupt, Interruption)
"""What stops code of the project from outside."""


def skips() -> tuple[type[BaseException], ...]:
    """Return the errors by which code skips the test that runs it: of pytest and unittest, where these are loaded."""
    names = ("pytest", "skip.Exception"), ("unittest", "SkipTest")
    return tuple(attrgetter(skip)(sys.modules[name]) for name, skip in names if name in sys.modules)


def skipped(error: BaseException) -> NoVerdictError:
    """Return the error for a model whose code skips the test that runs it, as no test shows it."""
    return NoVerdictError(
        "a model that is not skipped", found=f"skipped: {error}", do="run it where its code does not skip"
    )


def pass_on(error: BaseException) -> None:
    """Raise again what code of the project raised, where that is no failure of it.

    Raises:
        BaseException: The error is one of this package, stops the code from outside, or skips the test.
    """
    if isinstance(error, (HierexportError, *STOPS, *skips())):
        raise error


def disk_full(found: str) -> DiskFullError:
    """Return the error for a file that had no room."""
    return DiskFullError(
        "room on the disk",
        found=found,
        do="make room, or name another folder for temporary files with the environment variable TMPDIR",
    )


def raise_if_disk_full(error: BaseException) -> None:
    """Raise a :class:`DiskFullError` where a full disk caused another error.

    Raises:
        DiskFullError: The error, or one that caused it, says that a file had no room.
    """
    if (found := lack_of_room(error)) is not None:
        raise disk_full(found) from error


def lack_of_room(error: BaseException) -> str | None:
    """Return which file had no room, where a full disk caused an error, also one that was raised `from None`."""
    full = (link for link in chain(error, suppressed=True) if isinstance(link, OSError) and link.errno in _NO_ROOM)
    texts = (": ".join(str(part) for part in (link.strerror, link.filename) if part) for link in full)
    return next(texts, None)


def not_installed(module: str, what: str) -> CollectError:
    """Return the error for a module that only some models need: its package is missing, or older than it."""
    package = module.partition(".")[0]
    found = next(iter(metadata.distributions(name=package)), None)  # none where its name is not the import's
    if package != module and found is not None:
        older = f"{package} {found.version}, which does not have it"
        return CollectError(f"{module} {what}", found=older, do=f"pip install --upgrade {package}")
    return CollectError(f"{module} {what}", found="it is not installed", do="pip install 'pytest-hierexport[zoo]'")


def refuse_coroutine(returned: object, what: str) -> None:
    """Refuse what an async function of the project returned: nothing awaits it, of which Python would only warn.

    Raises:
        UsageError: It is a coroutine.
    """
    if isinstance(returned, Coroutine):
        returned.close()
        raise UsageError(
            f"{what} to be a function that runs when it is called",
            found="an async one, which returns a coroutine",
            do="define it by def, and run what must be awaited by asyncio.run(…) in it",
        )


def proposal(wanted: str, known: Collection[str], shown: Mapping[str, str] | None = None) -> str:
    """Return what to do about an unknown name: `perhaps A or B` of similar names, else `choose from A, B, C`.

    `shown` has what to write for some of the known names.
    """
    names, near = list(known), similar(wanted, known)
    texts = [(shown or {}).get(name, name) for name in near or names[:_MOST_LISTED]]
    if near:
        *others, last = texts
        return f"perhaps {', '.join(others)} or {last}" if others else f"perhaps {last}"
    return (
        "choose from" if len(texts) == len(names) else f"choose one of {len(names)}, such as"
    ) + f" {', '.join(texts)}"


def proposals(unknown: Iterable[tuple[str, Collection[str]]]) -> str:
    """Return what to do about several unknown names, each with the names that exist in its place."""
    texts = {wanted: proposal(wanted, known) for wanted, known in unknown}
    if len(set(texts.values())) == 1:
        return next(iter(texts.values()))
    return "; ".join(f"for {wanted} {text}" for wanted, text in texts.items())


def similar(wanted: str, known: Iterable[str]) -> list[str]:
    """Return the known names that are similar to the wanted one: at most three, first those with other case alone."""
    spelled: dict[str, list[str]] = {}
    for name in known:
        spelled.setdefault(name.casefold(), []).append(name)
    names, folded = sorted(spelled), wanted.casefold()
    if len(names) > _MOST_COMPARED:

        def common(name: str) -> int:
            pairs = (folded, name), (folded[::-1], name[::-1])
            return sum(len(commonprefix(pair)) for pair in pairs)  # noqa: RUF071  # these are no paths

        names = sorted(heapq.nlargest(_MOST_COMPARED, names, common))
    close = difflib.get_close_matches(folded, names, n=_MOST_SIMILAR, cutoff=0.6)
    return [name for each in close for name in spelled[each]][:_MOST_SIMILAR]


def cause(error: BaseException) -> str:
    """Return the :func:`gist` of the first error in a chain of causes."""
    *_, first = chain(error)
    return gist(first)


def chain(error: BaseException, *, suppressed: bool = False) -> Iterator[BaseException]:
    """Yield an error, its cause, the cause of that, and so on; if `suppressed`, also behind one raised `from None`.

    An error may be its own cause (`raise error from error`): each is given once.
    """
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__ or (link.__context__ if suppressed or not link.__suppress_context__ else None)


def first_told(error: BaseException) -> str:
    """Return the :func:`gist` of the first error in a chain of causes that is not an exporter's own wrapping.

    What the project raised itself is kept, with what caused it: `RuntimeError: no file (own.py, line 3); caused by …`.
    """
    links = (e for e in chain(error) if e.__cause__ is None or type(e).__module__.partition(".")[0] not in _MACHINERY)
    link = next(links, error)
    inner = "" if link.__cause__ is None or link.__cause__ is link else f"; caused by {cause(link.__cause__)}"
    return gist(link) + inner


def gist(error: BaseException) -> str:
    """Return what code outside this package raised, with the line that raised it.

    The project's own messages are given with all their lines, those of exporters in a sentence.
    """
    folders = _machinery()
    frames = [(Path(frame.filename), frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    # Those of the project and of libraries that it uses. What raised the error is the innermost frame; frames of ours
    # further out only called it, as those of the recorder do between a model's and torch's.
    users = [(file, line) for file, line in frames if not any(folder in file.parents for folder in folders)]
    words = in_words(error, whole=bool(users) and users[-1] == frames[-1])
    if not frames or folders[0] in frames[-1][0].parents:
        return words
    return words + next((source_place(file, line) for file, line in reversed(users) if file.is_absolute()), "")


def in_words(error: BaseException, *, whole: bool = False) -> str:
    """Return an error's type and the first sentence of its message, or the whole of it."""
    lines = [line.strip() for line in without_colours(str(error)).splitlines() if line.strip()] or ["no message"]
    # A line that ends with a colon ("These do not fit:") announces the one below it, and one in parentheses completes
    # the one above ("(Occurred when translating col2im)", which alone names the operator).
    end = len(lines) - 1
    ends = (i for i in range(end) if not (lines[i].endswith(":") or lines[i + 1].startswith("(")))
    last = end if whole else next(ends, end)
    return f"{type(error).__name__}: {' '.join(lines[: last + 1])[:_LONGEST]}"


def _machinery() -> list[Path]:
    """Return the folders of this package and of those that an export runs in, this one's first."""
    files = (getattr(sys.modules.get(name), "__file__", None) for name in _MACHINERY)
    return [Path(__file__).parent, *(Path(file).parent for file in files if file is not None)]


def source_place(file: Path, line: int | None) -> str:
    """Return a line of source for the end of a message."""
    return f" ({shown_source(file)}, line {line})"


def shown_source(file: Path) -> str:
    """Return the path of a source file from the working directory, its name where it is not inside."""
    here = Path.cwd()
    return file.relative_to(here).as_posix() if file.is_relative_to(here) else file.name
