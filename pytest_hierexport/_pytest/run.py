"""Bundles what the items, fixtures and hooks of a session with models share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_hierexport._cases import Case
from pytest_hierexport._errors import CrashError, HangError
from pytest_hierexport._pytest.clock import StageClock
from pytest_hierexport._pytest.commands import repeat_command
from pytest_hierexport._pytest.crashes import Crash, Crashes
from pytest_hierexport._pytest.outcome import ExportOutcome
from pytest_hierexport._pytest.plan import Plan
from pytest_hierexport._pytest.store import ExportStore
from pytest_hierexport._pytest.time_limit import TimedOut, TimeLimit


@dataclass(frozen=True)
class Run:
    """A session with models."""

    plan: Plan
    store: ExportStore
    crashes: Crashes
    folder: Path
    """The run folder, outside the project, which all processes of the run share."""
    time_limit: TimeLimit
    """Stops what takes too long in this process."""
    clock: StageClock
    """Measures the stages in this process."""

    @contextmanager
    def limited(self, case: Case, test: str) -> Iterator[None]:
        """Give a test, or what it needs of a case, the case's time.

        Raises:
            HangError: It takes longer, and Python could stop it; otherwise the process ends.
        """
        try:
            with self.time_limit.limited(self.plan.item_id(case, test), self.plan.limit(case)):
                yield
        except TimedOut as error:
            crash = Crash(case.name, test, self.time_limit.process, error.ending, hung=True)
            self.crashes.add(crash)
            raise self.crash_error(case, crash) from None

    def succeeded(self, case: Case) -> ExportOutcome:
        """Return the outcome of a case's export, which succeeded.

        Raises:
            HierexportError: It failed, or the model ended a process of the run.
        """
        crash = self.crashes.of(case.name)
        if crash is not None:
            raise self.crash_error(case, crash)
        return self.store.succeeded(case)

    def crash_error(self, case: Case, crash: Crash) -> CrashError:
        """Return the error of the tests of a model that ended a process, or did not finish in time."""
        found = f"{crash.process} {crash.ending} in {crash.test}"
        if crash.hung:
            return HangError(
                f"each test of {crash.model} to finish in its time",
                found=found,
                do="find what it waits for; where it needs longer, give it more time with --hierexport-timeout, or "
                "timeout in a manifest",
            )
        repeat = repeat_command(self.plan, case, crash.test, "-n0")
        return CrashError(
            f"{crash.model} to run without ending its process",
            found=found,
            do=f"run that test without workers, where all that it prints is seen: {repeat}",
        )


RUN: pytest.StashKey[Run] = pytest.StashKey()
"""Where a session's configuration keeps its run."""
