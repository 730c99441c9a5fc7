"""The files of a failing model: kept in `.hierexport`, among whatever the user has there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from projects import Project

MODELS = "--hierexport-models=my_model.py::build"


@pytest.fixture
def failing(project: Project) -> Project:
    """Give a project whose snapshot does not fit."""
    project.write("__hierexport__/build.txt", "/Other\n")
    return project


def fail(project: Project, *arguments: str) -> list[str]:
    """Fail on the snapshot; return what was said to be kept."""
    result = project.run(*(arguments or [MODELS]), "-k", "snapshot")
    assert result.ret == 1
    # In CI pytest's short summary repeats the whole message.
    return list(dict.fromkeys(line for line in result.outlines if line.startswith("  kept")))


def test_a_gitignore_of_the_user_s_stays(failing: Project) -> None:
    own = failing.write(".hierexport/.gitignore", "/drafts\n")
    fail(failing)
    assert own.read_text() == "/drafts\n"
    assert (failing.path / ".hierexport" / "build" / "model.onnx").exists()


def test_a_file_beside_those_that_are_kept_stays(failing: Project) -> None:
    notes = failing.write(".hierexport/build/notes.txt", "mine")
    fail(failing)
    fail(failing)
    assert notes.read_text() == "mine"
    assert (failing.path / ".hierexport" / "build" / "model.onnx").exists()


def test_a_model_of_the_user_s_is_not_written_over(failing: Project) -> None:
    own = failing.write(".hierexport/build/model.onnx", "mine")
    (kept,) = fail(failing)
    assert "not copied" in kept
    assert str(own) in kept
    assert own.read_text() == "mine"


@pytest.mark.parametrize("link", [".hierexport", ".hierexport/build"])
def test_a_folder_behind_a_link_is_not_cleared(
    failing: Project, tmp_path_factory: pytest.TempPathFactory, link: str
) -> None:
    behind = tmp_path_factory.mktemp("behind")
    for folder in (behind, behind / "build"):
        folder.mkdir(exist_ok=True)
        (folder / "mine.txt").write_text("mine")
    (failing.path / link).parent.mkdir(exist_ok=True)
    (failing.path / link).symlink_to(behind)
    fail(failing)
    assert (behind / "mine.txt").read_text() == (behind / "build" / "mine.txt").read_text() == "mine"


def test_a_model_named_cache_leaves_the_cache_as_it_is(failing: Project) -> None:
    failing.write("models.toml", "[models.cache]\nmodel = 'my_model.py::build'\n")
    failing.write("__hierexport__/cache.txt", "/Other\n")
    arguments = ("--hierexport-models=models.toml", "--hierexport-cache=.hierexport/cache")
    fail(failing, *arguments)
    assert failing.builds == 1
    fail(failing, *arguments)
    assert failing.builds == 1


def test_what_cannot_be_kept_is_said_beside_the_failure(failing: Project) -> None:
    failing.write(".hierexport", "mine")
    (kept,) = fail(failing)
    assert "nothing (not copied: " in kept
    assert (failing.path / ".hierexport").read_text() == "mine"


def test_the_kept_files_are_listed_with_their_model(failing: Project) -> None:
    fail(failing)
    listed = json.loads(Path(failing.path, ".hierexport", "build", ".hierexport.json").read_text())
    assert listed == {
        "generator": "pytest-hierexport",
        "files": {"model.hierarchy.json": ["build"], "model.onnx": ["build"]},
    }
