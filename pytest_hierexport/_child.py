"""Runs a Python process that answers requests.

In go Python's arguments and a request; out comes what the process answers, by :meth:`ChildProcess.ask`. The plain
exporter of MUST-005 and the second export of MUST-008 run in such processes.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, Any

from pytest_hierexport._errors import CrashError
from pytest_hierexport._stages import stage

_PATIENCE = 5
"""How many seconds a process has to end after its requests have."""
_TAIL = 65536
"""How many of the last bytes that it printed are searched for its last line."""


class ChildEndedError(Exception):
    """The process ended before it answered."""


class _Process(subprocess.Popen[str]):
    """A running process, with pipes to and from it."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.printed: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # open as long as the process
        """What the process prints as errors."""
        super().__init__(
            command,
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.printed,
            encoding="utf-8",
        )

    def answer(self) -> str:
        """Return the line that it answers; the empty text where it ends first, even if a fork of it lives on."""
        assert self.stdout is not None, "started with a pipe"  # noqa: S101
        while not select.select([self.stdout], [], [], 1)[0]:
            if self.poll() is not None and not select.select([self.stdout], [], [], 0)[0]:
                return ""
        return self.stdout.readline()


class ChildProcess:
    """A process that answers each line of JSON with another, as `_rules/peer.py` does, and ends with this process.

    It imports torch once for all requests. It starts at the first request, and anew at the next one after it has ended.

    Args:
        arguments: Python's arguments: the file or module that serves, with its options.
        environment: The variables that differ from this process's.
    """

    def __init__(self, *arguments: str, **environment: str) -> None:
        """Start nothing yet."""
        self._command = [sys.executable, *arguments]
        self._environment = environment
        # By the process that started it: a fork of this process starts its own.
        self._running: dict[int, _Process] = {}
        _children.append(self)

    def ask(self, **request: Any) -> Any:
        """Return the answer to a request; it gets this process's `sys.path` too.

        Raises:
            ChildEndedError: The process ended; the message has its exit code and its last line.
            CrashError: It was killed, which may be no fault of the model.
        """
        process = self._running.get(os.getpid())
        if process is None or process.poll() is not None:
            self.close()  # where it ended since its last answer, that is no fault of this request
            process = self._running[os.getpid()] = _Process(self._command, self._environment)
        try:
            print(json.dumps({**request, "path": list(map(str, sys.path))}), file=process.stdin, flush=True)
            with stage("waiting for a process of its own"):
                answer = process.answer()
        except BrokenPipeError:
            answer = ""
        except BaseException:
            # Interrupted: the process must not write into a folder that the caller removes now.
            self.close()
            raise
        if answer.endswith("\n"):
            return json.loads(answer)
        ended = self.close()
        if process.returncode == -signal.SIGKILL:
            found = "the process of the check was killed, as the kernel does when memory is short"
            raise CrashError("the check to run to its end", found=found, do="run it again, with fewer workers")
        raise ChildEndedError(f"ended with {ended}")

    def close(self) -> str:
        """End the process; return its exit code and the last line that it printed."""
        process = self._running.pop(os.getpid(), None)
        if process is None:
            return ""
        # A fork of this process or of that one may hold the pipes open: neither is waited for.
        for pipe in filter(None, (process.stdin, process.stdout)):
            with suppress(OSError):
                pipe.close()
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        with process.printed as printed:
            printed.seek(max(0, printed.seek(0, os.SEEK_END) - _TAIL))
            lines = printed.read().decode(errors="replace").strip().splitlines()
        return f"{process.returncode}: {lines[-1] if lines else 'it said nothing'}"


_children: list[ChildProcess] = []


@atexit.register
def end_all() -> None:
    """End the processes of this one: modules that one run imported are not those of the next."""
    for child in _children:
        child.close()
