"""Ends a session at SIGTERM as at Ctrl-C, so that it removes its temporary files; pytest itself has no handler."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import NoReturn

import pytest


class Terminated(KeyboardInterrupt):
    """The process was asked to end: no `except Exception` stops it, and pytest ends the session."""


class TerminationPlugin:
    """Handles SIGTERM until the session is over, unless another handler is installed."""

    def __init__(self, first: Callable[[], None]) -> None:
        """Install the handler, which calls `first` before the session ends."""
        self._first = first
        self._terminated = False
        in_main = threading.current_thread() is threading.main_thread()
        if in_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._end)

    def _end(self, *_: object) -> NoReturn:
        self._terminated = True
        # A second one ends the process at once.
        self.pytest_unconfigure()
        self._first()
        raise Terminated("ended by SIGTERM")

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Exit with the code that shells give for a process that SIGTERM ended."""
        if self._terminated:
            session.exitstatus = 128 + signal.SIGTERM

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """Leave SIGTERM as it was."""
        if signal.getsignal(signal.SIGTERM) == self._end:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
