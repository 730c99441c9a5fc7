"""Compares a model's hierarchy with its snapshot, and composes the message that says what changed."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_hierexport._errors import UsageError
from pytest_hierexport._files.unrecorded import unrecorded
from pytest_hierexport._pytest.commands import update_command
from pytest_hierexport._pytest.messages import CheckedItem, CheckFailed
from pytest_hierexport._pytest.options import is_updating
from pytest_hierexport._pytest.orphans import former
from pytest_hierexport._rules.base import Violation
from pytest_hierexport._snapshot import has_conflict, is_detailed
from pytest_hierexport._snapshot.diff import compare

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion


def hierarchy_snapshot(request: pytest.FixtureRequest) -> SnapshotAssertion:
    """Return syrupy's snapshot with our extension, which writes hierarchies.

    Raises:
        UsageError: syrupy does not take part in the run.
    """
    if not request.config.pluginmanager.has_plugin("syrupy"):
        missing = importlib.util.find_spec("syrupy") is None
        found, do = ("it is not installed", "pip install syrupy") if missing else ("it is off", "drop -p no:syrupy")
        raise UsageError("syrupy to take part in the run", found=found, do=do)
    from pytest_hierexport._pytest.extension import HierarchySnapshotExtension

    snapshot: SnapshotAssertion = request.getfixturevalue("snapshot")
    return snapshot.use_extension(HierarchySnapshotExtension)


@contextmanager
def unused_ignored(config: pytest.Config) -> Iterator[None]:
    """Keep syrupy 7 from failing a mere listing of tests for unused snapshots.

    Its own option does that; its summary warns of the option, so it is set only while syrupy judges.
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


@unrecorded()
def check_snapshot(request: pytest.FixtureRequest, item: CheckedItem, text: str) -> None:
    """Compare a hierarchy with its snapshot, or write that where snapshots are updated.

    Raises:
        CheckFailed: There is no snapshot, or another.
        pytest.skip.Exception: There is no folder of snapshots yet.
    """
    plan = item.run.plan
    file, is_update, of_model = plan.snapshot(item.case), is_updating(plan.config), f"the snapshot of {item.case.name}"
    if not file.exists() and not is_update:
        if not file.parent.exists() and not plan.settings.chosen.require_snapshots:
            pytest.skip(f"there are no snapshots yet; to make them: {update_command(plan)}")
        raise _absent(item, file, text)
    if (why := _unreadable(file)) is not None and not (file.is_file() and is_update):
        finding = _finding(item, " to be a snapshot", why, f"delete it, then {_update(item)}")
        raise item.failed(f"{of_model} cannot be read", finding)
    snapshot = hierarchy_snapshot(request)
    if snapshot == text:
        return
    if is_update and (error := snapshot.executions[snapshot.num_executions - 1].exception):
        finding = _finding(item, " to be written", str(error), f"let it be written, then {_update(item)}")
        raise item.failed(f"{of_model} was not written", finding)
    committed = file.read_text(encoding="utf-8")
    if is_detailed(committed) is not item.case.details:
        raise _made_with_other_details(item, of_model)
    raise _changed(item, committed, text)


def _unreadable(file: Path) -> str | None:
    """Return why a snapshot cannot be read, None where it can, or where there is none."""
    try:
        return "the conflict markers of a merge" if has_conflict(file.read_text(encoding="utf-8")) else None
    except FileNotFoundError:
        return None
    except OSError as error:
        return "a folder" if file.is_dir() else str(error.strerror)
    except UnicodeDecodeError:
        return "not UTF-8 text"


def _absent(item: CheckedItem, file: Path, text: str) -> CheckFailed:
    """Say that there is none, and which one of a former model has the hierarchy."""
    found, to_do = "no such file", f"write it: {_update(item)}"
    if (of_former := former(item.run.plan, item.case, file, text)) is not None:
        old, content = item.run.plan.shown(of_former[0]), "the same" if of_former[1] else "another"
        found = f"no such file, but {old} of no selected model, with {content} hierarchy"
        to_do = f"rename {old} if the model was renamed, else {to_do}"
    return item.failed(f"{item.case.name} has no snapshot", _finding(item, "", found, to_do))


def _made_with_other_details(item: CheckedItem, of_model: str) -> CheckFailed:
    """Say that the run has details and the snapshot has none, or the other way."""
    if item.case.details:
        made, wanted, to_do = "without", "with", f"leave them out, or write it with details: {_update(item)}"
    else:
        made, wanted, to_do = "with", "without", "repeat it with details, here or by details = true in a manifest: "
        to_do += f"{item.repeat} --hierexport-details"
    finding = _finding(item, " compared as it was made", f"a run {wanted} details", to_do)
    return item.failed(f"{of_model} was made {made} details", finding)


def _changed(item: CheckedItem, committed: str, text: str) -> CheckFailed:
    """Show what changed from the committed text."""
    difference = compare(committed, text)
    if not [*difference]:
        title = f"the text of the snapshot of {item.case.name} has changed"
        found = "the same modules and operators, but lines twice, in another order or without an end"
        return item.failed(title, _finding(item, " as a run writes it", found, f"write it anew: {_update(item)}"))
    found = "(- gone, + new, ~ other operators, > moved, = renamed)"
    to_do = f"read the change; where it is meant: {_update(item)}"
    finding = _finding(item, "", found, to_do)
    return item.failed(f"the hierarchy of {item.case.name} has changed", finding, difference=difference)


def _update(item: CheckedItem) -> str:
    return f"{item.repeat} --snapshot-update"


def _finding(item: CheckedItem, expected: str, found: str, to_do: str) -> Violation:
    """Return what a check of a snapshot found; `expected` is said of the file."""
    plan = item.run.plan
    return Violation("", f"{plan.shown(plan.snapshot(item.case))}{expected}", found, to_do)
