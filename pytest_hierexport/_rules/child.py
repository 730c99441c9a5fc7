"""Runs a Python process that answers requests: the plain exporter of MUST-005, the second export of MUST-008."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from typing import IO, Any

__all__ = ["ChildEndedError", "ChildProcess", "end_all"]


class ChildEndedError(Exception):
    """The process ended before it answered."""


@dataclass(frozen=True)
class _Running:
    process: subprocess.Popen[str]
    printed: IO[bytes]
    """What the process prints as errors."""


class ChildProcess:
    """A process that runs `peer.serve`: it imports torch once for all requests, and ends with this process.

    It starts at the first request, and again at the next one after it has ended.

    Args:
        arguments: Python's arguments: the file or module that serves, with its options.
        environment: The variables that differ from this process's.
    """

    def __init__(self, *arguments: str, **environment: str) -> None:
        """Start nothing yet."""
        self._command = [sys.executable, *arguments]
        self._environment = environment
        # By the process that started it: a fork of this process starts its own.
        self._running: dict[int, _Running] = {}
        _children.append(self)

    def ask(self, **request: Any) -> Any:
        """Return the answer to a request; it gets this process's `sys.path` too.

        Raises:
            ChildEndedError: The process ended; the message has its exit code and its last line.
        """
        process = (self._running.get(os.getpid()) or self._start()).process
        try:
            print(json.dumps({**request, "path": list(map(str, sys.path))}), file=process.stdin, flush=True)
            answer = next(iter(process.stdout or ()), "")
        except BrokenPipeError:
            answer = ""
        except BaseException:
            # Interrupted: the process must not write into a folder that the caller removes now.
            self.close()
            raise
        if answer:
            return json.loads(answer)
        raise ChildEndedError(f"ended with {self.close()}")

    def close(self) -> str:
        """End the process; return its exit code and the last line that it printed."""
        running = self._running.pop(os.getpid(), None)
        if running is None:
            return ""
        running.process.communicate()
        with running.printed as printed:
            printed.seek(0)
            lines = printed.read().decode(errors="replace").strip().splitlines()
        return f"{running.process.returncode}: {lines[-1] if lines else 'it said nothing'}"

    def _start(self) -> _Running:
        printed = tempfile.TemporaryFile()  # noqa: SIM115  # open as long as the process
        process = subprocess.Popen(  # noqa: S603  # our own modules
            self._command,
            env={**os.environ, **self._environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=printed,
            encoding="utf-8",
        )
        return self._running.setdefault(os.getpid(), _Running(process, printed))


_children: list[ChildProcess] = []


@atexit.register
def end_all() -> None:
    """End the processes of this one: modules that one run imported are not those of the next."""
    for child in _children:
        child.close()
