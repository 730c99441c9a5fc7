"""Ends a session at SIGTERM as at Ctrl-C, so that it removes its temporary files; pytest itself has no handler."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import NoReturn

import pytest

__all__ = ["Terminated", "TerminationPlugin"]


class Terminated(KeyboardInterrupt):
    """The process was asked to end: no `except Exception` stops it, and pytest ends the session."""


class TerminationPlugin:
    """Handles SIGTERM until the session is over, unless another handler is installed."""

    def __init__(self, first: Callable[[], None]) -> None:
        """Install the handler.

        Args:
            first: Called before the session ends.
        """
        self._first = first
        self._terminated = False
        in_main = threading.current_thread() is threading.main_thread()
        self._installed = in_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        if self._installed:
            signal.signal(signal.SIGTERM, self._end)

    def _end(self, *_: object) -> NoReturn:
        self._terminated = True
        # A second one ends the process at once.
        self._restore()
        self._first()
        raise Terminated("ended by SIGTERM")

    def _restore(self) -> None:
        if self._installed and signal.getsignal(signal.SIGTERM) == self._end:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Exit with the code that shells give for a process that SIGTERM ended."""
        if self._terminated:
            session.exitstatus = 128 + signal.SIGTERM

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """Leave SIGTERM as it was."""
        self._restore()
