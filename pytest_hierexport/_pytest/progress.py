"""Shows what the processes of the run work on, behind the progress of pytest, while nothing else is printed.

    models.toml ......       hierexport: bert: exporting 4 s, vit: checking MUST-001 12 s

A terminal alone shows it. Before pytest prints, the text is erased and the cursor put back.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from pytest_hierexport._pytest.clock import UnderWay, now, under_way
from pytest_hierexport._text import one_line

PROGRESS = "progress"
"""The folder, in the run folder, in which processes tell what they work on."""
_INTERVAL = 0.5
"""The seconds between two looks."""
_BRIEF = 1.0
"""The seconds after which a stage is worth showing."""
_LEAST = 15
"""The columns that a text needs to say anything."""


def shows_progress(config: pytest.Config) -> bool:
    """Whether the progress of models is shown: on a terminal that nothing else writes to while tests run."""
    # The plugins of pytest that declare an option or an ini value may be switched off.
    if config.option.collectonly or config.getoption("verbose", -1) < 0 or config.getoption("capture", "no") == "no":
        return False
    logs = config.pluginmanager.has_plugin("logging") and (config.getini("log_cli") or config.option.log_cli_level)
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb" and not logs


def progress_text(running: Sequence[UnderWay], now: float, columns: int) -> str:
    """Return what is shown of stages that have taken a while, in so many columns; empty where that is nothing."""
    times = [(each, f"{each.stage} {now - each.since:.0f} s") for each in running if now - each.since >= _BRIEF]
    named = one_line(", ".join(f"{each.model}: {text}" for each, text in times))
    if not times or columns < _LEAST:
        return ""
    texts = [f"hierexport: {named}", named, one_line(", ".join(text for _, text in times))]
    return next((text for text in texts if len(text) <= columns), f"{named[: columns - 1]}…")


class ProgressPlugin:
    """Draws the text from a thread of its own, between the outputs of pytest."""

    def __init__(self, config: pytest.Config, folder: Path) -> None:
        self.folder = folder
        self._config = config
        self._lock = threading.Lock()
        self._shown = False
        self._quiet_until = 0.0
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        # While a test runs, pytest redirects the standard output.
        self._terminal = os.dup(sys.stdout.fileno())

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self) -> None:
        """Start the thread with the first test, after any fork of this process; make room for pytest's output."""
        self._erase()
        if self._thread is None:
            self._thread = threading.Thread(target=self._draw_often, name="hierexport-progress", daemon=True)
            self._thread.start()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self) -> None:
        """Make room for pytest's output."""
        self._erase()

    pytest_runtest_logfinish = pytest_runtest_logreport

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Show no more."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        self._erase()

    def pytest_unconfigure(self) -> None:
        """Close the terminal."""
        os.close(self._terminal)

    def _draw_often(self) -> None:
        while not self._ended.wait(_INTERVAL):
            with self._lock:
                if now() > self._quiet_until:
                    self._draw()

    def _draw(self) -> None:
        column = self._config.get_terminal_writer().width_of_current_line
        columns = shutil.get_terminal_size().columns - column - 2
        text = progress_text(under_way(self.folder), now(), columns)
        if text or self._shown:
            # Each part: erase to the end of the line, the text, back to the column.
            back = "\r" + (f"\x1b[{column}C" if column else "")
            self._write(f"\x1b[K {text}{back}" if text else "\x1b[K")
        self._shown = bool(text)

    def _erase(self) -> None:
        with self._lock:
            if self._shown:
                self._write("\x1b[K")
            self._shown = False
            self._quiet_until = now() + _INTERVAL / 2

    def _write(self, text: str) -> None:
        # A terminal that is gone ends no test.
        with suppress(OSError):
            os.write(self._terminal, text.encode("utf-8", "replace"))
