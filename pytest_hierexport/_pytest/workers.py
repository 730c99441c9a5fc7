"""Connects the controller to xdist's workers: the run that they share, the scheduler, the cause of their end."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import pytest

from pytest_hierexport._cases import Case
from pytest_hierexport._pytest.crashes import Crash, HangFiles, ending
from pytest_hierexport._pytest.plan import Plan
from pytest_hierexport._pytest.run import Run
from pytest_hierexport._pytest.summary import Summary, mark_crash

if TYPE_CHECKING:
    from xdist.scheduler import Scheduling
    from xdist.workermanage import WorkerController

RUN_NAME = "hierexport"
"""The key of the run folder's name in a worker's input."""
_WAIT = 5.0
"""The seconds that a worker has to end after its connection did."""


def is_worker(config: pytest.Config) -> bool:
    """Whether this process is a worker of xdist."""
    return hasattr(config, "workerinput")


def process_name(config: pytest.Config) -> str:
    """Return what messages call this process."""
    given: dict[str, Any] | None = getattr(config, "workerinput", None)
    return "pytest" if given is None else f"worker {given['workerid']}"


class WorkersPlugin:
    """The hooks of xdist in the process that starts the workers."""

    def __init__(self, run: Run, summary: Summary) -> None:
        self.run, self.summary = run, summary
        self._workers: list[WorkerController] = []

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: WorkerController) -> None:
        """Give every worker the same exports."""
        node.workerinput[RUN_NAME] = self.run.folder.name
        self._workers.append(node)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> Scheduling | None:
        """Keep a model's tests on one worker where xdist is free to choose, and survive a worker that dies."""
        from pytest_hierexport._pytest.scheduling import scheduler

        return scheduler(config, log)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        """Note which models have tests."""
        found = (_check_of(self.run.plan, item) for item in ids)
        self.summary.note_collected({each[0].name for each in found if each is not None})

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, crashitem: str, report: pytest.TestReport) -> None:
        """Record that a model ended a worker, and fail its test with the cause."""
        found = _check_of(self.run.plan, crashitem)
        if found is None:
            return
        case, test, _ = found
        node: WorkerController = report.node
        process = f"worker {node.gateway.id}"  # as the worker itself calls it
        code = _exit_code(node)
        hang = HangFiles.of(self.run.time_limit.folder, process).crash(case.name, test, process)
        crash = hang or Crash(case.name, test, process, ending(code))
        self.run.crashes.add(crash)
        mark_crash(self.run, report, found, crash)

    def terminate(self) -> None:
        """End the workers at once."""
        for process in map(_process, self._workers):
            if process is not None and process.poll() is None:
                process.terminate()


def _check_of(plan: Plan, item: str) -> tuple[Case, str, str] | None:
    """Return the case, test and check of an id; parameters that a fixture gives all tests follow those of ours."""
    start, _, given = item.removesuffix("]").rpartition("[")
    heads = accumulate(given.split("-"), "{}-{}".format)
    names = (item, *(f"{start}[{head}]" for head in reversed(list(heads))), start)
    known = next((name for name in names if name in plan.checks), None)
    if known is None:
        return None
    case, test, check = plan.checks[known]
    return case, item[len(known) - len(test) :], check


def _process(node: WorkerController) -> subprocess.Popen[bytes] | None:
    """Return a worker's process, for which execnet has no public name; None where it runs on another machine."""
    process = getattr(getattr(node.gateway, "_io", None), "popen", None)
    return process if isinstance(process, subprocess.Popen) else None


def _exit_code(node: WorkerController) -> int | None:
    process = _process(node)
    try:
        return None if process is None else process.wait(_WAIT)
    except subprocess.TimeoutExpired:
        return None
