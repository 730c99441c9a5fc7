"""Records the models that ended a process of the run, or did not finish in time, for all its processes.

A worker that dies reports nothing. The controller learns from xdist which test it ran and writes a crash marker into
the run folder; the model's other tests find the marker, fail at once and do not build the model again.

Of a model that did not finish in time, the process that runs it tells more before it ends: a record as it works (the
limit, the stage), and faulthandler's dump of the stacks (the line of Python).
"""

from __future__ import annotations

import json
import re
import signal
import sysconfig
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import chain, takewhile
from pathlib import Path

from pytest_hierexport._errors import shown_source
from pytest_hierexport._files.atomic import write_atomically
from pytest_hierexport._files.paths import AROUND_TESTS, PACKAGE, text_digest

_LIKELY = {
    "SIGABRT": "native code gave up",
    "SIGKILL": "killed from outside, as the kernel does when memory is short",
    "SIGSEGV": "a fault in native code",
}
_FRAME = re.compile(r'^  File "(?P<file>.*)", line (?P<line>\d+) in ', re.MULTILINE)
_LIBRARY = Path(sysconfig.get_paths()["stdlib"])
_SITE = frozenset({"site-packages", "dist-packages"})
_MACHINERY = frozenset({"torch", "onnxscript", "onnx_ir", "onnx", "onnxruntime"})
_RUNNER = frozenset({"_pytest", "pluggy"})
_OURS = frozenset(PACKAGE / room for room in AROUND_TESTS)


@dataclass(frozen=True)
class Crash:
    """A process that ended in a test of a model, or did not end the test in time."""

    model: str
    test: str
    process: str
    """The name of the process: `worker gw0`, or `pytest`."""
    ending: str
    """The words of :func:`ending`, or those of a hang."""
    hung: bool = False
    """Whether the model did not finish in time."""


@dataclass(frozen=True)
class Crashes:
    """The crashes of a run."""

    folder: Path
    """The folder of the markers, made when it is first needed; the same in every process of the run."""

    def add(self, crash: Crash) -> None:
        """Write the marker of a crash; the first of a model stays."""
        if self.of(crash.model) is None:
            self.folder.mkdir(exist_ok=True)
            write_atomically(self._file(crash.model), json.dumps(asdict(crash)))

    def of(self, model: str) -> Crash | None:
        """Return the crash of a model, None where it has none."""
        try:
            return Crash(**json.loads(self._file(model).read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None

    def _file(self, model: str) -> Path:
        return self.folder / f"{text_digest(model)}.json"


def ending(code: int | None) -> str:
    """Return how a process ended, in words: its exit code, or the signal that ended it where that is negative."""
    if code is None:
        return "ended without a word"
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"was ended by {name}" + (f" ({_LIKELY[name]})" if name in _LIKELY else "")


@dataclass(frozen=True)
class Hang:
    """A test of a model that has not finished, as far as it got."""

    item: str
    """The id of the test for pytest."""
    seconds: float
    """Its limit."""
    deadline: float
    """The time on the monotonic clock at which its process is ended."""
    stages: tuple[str, ...] = ()

    def ending(self, stacks: str) -> str:
        """Return what became of it, in words, given the dump of the stacks."""
        where = [*self.stages, *filter(None, [_place(stacks)])]
        return f"did not finish within {self.seconds:g} s" + (f" ({', '.join(where)})" if where else "")


@dataclass(frozen=True)
class HangFiles:
    """The files in which a process tells what it works on."""

    record: Path
    stacks: Path

    @classmethod
    def of(cls, folder: Path, process: str) -> HangFiles:
        """Return the files of a process by its name: `worker gw0`, or `pytest`."""
        return cls(folder / f"{process}.json", folder / f"{process}.txt")

    def write(self, hang: Hang) -> None:
        """Replace the record."""
        self.record.write_text(json.dumps(asdict(hang)), encoding="utf-8")

    def read(self) -> Hang | None:
        """Return the record; None where there is none, or it is being written."""
        with suppress(OSError, ValueError):
            fields = json.loads(self.record.read_text(encoding="utf-8"))
            return Hang(**{**fields, "stages": tuple(fields["stages"])})
        return None

    def crash(self, model: str, test: str, process: str) -> Crash | None:
        """Return what the process ended of, if its stacks were dumped in a test that was not finished."""
        hang, stacks = self.read(), self.dumped()
        return Crash(model, test, process, hang.ending(stacks), hung=True) if hang and stacks else None

    def dumped(self) -> str:
        """Return the dump of the stacks, empty where there is none."""
        with suppress(OSError):
            return self.stacks.read_text(encoding="utf-8", errors="replace")
        return ""


def _place(stacks: str) -> str:
    """Return the innermost line of the main thread outside exporters and the library, else in a package, else any."""
    # A dump has a block per thread, the main thread's last, the innermost frame of each first.
    block = stacks.rstrip().rpartition("hread 0x")[2]
    frames = [(Path(found["file"]), int(found["line"])) for found in _FRAME.finditer(block)]
    frames = [frame for frame in frames if frame[0].parent not in _OURS]
    # Further out are pytest's runner and what started it: xdist's workers, a script.
    frames = list(takewhile(lambda frame: _RUNNER.isdisjoint(frame[0].parts), frames))
    packages = (frame for frame in frames if _after_site(frame[0].parts))
    shown = next(chain(filter(_is_users, frames), packages, frames), None)
    return "" if shown is None else f"{_shown(shown[0])} line {shown[1]}"


def _shown(file: Path) -> str:
    """Return the path of a file from the working directory, or from the folder of installed packages."""
    return "/".join(_after_site(file.parts)) or shown_source(file)


def _is_users(frame: tuple[Path, int]) -> bool:
    file, _ = frame
    installed = _after_site(file.parts)
    if installed:
        return installed[0] not in _MACHINERY
    return file.is_absolute() and not file.is_relative_to(PACKAGE) and not file.is_relative_to(_LIBRARY)


def _after_site(parts: Iterable[str]) -> tuple[str, ...]:
    names = tuple(parts)
    at = next((i for i, name in enumerate(names) if name in _SITE), len(names))
    return names[at + 1 :]
