"""Runs a Python process that answers requests: the plain exporter of MUST-005, the second export of MUST-008."""

from __future__ import annotations

import atexit
import io
import json
import os
import subprocess
import sys
import tempfile
from typing import IO, Any

__all__ = ["ChildEndedError", "ChildProcess"]


class ChildEndedError(Exception):
    """The process ended before it answered."""


class ChildProcess:
    """A process that runs `peer.serve`: it imports torch once for all requests, and ends with this process.

    It starts at the first request, and again at the next one after it has died.

    Args:
        arguments: Python's arguments: the file or module that serves, with its options.
        environment: The variables that differ from this process's.
    """

    def __init__(self, *arguments: str, **environment: str) -> None:
        """Start nothing yet."""
        self._command = [sys.executable, *arguments]
        self._environment = environment
        self._process: subprocess.Popen[str] | None = None
        self._printed: IO[bytes] = io.BytesIO()
        atexit.register(self.close)

    def ask(self, **request: Any) -> Any:
        """Return the answer to a request; it gets this process's `sys.path` too.

        Raises:
            ChildEndedError: The process ended; the message has its exit code and its last line.
        """
        process = self._process = self._process or self._start()
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
        process, self._process = self._process, None
        if process is None:
            return ""
        process.communicate()
        with self._printed as printed:
            printed.seek(0)
            lines = printed.read().decode(errors="replace").strip().splitlines()
        return f"{process.returncode}: {lines[-1] if lines else 'it said nothing'}"

    def _start(self) -> subprocess.Popen[str]:
        self._printed = tempfile.TemporaryFile()  # noqa: SIM115  # open as long as the process
        return subprocess.Popen(  # noqa: S603  # our own modules
            self._command,
            env={**os.environ, **self._environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._printed,
            encoding="utf-8",
        )
