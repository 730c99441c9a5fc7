"""Compares a model's hierarchy with its snapshot, and composes the message that says what changed."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_hierexport._cases import Case
from pytest_hierexport._errors import UsageError
from pytest_hierexport._files.unrecorded import unrecorded
from pytest_hierexport._pytest.commands import repeat_command, update_command
from pytest_hierexport._pytest.locating import places
from pytest_hierexport._pytest.messages import CheckFailed, item_message
from pytest_hierexport._pytest.options import is_updating
from pytest_hierexport._pytest.orphans import former
from pytest_hierexport._pytest.run import Run
from pytest_hierexport._rules.base import Violation
from pytest_hierexport._snapshot import has_conflict, is_detailed
from pytest_hierexport._snapshot.diff import Difference, compare, headline, lines_of
from pytest_hierexport._text import aligned, one_line

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

_NONE = Difference()


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
def check_snapshot(request: pytest.FixtureRequest, run: Run, case: Case, text: str) -> None:
    """Compare a hierarchy with its snapshot, or write that where snapshots are updated.

    Raises:
        CheckFailed: There is no snapshot, or another.
        pytest.skip.Exception: There is no folder of snapshots yet.
    """
    file, is_update = run.plan.snapshot(case), is_updating(run.plan.config)
    failures = _Failures(run, case, request.node.name, file)
    if not file.exists() and not is_update:
        if not file.parent.exists() and not run.plan.settings.chosen.require_snapshots:
            pytest.skip(f"there are no snapshots yet; to make them: {update_command(run.plan)}")
        raise failures.absent(text)
    if (why := _unreadable(file)) is not None and not (file.is_file() and is_update):
        raise failures.unreadable(why)
    snapshot = hierarchy_snapshot(request)
    if snapshot == text:
        return
    if is_update and (error := snapshot.executions[snapshot.num_executions - 1].exception):
        raise failures.unwritten(str(error))
    committed = file.read_text(encoding="utf-8")
    if is_detailed(committed) is not case.details:
        raise failures.made_with_other_details()
    raise failures.changed(committed, text)


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


@dataclass(frozen=True)
class _Failures:
    """What the test of one model says where its snapshot is not the one that was expected."""

    run: Run
    case: Case
    test: str
    """The name of the test."""
    file: Path

    def absent(self, text: str) -> CheckFailed:
        """Say that there is none, and which one of a former model has the hierarchy."""
        found, to_do = "no such file", f"write it: {self._update}"
        if (of_former := former(self.run.plan, self.case, self.file, text)) is not None:
            old, content = self.run.plan.shown(of_former[0]), "the same" if of_former[1] else "another"
            found = f"no such file, but {old} of no selected model, with {content} hierarchy"
            to_do = f"rename {old} if the model was renamed, else {to_do}"
        return self._failed(f"{self.case.name} has no snapshot", "", found, to_do)

    def unreadable(self, why: str) -> CheckFailed:
        """Say why the file cannot be read."""
        title = f"the snapshot of {self.case.name} cannot be read"
        return self._failed(title, " to be a snapshot", why, f"delete it, then {self._update}")

    def unwritten(self, why: str) -> CheckFailed:
        """Say why the file was not written."""
        title = f"the snapshot of {self.case.name} was not written"
        return self._failed(title, " to be written", why, f"let it be written, then {self._update}")

    def made_with_other_details(self) -> CheckFailed:
        """Say that the run has details and the snapshot has none, or the other way."""
        to_do = f"repeat it with details, here or by details = true in a manifest: {self._repeat} --hierexport-details"
        made, wanted = "with", "without"
        if self.case.details:
            to_do = f"leave them out, or write it with details: {self._update}"
            made, wanted = wanted, made
        title = f"the snapshot of {self.case.name} was made {made} details"
        return self._failed(title, " compared as it was made", f"a run {wanted} details", to_do)

    def changed(self, committed: str, text: str) -> CheckFailed:
        """Show what changed from the committed text."""
        difference = compare(committed, text)
        if not [*difference]:
            title = f"the text of the snapshot of {self.case.name} has changed"
            found = "the same modules and operators, but lines twice, in another order or without an end"
            return self._failed(title, " as a run writes it", found, f"write it anew: {self._update}")
        found = "(- gone, + new, ~ other operators, > moved, = renamed)"
        to_do = f"read the change; where it is meant: {self._update}"
        return self._failed(f"the hierarchy of {self.case.name} has changed", "", found, to_do, difference)

    @property
    def _repeat(self) -> str:
        return repeat_command(self.run.plan, self.case, self.test)

    @property
    def _update(self) -> str:
        return f"{self._repeat} --snapshot-update"

    def _failed(self, title: str, expected: str, found: str, to_do: str, difference: Difference = _NONE) -> CheckFailed:
        """Return the failure, with what differs; `expected` is said of the file."""
        expected = f"{self.run.plan.shown(self.file)}{expected}"
        shown = [f"    {line}" for line in lines_of(difference)]
        if shown:
            where = "\n".join(places(self.run, self.case, difference))
            shown += ["", *aligned([("where", where)] if where else [])]
        found_lines = aligned([("expected", expected), ("found", found)])
        lines = [one_line(title), *found_lines, *shown, *aligned([("to do", to_do)])]
        findings, head = [Violation("", expected, found, to_do)], headline(difference)
        told = item_message(self.run, self.case, self.test, lines, findings, headline=head, difference=difference)
        return CheckFailed(told)
