"""Limits the time of the tests of models in the process that runs them: stops one that does not finish in it.

    limit            a timer sends SIGCONT to the main thread, whose handler dumps the stacks and raises
                     :class:`TimedOut`; not in the middle of an import, which would leave half of a native library
    limit + GRACE    code that Python cannot interrupt still runs: the process dumps its stacks and exits with code 1

The second step is faulthandler's, whose thread needs no interpreter: it works while native code holds Python's lock.
"""

from __future__ import annotations

import faulthandler
import math
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from traceback import walk_stack
from types import FrameType
from typing import IO, Any

from pytest_hierexport._errors import Interruption
from pytest_hierexport._pytest.clock import now
from pytest_hierexport._pytest.crashes import Hang, HangFiles
from pytest_hierexport._stages import IDLE, Stages, listening

# Windows has neither signal; the session refuses to start there.
SIGNAL: int = getattr(signal, "SIGURG", 0)
"""Makes the process dump its stacks at once, in native code too. In the middle of Python code that can end the process
by a segmentation fault: frames are being made and dropped. Both signals are ignored by default: a late one does no
harm."""
_INTERRUPT: int = getattr(signal, "SIGCONT", 0)
"""Runs the handler where Python next can."""
_GRACE = 5.0
"""The seconds that code has to notice the signal."""
_AGAIN = 0.2
"""The seconds after which code that could not be interrupted is tried again."""
_CLEANUP = 15.0
"""The seconds that code has to end once it was interrupted: it ends processes and removes files."""


class TimedOut(Interruption):
    """A test has taken longer than its limit; no `except Exception` of the code that it stops catches it."""

    def __init__(self, ending: str) -> None:
        super().__init__(ending)
        self.ending = ending


class TimeLimit:
    """Limits the time of one test at a time.

    Args:
        folder: Where the processes of the run tell what they work on.
        process: The name of this one.
    """

    def __init__(self, folder: Path, process: str) -> None:
        self.folder, self.process = folder, process
        self.files = HangFiles.of(folder, process)
        self.exit_file: IO[bytes] | None = None
        """Where the stacks are dumped before the exit, which waits until that is possible; None: with the others."""
        self._stacks: IO[bytes] | None = None
        self._hang: Hang | None = None
        self._timer: threading.Timer | None = None
        self._timed_out: TimedOut | None = None
        self._inside = False
        self._due = math.inf
        self._before: Any = signal.SIG_DFL

    @contextmanager
    def limited(self, item: str, seconds: float) -> Iterator[None]:
        """Raise :class:`TimedOut` where the block takes longer, or end the process; no limit where it is infinite.

        The time starts with the first stage in the block: one that takes a result from the cache opens none, and costs
        nothing. A block in a limited one, or in another thread than the main one, has no limit of its own.
        """
        if math.isinf(seconds) or self._hang is not None or not _is_main_thread():
            yield
            return
        self._hang, self._timed_out = Hang(item, seconds, math.inf), None
        try:
            with listening(self._note):
                yield from self._block()
        finally:
            self._disarm()
            self._hang = None
        if self._timed_out is not None:
            raise self._timed_out

    def _block(self) -> Iterator[None]:
        self._inside = True
        try:
            yield
        except KeyboardInterrupt:
            raise
        except BaseException:
            # What the code made of the interruption is no error of its own.
            if self._timed_out is None:
                raise
        finally:
            self._inside = False

    def pytest_enter_pdb(self) -> None:
        """Lift the limit of a test that stops in a debugger."""
        self._stop()

    def _arm(self) -> None:
        """Limit the block from now on."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._stacks = self.files.stacks.open("wb")
        self._before = signal.signal(_INTERRUPT, self._interrupt)
        faulthandler.register(SIGNAL, self._stacks, all_threads=True)
        self._start()

    def _disarm(self) -> None:
        """End the limit, if it began."""
        if self._stacks is None:
            return
        self._stop()
        self.files.record.unlink(missing_ok=True)
        faulthandler.unregister(SIGNAL)
        signal.signal(_INTERRUPT, self._before)
        self._stacks.close()
        self._stacks = None

    def _start(self) -> None:
        """Start the time of the test, from the beginning."""
        assert self._hang is not None, "a test has a limit"  # noqa: S101
        self._signal_after(self._hang.seconds)
        self._exit_after(self._hang.seconds + _GRACE)

    def _stop(self) -> None:
        """Lift the limit."""
        if self._timer is not None:
            self._timer.cancel()
        # Where the time has just run out, this waits for the exit: the record must tell of it until then.
        faulthandler.cancel_dump_traceback_later()
        self._write(deadline=math.inf)

    def _interrupt(self, _: int, frame: FrameType | None) -> None:
        """Raise :class:`TimedOut` in the code that runs, or try again later.

        A shell sends the signal too, when it goes on with a stopped process.
        """
        hang = self._hang
        if not self._inside or hang is None or now() < self._due:
            return
        if _imports(frame):
            self._signal_after(_AGAIN)
            return
        self._inside = False
        assert self._stacks is not None, "a test has a limit"  # noqa: S101
        faulthandler.dump_traceback(self._stacks, all_threads=True)
        self._timed_out = TimedOut(hang.ending(self.files.dumped()))
        self._exit_after(_CLEANUP)
        raise self._timed_out

    def _signal_after(self, seconds: float) -> None:
        self._due = now() + seconds
        self._timer = threading.Timer(seconds, signal.pthread_kill, (threading.main_thread().ident, _INTERRUPT))
        self._timer.daemon = True
        self._timer.start()

    def _exit_after(self, seconds: float) -> None:
        assert self._stacks is not None, "a test has a limit"  # noqa: S101
        self._write(deadline=now() + seconds)
        faulthandler.dump_traceback_later(seconds, file=self.exit_file or self._stacks, exit=True)

    def _note(self, stages: Stages) -> None:
        if self._stacks is None:
            if not stages or not _is_main_thread():
                return
            self._arm()
        was_idle, is_idle = (not IDLE.isdisjoint(each) for each in (self._hang.stages if self._hang else (), stages))
        self._write(stages=stages)
        if is_idle and not was_idle:
            self._stop()
        elif was_idle and not is_idle:
            self._start()

    def _write(self, **changed: float | Stages) -> None:
        if self._hang is not None:
            self._hang = replace(self._hang, **changed)  # type: ignore[arg-type]  # the fields of Hang
            # Without room on the disk the limit holds all the same; what ran too long is then not told.
            with suppress(OSError):
                self.files.write(self._hang)


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _imports(frame: FrameType | None) -> bool:
    """Whether a stack is in an import."""
    return any(each.f_code.co_filename.startswith("<frozen importlib") for each, _ in walk_stack(frame))
