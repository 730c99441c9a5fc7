from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NoReturn

import pytest

from pytest_hierexport._files import atomic
from pytest_hierexport._files.atomic import write_atomically, write_new


@pytest.mark.parametrize("call", ["replace", "fsync"])
def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    path = tmp_path / "record"
    write_atomically(path, "old")

    def full(*_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, call, full)
    with pytest.raises(OSError, match="No space left on device"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_error_names_the_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: str, *_: object) -> NoReturn:
        raise OSError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr(os, "mkdir", refused)
    with pytest.raises(PermissionError) as raised:
        write_atomically(tmp_path / "record", "new")
    assert raised.value.filename == str(tmp_path)


@pytest.mark.parametrize("reason", ["encoding", "full disk"])
def test_new_file_is_written_whole_or_not_at_all(tmp_path: Path, reason: str) -> None:
    path = tmp_path / "new"
    if reason == "encoding":
        with pytest.raises(UnicodeEncodeError):
            write_new(path, "caf\udce9")
    else:
        code = (
            "import resource, signal, sys\n"
            "from pathlib import Path\n"
            "from pytest_hierexport._files.atomic import write_new\n"
            "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (2, 2))\n"
            "write_new(Path(sys.argv[1]), '[models]')\n"
        )
        ended = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False)
        assert "File too large" in ended.stderr
    assert list(tmp_path.iterdir()) == []
    assert write_new(path, "text") is True
    assert write_new(path, "other") is False
    assert path.read_text() == "text"


def test_a_replaced_file_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "record"
    path.write_text("old")
    path.chmod(0o640)
    write_atomically(path, "new")
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("new", 0o640)


def test_what_a_link_leads_to_is_replaced(tmp_path: Path) -> None:
    link, target = tmp_path / "link", tmp_path / "below" / "target"
    target.parent.mkdir()
    link.symlink_to(target)
    for text in ("old", "new"):
        write_atomically(link, text)
        assert (link.is_symlink(), target.read_text()) == (True, text)


@pytest.fixture
def at_work(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Give a process that is writing into a folder and does not go on."""
    code = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from pytest_hierexport._files.atomic import staging\n"
        "with staging(Path(sys.argv[1])) as stage:\n"
        "    (stage.folder / 'half').write_text('half')\n"
        "    print('ready', flush=True)\n"
        "    time.sleep(600)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
        process.kill()


@pytest.mark.skipif(os.name != "posix", reason="only POSIX locks folders")
def test_next_write_removes_what_a_killed_process_left(
    at_work: subprocess.Popen[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = tmp_path / ".hierexport-staged-notes"
    notes.write_text("a file of somebody else's")
    write_atomically(tmp_path / "record", "while the other is at work")
    (left,) = (path for path in tmp_path.glob(".hierexport-staged-*") if path != notes)
    assert (left / "half").exists()
    at_work.kill()
    at_work.wait()
    monkeypatch.setattr(atomic, "_cleared", set())  # as in another process
    write_atomically(tmp_path / "record", "new")
    assert sorted(path.name for path in tmp_path.iterdir()) == [notes.name, "record"]


@pytest.mark.skipif(os.name != "posix", reason="only POSIX locks folders")
def test_folder_that_another_process_removed_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    locked = atomic.locked
    lost: list[Path] = []

    def late(folder: Path) -> AbstractContextManager[bool]:
        if not lost:
            lost.append(folder)
            folder.rmdir()
        return locked(folder)

    monkeypatch.setattr(atomic, "locked", late)
    write_atomically(tmp_path / "record", "new")
    assert [path.name for path in tmp_path.iterdir()] == ["record"]
    assert lost
