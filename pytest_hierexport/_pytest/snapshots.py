"""The snapshot test of a model: whether there is a snapshot, whether it fits, what changed."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_hierexport._calls.names import one_line
from pytest_hierexport._errors import UsageError
from pytest_hierexport._pytest.failures import CheckFailed

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

    from pytest_hierexport._cases import Case
    from pytest_hierexport._pytest.run import Run

__all__ = ["check_snapshot", "hierarchy_snapshot", "is_updating", "unused_ignored"]


def hierarchy_snapshot(request: pytest.FixtureRequest) -> SnapshotAssertion:
    """Return syrupy's snapshot, keeping hierarchies in the way of this package.

    Raises:
        UsageError: syrupy does not take part in the run.
    """
    if not request.config.pluginmanager.has_plugin("syrupy"):
        raise UsageError("syrupy to take part in the run", found="it is switched off", do="drop -p no:syrupy")
    from pytest_hierexport._pytest.extension import HierarchySnapshotExtension

    snapshot: SnapshotAssertion = request.getfixturevalue("snapshot")
    return snapshot.use_extension(HierarchySnapshotExtension)


@contextmanager
def unused_ignored(config: pytest.Config) -> Iterator[None]:
    """Keep syrupy from looking for unused snapshots where tests are listed alone: none of them uses any.

    syrupy 7 fails the listing for them. Its own option says not to; syrupy warns of it in its summary, so that the
    option is set no longer than syrupy's judgement takes.
    """
    option = config.option
    if not option.collectonly or getattr(option, "disable_unused_snapshots", True):
        yield
        return
    option.disable_unused_snapshots = True
    try:
        yield
    finally:
        option.disable_unused_snapshots = False


def is_updating(config: pytest.Config) -> bool:
    """Whether snapshots are written in this run."""
    return bool(
        config.getoption("update_snapshots", default=False)
        or config.getoption("update_new_snapshots_only", default=False)
    )


def check_snapshot(request: pytest.FixtureRequest, run: Run, case: Case, text: str) -> None:
    """Hold a hierarchy to its snapshot, or write that where snapshots are updated.

    Raises:
        pytest.fail.Exception: There is no snapshot, or another.
        pytest.skip.Exception: There is no folder of snapshots yet.
    """
    from pytest_hierexport._pytest.extension import snapshot_file

    file = snapshot_file(run.anchor(case), case.name)
    update = _update_command(run, case)
    if not file.exists() and not is_updating(run.config):
        if not file.parent.exists() and not run.settings.require_snapshots:
            pytest.skip(f"there are no snapshots yet; to make them: {update_all(run)}")
        head = [f"  expected  {_shown(run, file)}", "  found     no such file"]
        raise _failed(run, case, f"{case.name} has no snapshot", head, f"write it: {update}")
    snapshot = hierarchy_snapshot(request)
    if snapshot == text:
        return
    if is_updating(run.config) and (error := snapshot.executions[snapshot.num_executions - 1].exception):
        head = [f"  expected  {_shown(run, file)} to be written", f"  found     {error}"]
        raise _failed(
            run, case, f"the snapshot of {case.name} was not written", head, f"let it be written, then {update}"
        )
    raise _changed(run, case, file, text, update)


def _changed(run: Run, case: Case, file: Path, text: str, update: str) -> CheckFailed:
    from pytest_hierexport._snapshot.diff import diff

    changes = [f"    {line}" for line in diff(file.read_text(encoding="utf-8"), text)]
    head = [f"  expected  {_shown(run, file)}", "  found     (- gone, + new, ~ other operators)", *changes, ""]
    to_do = f"read the change; where it is meant: {update}"
    return _failed(run, case, f"the hierarchy of {case.name} has changed", head, to_do)


def _failed(run: Run, case: Case, title: str, lines: list[str], to_do: str) -> CheckFailed:
    return CheckFailed(
        "\n".join(
            [
                one_line(title),
                *lines,
                f"  to do     {to_do}",
                f"  kept      {run.keep(case)}",
                f"  repeat    {run.repeat(case, 'test_snapshot')}",
            ]
        )
    )


def _update_command(run: Run, case: Case) -> str:
    return f"{run.repeat(case, 'test_snapshot')} --snapshot-update"


def update_all(run: Run) -> str:
    """Return the command that updates the snapshots of all models, removes orphans and touches no other test's."""
    return shlex.join(["pytest", *run.options(), "-m", "hierexport", "--snapshot-update"])


def _shown(run: Run, file: Path) -> str:
    return os.path.relpath(file, run.config.invocation_params.dir)
