"""The run folder: whose it is, and who removes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_hierexport._pytest.scratch import RunFolder

RUN = "hierexport-" + "0123456789abcdef" * 2


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def abandoned(home: Path) -> Path:
    """Make what a killed session leaves: a folder with files, and a lock that no process holds."""
    folder = home / RUN
    (folder / "exports").mkdir(parents=True)
    (folder / "exports" / "model.onnx").touch()
    folder.with_suffix(".lock").touch()
    return folder


def test_folder_of_a_dead_session_is_removed_with_its_lock(home: Path) -> None:
    abandoned(home)
    RunFolder.remove_dead(home)
    assert list(home.iterdir()) == []


def test_a_folder_whose_session_lives_stays(home: Path) -> None:
    folder = RunFolder(home / RUN)
    folder.make()
    RunFolder.remove_dead(home)
    assert folder.path.is_dir()
    folder.pytest_unconfigure()
    assert list(home.iterdir()) == []


@pytest.mark.parametrize("name", ["hierexport-data", "hierexport-" + "x" * 32, f"other{RUN}"])
def test_what_is_not_named_as_a_run_folder_stays(home: Path, name: str) -> None:
    (home / name).mkdir()
    (home / f"{name}.lock").touch()
    RunFolder.remove_dead(home)
    assert len(list(home.iterdir())) == 2


def test_a_folder_without_a_lock_stays(home: Path) -> None:
    (home / RUN).mkdir()
    RunFolder.remove_dead(home)
    assert (home / RUN).is_dir()


def test_what_a_link_leads_to_stays(home: Path) -> None:
    target = home / "theirs"
    target.mkdir()
    (target / "file").touch()
    (home / RUN).symlink_to(target)
    (home / RUN).with_suffix(".lock").touch()
    RunFolder.remove_dead(home)
    assert (target / "file").exists()
    (home / "hierexport-linked").mkdir()


def test_a_folder_that_cannot_be_removed_stops_nothing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    abandoned(home)

    def denied(*_: object, **__: object) -> None:
        raise PermissionError

    monkeypatch.setattr("filelock.FileLock.acquire", denied)
    RunFolder.remove_dead(home)
    assert (home / RUN).is_dir()
