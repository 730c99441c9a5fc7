"""Measures how long this process works on each stage of a model, and tells which one is under way.

exporting                            4.1 s    counts for `exporting`
checking MUST-001                   19.7 s    counts for `checking MUST-001`, with the stages inside it
  importing torch                    2.3 s    counts for itself: it is no work on a model
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from pytest_hierexport._stages import LOADING, Stages


def now() -> float:
    """Return the time of the monotonic clock; tests of a project may replace Python's own functions for it."""
    return time.clock_gettime(time.CLOCK_MONOTONIC)


@dataclass(frozen=True)
class UnderWay:
    """What a process of the run works on."""

    model: str
    stage: str
    since: float
    """A time on the monotonic clock, which all processes of a machine share."""


class StageClock:
    """Counts the seconds of each stage.

    Args:
        file: Where this process tells what is under way, if the folder exists: a run that shows no progress has none.
    """

    def __init__(self, file: Path) -> None:
        self.model = ""
        """The model that the process works on."""
        self._file = file
        self._stage, self._since = "", 0.0
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def note(self, stages: Stages) -> None:
        """Take the open stages, the innermost last, whenever these change."""
        at = now()
        if self._stage:
            self._seconds[self._stage] += at - self._since
        self._stage, self._since = _counted(stages), at
        self._tell(UnderWay(self.model, stages[-1], at) if stages else None)

    def taken(self) -> dict[str, float]:
        """Return the seconds of each stage since the last call."""
        seconds, self._seconds = dict(self._seconds), defaultdict(float)
        return seconds

    def _tell(self, current: UnderWay | None) -> None:
        # What is shown of a run is not worth an error.
        with suppress(OSError):
            if current is None:
                self._file.unlink(missing_ok=True)
            else:
                self._file.write_text(json.dumps(asdict(current)), encoding="utf-8")


def _counted(stages: Stages) -> str:
    """Return the stage whose seconds count: the outermost, or that in which torch is imported."""
    return LOADING if LOADING in stages else next(iter(stages), "")


def under_way(folder: Path) -> list[UnderWay]:
    """Return what the processes of the run work on, in the order of the processes' names."""
    found = []
    for file in sorted(folder.glob("*.json")):
        # It may be written, or removed, just now.
        with suppress(OSError, ValueError, TypeError):
            found.append(UnderWay(**json.loads(file.read_text(encoding="utf-8"))))
    return found
