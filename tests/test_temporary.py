from __future__ import annotations

import os
import shutil
import tempfile
from collections import namedtuple
from pathlib import Path

import pytest

from projects import Project
from pytest_hierexport._errors import UsageError
from pytest_hierexport._files.temporary import use_folder_with_room

MODELS = "--hierexport-models=my_model.py::build"


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the folder that TMPDIR names; Python has not looked at it yet."""
    folder = tmp_path / "asked"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> set[Path]:
    """Give a set: folders that are put into it have a kilobyte left."""
    folders: set[Path] = set()
    usage = namedtuple("usage", "free")  # noqa: PYI024  # as shutil's

    def disk_usage(folder: Path) -> object:
        return usage(1024 if folder in folders else 1 << 30)

    monkeypatch.setattr(shutil, "disk_usage", disk_usage)
    return folders


def test_the_folder_that_was_asked_for_is_taken_in_silence(asked: Path) -> None:
    assert use_folder_with_room() == ""
    assert tempfile.gettempdir() == os.environ["TMPDIR"] == str(asked)


def test_a_full_folder_is_a_warning_and_another_is_taken(asked: Path, full: set[Path]) -> None:
    full.add(asked)
    warning = use_folder_with_room()
    assert warning.startswith(f"{asked} has no room")
    assert warning.endswith(os.environ["TMPDIR"])
    assert tempfile.gettempdir() == os.environ["TMPDIR"] != str(asked)


def test_a_missing_folder_is_a_warning(asked: Path) -> None:
    asked.rmdir()
    assert use_folder_with_room().startswith(f"{asked} has no room or cannot be written")


def test_no_folder_with_room_is_a_usage_error(asked: Path, full: set[Path]) -> None:
    full.update([asked, Path("/tmp"), Path("/var/tmp"), Path.cwd()])  # noqa: S108
    with pytest.raises(UsageError, match="TMPDIR"):
        use_folder_with_room()


def test_run_continues_without_the_requested_temporary_folder(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(project.path / "missing"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    result = project.run(MODELS, "-k", "MUST-002", "-n", "1")
    assert result.ret == 0
    warnings = [line for line in result.outlines if line.startswith("warning: ")]
    assert [line for line in warnings if "missing has no room or cannot be written" in line] == warnings != []


@pytest.mark.parametrize("rule", ["MUST-001", "MUST-005", "OWN-001"])
def test_full_disk_during_a_rule_fails_no_rule(project: Project, rule: str) -> None:
    project.write(
        "conftest.py",
        """
        import errno, os
        import pytest
        from pytest_hierexport._rules.base import Rule

        def full(*_, **more):
            raise OSError(errno.ENOSPC, "No space left on device", "model.onnx")

        def fill(exported):
            full()

        def pytest_hierexport_rules(config):
            return [Rule("OWN-001", "the disk has room", fill)]

        @pytest.hookimpl(wrapper=True)
        def pytest_runtest_call(item):
            import onnx_ir
            import torch

            if item.name.startswith("test_must"):
                os.fsync = torch.save = onnx_ir.save = full
            return (yield)
        """,
    )
    project.write("first_test.py", "def test_first(hierexport_export): ...")
    result = project.run(MODELS, "-k", f"first or {rule}")
    result.stdout.fnmatch_lines([f"build: {rule} could not be checked", "*found *No space left on device: model.onnx*"])
    assert "Traceback" not in result.stdout.str()
    assert "breaks it" not in result.stdout.str()
