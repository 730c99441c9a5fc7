"""Ends a session without workers whose model hangs in code that Python cannot interrupt.

Such a process runs no Python any more: it can write no report. A fork of it, made before the first test, looks at what
the process works on. When its time is over, the fork writes the reports and prints the failures in its place; then it
lets the process exit with code 1.
"""

from __future__ import annotations

import math
import os
import pickle
import select
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

import pytest

from pytest_hierexport._pytest.clock import now
from pytest_hierexport._pytest.crashes import Crash, Hang, HangFiles
from pytest_hierexport._pytest.run import Run
from pytest_hierexport._pytest.summary import Summary, mark_crash
from pytest_hierexport._pytest.terminal import print_summary
from pytest_hierexport._pytest.time_limit import SIGNAL

_INTERVAL = 0.5
"""The seconds between two looks."""
_PATIENCE = 5.0
"""The seconds that the process has to dump its stacks."""
_PAUSE = 0.2
"""The seconds in which a dump that is not whole grows."""
_REPORTS = "reports.jsonl"


class GuardPlugin:
    """Starts the guard, which has a copy of the summary, and tells it the reports."""

    def __init__(self, run: Run, summary: Summary, clean_up: Callable[[], None]) -> None:
        self.run, self.summary, self._clean_up = run, summary, clean_up
        self._guard = 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """Start the guard where the tests run in this process and have a limit."""
        plan, option = self.run.plan, session.config.option
        limited = any(not math.isinf(plan.limit(case)) for case in plan.cases)
        if limited and session.items and not option.collectonly and getattr(option, "dist", "no") == "no":
            self._start(session)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Tell the guard a report."""
        if self._guard:
            config = self.run.plan.config
            data = config.hook.pytest_report_to_serializable(config=config, report=report)
            told = {name: value for name, value in data.items() if _can_be_told(value)}
            with (self.run.folder / _REPORTS).open("ab") as file:
                pickle.dump(told, file)

    @pytest.hookimpl(tryfirst=True)
    def pytest_unconfigure(self) -> None:
        """End the guard."""
        if self._guard:
            os.kill(self._guard, signal.SIGKILL)
            os.waitpid(self._guard, 0)
            self._guard = 0
        if self.run.time_limit.exit_file is not None:
            self.run.time_limit.exit_file.close()
            self.run.time_limit.exit_file = None

    def _start(self, session: pytest.Session) -> None:
        end, held = os.pipe()
        _fill(held)
        sys.stdout.flush()
        sys.stderr.flush()
        with warnings.catch_warnings():
            # The fork runs no code of the threads that a conftest may have started.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._guard = os.fork()
        if self._guard == 0:
            os.close(held)
            _be_guard(self, session, end)
        os.close(end)
        # faulthandler's thread waits in the full pipe, and goes on to exit when the guard has closed it.
        self.run.time_limit.exit_file = os.fdopen(held, "wb", buffering=0)

    def finish(self, session: pytest.Session, hang: Hang) -> None:
        """Report what the process knew, and that it hangs, as far as each can be done."""
        run, config = self.run, session.config
        reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
        for report in [*self._reports(), self._failure(hang)]:
            self.summary.add(report)
            category, _, _ = config.hook.pytest_report_teststatus(report=report, config=config)
            reporter.stats.setdefault(category, []).append(report)
        run.time_limit.files.record.unlink(missing_ok=True)
        self.summary.finish()
        reporter.write_line("")
        reporter.summary_failures()
        print_summary(self.summary, reporter)
        reporter.short_test_summary()
        reporter.write_line(
            "hierexport: the run ends here, since its process hangs; under -n 1 it would go on", red=True
        )
        reporter.summary_stats()
        reporter.flush()
        self._clean_up()

    def _reports(self) -> list[pytest.TestReport]:
        config, reports = self.run.plan.config, []
        with suppress(FileNotFoundError, EOFError), (self.run.folder / _REPORTS).open("rb") as file:
            while True:
                data = pickle.load(file)  # noqa: S301  # written by the process that made this one
                reports.append(config.hook.pytest_report_from_serializable(config=config, data=data))
        return reports

    def _failure(self, hang: Hang) -> pytest.TestReport:
        """Return the report of the test that hangs."""
        run, found = self.run, self.run.plan.checks.get(hang.item)
        ending = hang.ending(run.time_limit.files.dumped())
        report = pytest.TestReport(hang.item, (hang.item, None, hang.item), {}, "failed", ending, "call")
        report.duration = hang.seconds
        if found is not None:
            case, test, _ = found
            mark_crash(run, report, found, Crash(case.name, test, run.time_limit.process, ending, hung=True))
        return report


def _can_be_told(value: object) -> bool:
    """Whether another process can read a value: hooks of a project may leave any object on a report."""
    try:
        pickle.dumps(value)
    except Exception:  # noqa: BLE001  # each class has errors of its own
        return False
    return True


def _fill(pipe: int) -> None:
    """Fill a pipe, so that the next write to it waits."""
    os.set_blocking(pipe, False)
    for size in (select.PIPE_BUF, 1):
        with suppress(BlockingIOError):
            while True:
                os.write(pipe, bytes(size))
    os.set_blocking(pipe, True)


def _be_guard(plugin: GuardPlugin, session: pytest.Session, end: int) -> NoReturn:
    """Look at what the parent does until it has ended, or has to be ended; then exit."""
    parent, files = os.getppid(), plugin.run.time_limit.files
    ended = select.poll()
    # No event is asked for: what is always reported is that the other end was closed.
    ended.register(end, 0)
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        while os.getppid() == parent and not ended.poll(_INTERVAL * 1000):
            hang = files.read()
            if hang is not None and now() > hang.deadline + _INTERVAL:
                dump_stacks(parent, files)
                plugin.finish(session, hang)
                break
    except BaseException:  # noqa: BLE001  # the fork must not go on to run the tests of its parent
        traceback.print_exc()
    # This closes the pipe, and the parent exits: after its guard, so that no process is left.
    os._exit(0)


def dump_stacks(process: int, files: HangFiles) -> None:
    """Make a process dump its stacks, which its handler does in native code, too; wait until the dump is whole.

    The handler writes word by word, and the main thread, whose line is wanted, last.
    """
    # A fork's main thread has the number of its parent's.
    last = f"hread 0x{threading.get_ident():016x}"
    os.kill(process, SIGNAL)
    until = now() + _PATIENCE
    dumped = ""
    while now() < until:
        time.sleep(_PAUSE)
        before, dumped = dumped, files.dumped()
        if last in dumped and dumped == before:
            break
