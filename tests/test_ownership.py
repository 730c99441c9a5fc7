from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_hierexport._files.ownership import (
    GENERATOR,
    LIST,
    ForeignFileError,
    make_folder,
    read_list,
    remove,
    replace_files,
    write_list,
)


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Give two files to copy."""
    made = [tmp_path / "from" / name for name in ("a.onnx", "b.json")]
    made[0].parent.mkdir()
    for path in made:
        path.write_text(path.name)
    return made


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.glob("[!.]*")}


def test_a_folder_that_we_make_ignores_itself_in_git(tmp_path: Path) -> None:
    make_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b" / ".gitignore").read_text() == "*\n"
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"]


@pytest.mark.parametrize("ignored", [None, "/build\n"])
def test_user_folder_is_left_as_it_is(tmp_path: Path, ignored: str | None) -> None:
    if ignored is not None:
        (tmp_path / ".gitignore").write_text(ignored)
    make_folder(tmp_path)
    assert [path.read_text() for path in tmp_path.iterdir()] == ([ignored] if ignored else [])


def test_files_of_ours_are_replaced_and_others_stay(tmp_path: Path, files: list[Path]) -> None:
    folder = tmp_path / "to"
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    replace_files(folder, files, "model")
    replace_files(folder, files[:1], "model")
    assert contents(folder) == {"notes.txt": "mine", "a.onnx": "a.onnx"}
    assert read_list(folder) == {"a.onnx": ("model",)}


@pytest.mark.parametrize("kind", ["file", "link", "dangling link", "folder"])
def test_nothing_is_written_over_what_is_not_ours(tmp_path: Path, files: list[Path], kind: str) -> None:
    folder, target = tmp_path / "to", tmp_path / "target"
    folder.mkdir()
    write_list(folder, {"b.json": ("model",)} if "link" in kind else {})
    place = folder / "b.json"
    if kind == "folder":
        place.mkdir()
    elif kind == "file":
        place.write_text("mine")
    else:
        place.symlink_to(target)
    if kind == "link":
        target.write_text("mine")
    with pytest.raises(ForeignFileError, match=r"b\.json"):
        replace_files(folder, files, "model")
    assert [path.name for path in folder.glob("[!.]*")] == ["b.json"]
    assert not target.exists() or target.read_text() == "mine"


@pytest.mark.parametrize("name", ["../mine", "sub/mine", "link", ""])
def test_a_list_reaches_no_file_outside_its_folder(tmp_path: Path, name: str) -> None:
    folder, mine = tmp_path / "to", tmp_path / "mine"
    (folder / "sub").mkdir(parents=True)
    (folder / "link").symlink_to(mine)
    for path in (mine, folder / "sub" / "mine"):
        path.write_text("mine")
    (folder / LIST).write_text(json.dumps({"generator": GENERATOR, "files": {name: []}}))
    assert remove(folder, [name]) == []
    assert mine.exists()
    assert (folder / "sub" / "mine").exists()


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", '{"files": {"a": []}}', '{"generator": "pytest-hierexport", "files": [["a"]]}', "[" * 100_000],
)
def test_a_damaged_list_makes_nothing_ours(tmp_path: Path, text: str) -> None:
    (tmp_path / LIST).write_text(text)
    (tmp_path / "a").write_text("mine")
    assert read_list(tmp_path) == {}
    assert remove(tmp_path, ["a"]) == []


def test_our_list_is_replaced_and_a_user_file_is_not(tmp_path: Path) -> None:
    path = tmp_path / LIST
    path.write_text(f'{{\n "generator": "{GENERATOR}",\n<<<<<<< HEAD\n')
    write_list(tmp_path, {"a": ("one", "two")})
    assert read_list(tmp_path) == {"a": ("one", "two")}
    path.write_text('{"mine": 1}')
    with pytest.raises(ForeignFileError, match=LIST):
        write_list(tmp_path, {"a": ("one",)})
    assert path.read_text() == '{"mine": 1}'
