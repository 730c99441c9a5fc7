from __future__ import annotations

import os
from pathlib import Path
from typing import NoReturn

import pytest

from pytest_hierexport._errors import UsageError
from pytest_hierexport._files.ownership import ForeignFileError
from pytest_hierexport._pytest.outputs import check_folder, check_output, write_output
from pytest_hierexport._report import as_ctrf, as_html, as_json, as_markdown
from pytest_hierexport._report.results import Results

EMPTY = Results((), ())


@pytest.mark.parametrize("text", [as_html(EMPTY), as_ctrf(EMPTY), as_json(EMPTY), as_markdown(EMPTY), ""])
def test_a_report_of_ours_or_nothing_may_be_replaced(tmp_path: Path, text: str) -> None:
    path = tmp_path / "file"
    path.write_text(text)
    check_output(path)
    write_output(path, "new")
    assert path.read_text() == "new"


@pytest.mark.parametrize("content", [b"{}", b"\xff\xfe", b"about pytest-hierexport", b" " * 1000])
def test_user_file_is_refused_before_and_after_the_run(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(UsageError, match="did not write"):
        check_output(path)
    with pytest.raises(ForeignFileError):
        write_output(path, "new")
    assert path.read_bytes() == content


def test_folder_that_cannot_be_written_is_refused_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pipe").symlink_to(os.devnull)
    monkeypatch.setattr(os, "access", lambda path, _: Path(path) != tmp_path)
    with pytest.raises(UsageError, match=f"{tmp_path}\nto do: .*make that folder writable, or name another"):
        check_output(tmp_path / "new" / "file")
    monkeypatch.setattr(os, "access", lambda *_: False)
    check_output(tmp_path / "pipe")


@pytest.mark.parametrize("name", ["n" * 300, f"new/{'n' * 300}", f"{'n' * 300}/file"])
def test_name_that_no_file_can_have_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="File name too long"):
        check_output(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_checking_makes_no_folder_and_writing_does(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file"
    check_output(path)
    assert not list(tmp_path.iterdir())
    write_output(path, "new")
    assert path.read_text() == "new"


def test_checking_the_cache_leaves_no_folder(tmp_path: Path) -> None:
    check_folder(tmp_path / "a" / "b" / "c")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "found"),
    [("file/a/b", "a file, .*file"), ("nowhere/a", "a file, .*nowhere"), ("a/" + "b" * 300, "b: File name too long")],
)
def test_impossible_folder_of_the_cache_is_refused(tmp_path: Path, name: str, found: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "nowhere").symlink_to("gone")
    with pytest.raises(UsageError, match=found):
        check_folder(tmp_path / name)
    assert len(list(tmp_path.iterdir())) == 2


def test_link_target_is_replaced_and_the_link_kept(tmp_path: Path) -> None:
    path, target = tmp_path / "link", tmp_path / "target"
    path.symlink_to(target)
    for text in (as_json(EMPTY), "new"):
        write_output(path, text)
    assert path.is_symlink()
    assert target.read_text() == "new"


def test_a_full_disk_leaves_the_old_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_text(as_json(EMPTY))

    def full(_: int) -> NoReturn:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_output(path, "new")
    assert path.read_text() == as_json(EMPTY)
