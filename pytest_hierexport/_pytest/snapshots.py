"""Compares a model's hierarchy with its snapshot, and words what changed."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_hierexport._errors import UsageError
from pytest_hierexport._files.unrecorded import unrecorded
from pytest_hierexport._pytest.commands import repeat_command, update_command
from pytest_hierexport._pytest.ids import snapshot_file
from pytest_hierexport._pytest.messages import CheckFailed, item_message
from pytest_hierexport._pytest.options import is_updating
from pytest_hierexport._pytest.orphans import former
from pytest_hierexport._report.failures import Finding
from pytest_hierexport._text import aligned, one_line

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

    from pytest_hierexport._cases import Case
    from pytest_hierexport._pytest.run import Run


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
    from pytest_hierexport._snapshot import is_detailed

    plan = run.plan
    failed = partial(_failed, run, case, test=request.node.name)
    file = snapshot_file(plan.anchor(case), case.name)
    shown = os.path.relpath(file, plan.config.invocation_params.dir)
    repeat = repeat_command(plan, case, request.node.name)
    update = f"{repeat} --snapshot-update"
    if not file.exists() and not is_updating(plan.config):
        if not file.parent.exists() and not plan.settings.chosen.require_snapshots:
            pytest.skip(f"there are no snapshots yet; to make them: {update_command(plan)}")
        instead, to_do = "no such file", f"write it: {update}"
        if (found_former := former(plan, case, file, text)) is not None:
            old, is_same = found_former
            old_name = os.path.relpath(old, plan.config.invocation_params.dir)
            content = "the same" if is_same else "another"
            instead = f"no such file, but {old_name} of no selected model, with {content} hierarchy"
            to_do = f"rename {old_name} if the model was renamed, else {to_do}"
        found = [("expected", shown), ("found", instead)]
        raise failed(f"{case.name} has no snapshot", found, to_do)
    if (unreadable := _unreadable(file)) is not None and not (file.is_file() and is_updating(plan.config)):
        found = [("expected", f"{shown} to be a snapshot"), ("found", unreadable)]
        title, to_do = f"the snapshot of {case.name} cannot be read", f"delete it, then {update}"
        raise failed(title, found, to_do)
    snapshot = hierarchy_snapshot(request)
    if snapshot == text:
        return
    if is_updating(plan.config) and (error := snapshot.executions[snapshot.num_executions - 1].exception):
        found = [("expected", f"{shown} to be written"), ("found", str(error))]
        raise failed(f"the snapshot of {case.name} was not written", found, f"let it be written, then {update}")
    committed = file.read_text(encoding="utf-8")
    if (detailed := is_detailed(committed)) is not case.details:
        made, wanted = ("with", "without") if detailed else ("without", "with")
        to_do = f"leave them out, or write it with details: {update}"
        if detailed:
            to_do = f"repeat it with details, here or by details = true in a manifest: {repeat} --hierexport-details"
        found = [("expected", f"{shown} compared as it was made"), ("found", f"a run {wanted} details")]
        raise failed(f"the snapshot of {case.name} was made {made} details", found, to_do)
    found = [("expected", shown), ("found", "(- gone, + new, ~ other operators, > moved, = renamed)")]
    title, to_do = f"the hierarchy of {case.name} has changed", f"read the change; where it is meant: {update}"
    raise failed(title, found, to_do, texts=(committed, text))


def _unreadable(file: Path) -> str | None:
    """Return why a snapshot cannot be read, None where it can, or where there is none."""
    try:
        file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except OSError as error:
        return "a folder" if file.is_dir() else str(error.strerror)
    except UnicodeDecodeError:
        return "not UTF-8 text"
    return None


def _failed(
    run: Run,
    case: Case,
    title: str,
    found: list[tuple[str, str]],
    to_do: str,
    *,
    test: str,
    texts: tuple[str, str] = ("", ""),
) -> CheckFailed:
    """Return the failure of a snapshot, with the changes from one text to the other."""
    from pytest_hierexport._pytest.locating import places
    from pytest_hierexport._snapshot.diff import compare, headline, lines_of

    difference = compare(*texts)
    changed = lines_of(difference)
    where = [("where", "\n".join(places(run, case, difference)))] if changed else []
    shown = [
        *(f"    {line}" for line in changed),
        *([""] if changed else []),
        *aligned([each for each in where if each[1]]),
    ]
    lines = [one_line(title), *aligned(found), *shown, *aligned([("to do", to_do)])]
    (_, expected), (_, instead) = found
    findings = [Finding(expected, instead, to_do)]
    told = item_message(run, case, test, lines, findings, headline=headline(difference), difference=difference)
    return CheckFailed(told)
