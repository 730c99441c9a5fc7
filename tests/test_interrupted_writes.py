"""Ctrl-C at each place where a run writes a snapshot or keeps a result: nothing is lost, and no verdict is wrong."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest

from projects import OWN_RULE, Project
from pytest_hierexport.cli import main

UPDATE = ("--hierexport-models=my_model.py::build", "--hierexport-cache=cache", "-k", "snapshot or 002 or OWN")
OLD, NEW = "/Tower: Old 1\n", "/Tower\n/Tower/Block.{0..2} ×3: Gemm 1, Relu 1\n"


class Watch:
    """Interrupts a fork of this process at one of its audit events (https://docs.python.org/3/library/audit_events.html)."""

    def __init__(self) -> None:
        self.event, self.folder, self.left, self.process = "", "", 0, os.getpid()

    def __call__(self, event: str, args: tuple[object, ...]) -> None:
        if event == self.event and os.getpid() != self.process and self.folder in str(args):
            writes = event != "open" or (isinstance(args[2], int) and args[2] & os.O_CREAT)
            self.left -= 1 if writes else 0
            if writes and not self.left:
                raise KeyboardInterrupt


WATCH = Watch()
sys.addaudithook(WATCH)


@pytest.fixture
def project(project: Project) -> Iterator[Project]:
    project.write("conftest.py", OWN_RULE)
    project.write("__hierexport__/build.txt", OLD)
    project.write("__hierexport__/other.txt", OLD)
    yield project
    WATCH.event = ""


PLACES = {
    "before a snapshot is staged": ("__hierexport__", "tempfile.mkdtemp", 1),
    "as a snapshot is written": ("__hierexport__", "open", 1),
    "before a snapshot is moved": ("__hierexport__", "os.rename", 1),
    "after a snapshot was moved": ("__hierexport__", "shutil.rmtree", 1),
    "as the export is locked": ("cache", "open", 1),
    "as the record of the export is kept": ("cache", "open", 3),
    "as the file of the export is kept": ("cache", "shutil.copyfile", 2),
    "before the export is moved": ("cache", "os.rename", 2),
    "after the export was moved": ("cache", "shutil.rmtree", 1),
    "as the lock is given back": ("cache", "os.remove", 2),
    "as the record of a verdict is kept": ("cache", "open", 6),
    "before a failure is moved": ("cache", "os.rename", 4),
}


@pytest.mark.parametrize("place", PLACES)
def test_ctrl_c_loses_no_snapshot_and_keeps_no_wrong_verdict(place: str, project: Project) -> None:
    folder, WATCH.event, WATCH.left = PLACES[place]
    WATCH.folder = str(project.path / folder)
    result = project.run(*UPDATE, "--snapshot-update")
    WATCH.event = ""
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["model *", "build *", "!!* KeyboardInterrupt !!*"])
    assert "INTERNALERROR" not in result.stdout.str()
    snapshots = {path.name: path.read_text() for path in (project.path / "__hierexport__").glob("*.txt")}
    assert snapshots in [{"build.txt": text, "other.txt": OLD} for text in (OLD, NEW)]
    for arguments in (["--snapshot-update"], []):
        project.run(*UPDATE, *arguments).assert_outcomes(passed=2, failed=1, deselected=9)
    assert (project.path / "__hierexport__" / "build.txt").read_text() == NEW
    assert main(["cache", "verify", str(project.path / "cache")]) == 0
