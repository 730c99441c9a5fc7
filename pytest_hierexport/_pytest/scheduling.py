"""Schedules tests on xdist's workers: a model's tests on one worker, every other test on any."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from xdist.scheduler import LoadFileScheduling, LoadGroupScheduling, LoadScopeScheduling

from pytest_hierexport._report.results import is_item

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController


class ByScope(LoadScopeScheduling):  # type: ignore[misc]  # xdist ships no types
    """Survives workers that die, which xdist 3.8 does not.

    Its `remove_node` requeues what the dead worker had finished, as empty units that no worker ever completes
    (pytest-dev/pytest-xdist 1323, 1363, 1378), and the test that the worker died of, which ends the next worker
    as well (1371). It also assigns tests to a replacement that is still collecting (1362), and leaves one with a
    single test, for which it waits forever, because a worker starts a test only when it knows the next (1327).
    Remove these methods when a release corrects all of it.
    """

    def remove_node(self, node: WorkerController) -> str | None:
        """Forget a worker; put the tests that it did not begin at the head of the queue.

        No tests are assigned here: the worker that runs them must find the crash marker. Every worker that may take
        more has at least two tests waiting, and asks again when it finishes one.

        Returns:
            The id of the test that the worker died of; None where it had none left.
        """
        workload = self.assigned_work.pop(node)
        if self.collection is None:
            self.registered_collections.pop(node, None)
        pending = [(scope, test) for scope, unit in workload.items() for test, done in unit.items() if not done]
        if not pending:
            return None
        crashed: str = pending[0][1]
        left: dict[str, dict[str, bool]] = {}
        for scope, test in pending[1:]:
            left.setdefault(scope, {})[test] = False
        for scope, unit in reversed(left.items()):
            self.workqueue[scope] = unit
            self.workqueue.move_to_end(scope, last=False)
        return crashed

    def add_node_collection(self, node: WorkerController, collection: Sequence[str]) -> None:
        """Note what a worker collected; end the run where a replacement collected something else."""
        super().add_node_collection(node, collection)
        if node not in self.registered_collections:
            pytest.exit(
                f"worker {node.gateway.id} replaces one that died and collected other tests than it: "
                "see what changes the collection while tests run",
                returncode=pytest.ExitCode.TESTS_FAILED,
            )

    def _reschedule(self, node: WorkerController) -> None:
        if node not in self.registered_collections:
            return  # It is scheduled when it has collected.
        super()._reschedule(node)
        while not node.shutting_down and self._pending_of(self.assigned_work[node]) < 2:
            super()._reschedule(node)

    def _assign_work_unit(self, node: WorkerController) -> None:
        # The worker may have died before xdist noticed: `remove_node` requeues its tests.
        with suppress(OSError):
            super()._assign_work_unit(node)


class ByModel(ByScope):
    """Groups tests by model, so that it is exported and loaded once; all other tests are scheduled one by one."""

    def _split_scope(self, nodeid: str) -> str:
        scope, _, test = nodeid.rpartition("::")
        return scope if is_item(test) else nodeid


class _ByFile(ByScope, LoadFileScheduling):  # type: ignore[misc]
    pass


class _ByGroup(ByScope, LoadGroupScheduling):  # type: ignore[misc]
    pass


_SCHEDULERS: dict[str, type[ByScope]] = {
    "load": ByModel,
    "loadscope": ByScope,
    "loadfile": _ByFile,
    "loadgroup": _ByGroup,
}


def scheduler(config: pytest.Config, log: Any) -> ByScope | None:
    """Return the scheduler for a `--dist`; None where xdist's own survives a worker that dies."""
    kind = _SCHEDULERS.get(config.getoption("dist"))
    return None if kind is None else kind(config, log)
