from __future__ import annotations

from typing import TYPE_CHECKING

from projects import Project

if TYPE_CHECKING:
    import pytest

MODELS = "--hierexport-models=my_model.py::build"
SOME = ("-k", "MUST-002 or snapshot")


def test_with_a_cache_a_second_run_builds_no_model_and_imports_no_torch(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write(
        "conftest.py",
        """
        import os, sys

        def pytest_sessionfinish(session):
            if "SECOND" in os.environ:
                assert not {"torch", "onnx", "transformers"} & set(sys.modules)
        """,
    )
    assert project.process(MODELS, "--hierexport-cache=cache").ret == 0
    first = project.builds
    monkeypatch.setenv("SECOND", "1")
    result = project.process(MODELS, "--hierexport-cache=cache")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["build *dynamo *6 *pass *skip"])
    assert project.builds == first
    assert (project.path / "cache" / ".gitignore").read_text() == "*\n"


def test_a_change_of_the_model_is_seen_through_the_cache(project: Project) -> None:
    project.write("pytest.ini", "[pytest]\nhierexport_cache = cache\n")
    project.run(MODELS, "--snapshot-update", *SOME)
    model = project.path / "my_model.py"
    model.write_text(model.read_text().replace("Block", "Brick"))
    assert project.run(MODELS, *SOME).parseoutcomes()["failed"] == 1


def test_a_cache_that_cannot_be_written_is_refused_before_the_run(project: Project) -> None:
    result = project.run(MODELS, "--hierexport-cache=/proc/cache", *SOME)
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*expected a folder for the cache that can be written; found *"])


def test_without_a_cache_every_run_builds_the_model(project: Project) -> None:
    for _ in range(2):
        project.run(MODELS, *SOME)
    assert project.builds == 2


def test_a_cache_in_a_folder_of_the_user_s_leaves_its_gitignore(project: Project) -> None:
    own = project.write(".gitignore", "/build\n")
    assert project.run(MODELS, "--hierexport-cache=.", *SOME).ret == 0
    assert own.read_text() == "/build\n"
