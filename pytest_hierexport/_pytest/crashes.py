"""Records the models that ended a process of the run, or did not finish in time, for all its processes.

A worker that dies reports nothing. The controller learns from xdist which test it ran and writes a crash marker into
the run folder; the model's other tests find the marker, fail at once and do not build the model again.
"""

from __future__ import annotations

import hashlib
import json
import signal
from dataclasses import asdict, dataclass
from pathlib import Path

from pytest_hierexport._files.atomic import write_atomically

__all__ = ["Crash", "Crashes", "ending"]

_LIKELY = {
    "SIGABRT": "native code gave up",
    "SIGKILL": "killed from outside, as the kernel does when memory is short",
    "SIGSEGV": "a fault in native code",
}


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
        return self.folder / f"{hashlib.sha256(model.encode('utf-8', 'surrogatepass')).hexdigest()}.json"


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
