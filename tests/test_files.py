from __future__ import annotations

from pathlib import Path

import pytest

from pytest_hierexport.files import FileDigests, digest, watching_files


def test_files_hold_until_one_changes_or_goes(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.write_text("1")
    second.write_text("2")
    digests = FileDigests.of([first, second])
    assert digests.hold()
    second.write_text("3")
    assert not digests.hold()
    second.write_text("2")
    assert digests.hold()
    first.unlink()
    assert not digests.hold()


def test_a_file_that_is_not_there_has_an_empty_digest(tmp_path: Path) -> None:
    assert digest(tmp_path / "absent") == ""


def test_what_is_read_is_seen_and_what_is_written_is_not(tmp_path: Path) -> None:
    (tmp_path / "read.txt").write_text("")
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "own.txt").write_text("")
    with watching_files(tmp_path / "store") as seen:
        (tmp_path / "read.txt").read_text()
        (tmp_path / "written.txt").write_text("")
        (tmp_path / "store" / "own.txt").read_text()
        files = seen()
    (tmp_path / "written.txt").read_text()
    assert tmp_path / "read.txt" in files
    assert Path(__file__) in files
    assert not {tmp_path / "written.txt", tmp_path / "store" / "own.txt", Path(pytest.__file__)} & set(files)
