from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock

from projects import SET_UP, WEIGHTS_IN_A_FOLDER, Project
from pytest_hierexport._files import paths
from pytest_hierexport._pytest import session_cache

INSTALLED = paths.installed_folders

MODELS = "--hierexport-models=my_model.py::build"
SOME = ("-k", "MUST-002 or snapshot")


def test_second_run_builds_no_model_and_imports_no_torch(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
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


@pytest.mark.parametrize("ini", ["", "pythonpath = src"])
def test_workers_and_a_run_without_them_share_results(project: Project, ini: str) -> None:
    project.write("pytest.ini", f"[pytest]\n{ini}\n")
    arguments = (MODELS, "--hierexport-cache=cache", "-k", "MUST-002 or MUST-009")
    assert project.process(MODELS, "--hierexport-cache=cache", "-k", "MUST-002", "-n1").ret == 0
    assert project.process(*arguments, "-n0").ret == 0
    kept = results(project.path / "cache")
    assert project.process(*arguments, "-n1").ret == 0
    assert project.builds == 1
    # The export and two rules: neither kind of run answered a question again.
    assert len(kept) == 3
    assert sorted(results(project.path / "cache")) == sorted(kept)


def test_a_change_of_the_model_is_seen_through_the_cache(project: Project) -> None:
    project.write("pytest.ini", "[pytest]\nhierexport_cache = cache\n")
    project.run(MODELS, "--snapshot-update", *SOME)
    model = project.path / "my_model.py"
    model.write_text(model.read_text().replace("Block", "Brick"))
    assert project.run(MODELS, *SOME).parseoutcomes()["failed"] == 1


def test_a_change_of_an_own_exporter_exports_again(project: Project) -> None:
    project.write("own/__init__.py", "")
    helper = project.write("own/helper.py", "from pytest_hierexport import export\n")
    project.write(
        "own/exporter.py",
        """
        from own.helper import export as plain

        def export(model, args, kwargs, path):
            plain(model, args, kwargs, path)
        """,
    )
    arguments = (MODELS, "--hierexport-exporter=own.exporter:export", "--hierexport-cache=cache", "-k", "MUST-002")
    for builds in (1, 1):
        assert project.run(*arguments).ret == 0
        assert project.builds == builds
    helper.write_text(helper.read_text() + "CHANGED = True\n")
    assert project.run(*arguments).ret == 0
    assert project.builds == 2


@pytest.mark.parametrize("suffix", ["py", "json"])
def test_change_of_this_package_invalidates_the_results(
    project: Project, monkeypatch: pytest.MonkeyPatch, suffix: str, tmp_path: Path
) -> None:
    arguments = (MODELS, "--hierexport-cache=cache", "-k", "MUST-002")
    assert project.run(*arguments).ret == 0
    package = tmp_path / "package"
    package.mkdir()
    (package / f"changed.{suffix}").write_text("1")
    monkeypatch.setattr(session_cache, "PACKAGE", package)
    assert project.run(*arguments).ret == 0
    assert project.builds == 2


@pytest.mark.parametrize(
    ("file", "name"), [("own_exporter.py", "own_exporter"), ("own_package/exporter.py", "own_package.exporter")]
)
def test_edited_installed_exporter_exports_again(
    project: Project, monkeypatch: pytest.MonkeyPatch, file: str, name: str
) -> None:
    text = "from pytest_hierexport import export as plain\ndef export(m, a, k, p):\n    plain(m, a, k, p)\n"
    exporter = project.write(f"installed/{file}", text)
    installed = project.path / "installed"
    monkeypatch.syspath_prepend(installed)
    monkeypatch.setattr(paths, "installed_folders", lambda: (*INSTALLED(), f"{installed}{os.sep}"))
    arguments = (MODELS, f"--hierexport-exporter={name}:export", "--hierexport-cache=cache", "-k", "MUST-002")
    for builds in (1, 1):
        assert project.run(*arguments).ret == 0
        assert project.builds == builds
    exporter.write_text(text + "CHANGED = True\n")
    assert project.run(*arguments).ret == 0
    assert project.builds == 2


def results(cache: Path) -> list[Path]:
    return [path for path in cache.iterdir() if path.is_dir()]


def write_lists(cache: Path) -> None:
    for file in cache.rglob("*.json"):
        file.write_text("[1]")


def nest_deeply(cache: Path) -> None:
    for file in cache.rglob("*.json"):
        file.write_text("[" * 10_000 + "]" * 10_000)


def halve_models(cache: Path) -> None:
    for model in cache.rglob("model.onnx"):
        model.write_bytes(model.read_bytes()[: model.stat().st_size // 2])


def remove_models(cache: Path) -> None:
    for model in cache.rglob("model.onnx"):
        model.unlink()


def replace_by_files(cache: Path) -> None:
    for result in results(cache):
        shutil.rmtree(result)
        result.write_text("a file")


def replace_by_links(cache: Path) -> None:
    for result in results(cache):
        shutil.rmtree(result)
        result.symlink_to("nowhere")


@pytest.mark.parametrize(
    "damage", [write_lists, nest_deeply, halve_models, remove_models, replace_by_files, replace_by_links]
)
def test_run_survives_a_damaged_cache_and_replaces_the_result(
    project: Project, damage: Callable[[Path], object]
) -> None:
    arguments = (MODELS, "--hierexport-cache=cache", "-k", "MUST-002 or MUST-004")
    assert project.run(*arguments).ret == 0
    damage(project.path / "cache")
    for builds in (2, 2):
        result = project.run(*arguments)
        assert result.ret == 0
        assert "warning" not in result.stdout.str()
        assert project.builds == builds


def test_a_cache_that_cannot_be_written_is_one_warning(project: Project) -> None:
    project.write(
        "conftest.py",
        """
        import tempfile
        make = tempfile.mkdtemp

        def refuse(suffix=None, prefix=None, dir=None):
            if str(dir).endswith("cache"):
                raise OSError(28, "No space left on device")
            return make(suffix, prefix, dir)

        tempfile.mkdtemp = refuse
        """,
    )
    result = project.run(MODELS, "--hierexport-cache=cache", *SOME)
    assert result.ret == 0
    (warning,) = [line for line in result.outlines if line.startswith("hierexport: warning")]
    assert warning.startswith("hierexport: warning: results are not kept for later runs: ")
    assert warning.endswith(f"the cache {project.path / 'cache'} cannot be written (No space left on device)")


def test_a_plugin_that_came_before_the_recording_is_named(project: Project) -> None:
    project.write("early.py", "")
    project.write("pytest.ini", "[pytest]\npythonpath = .\n")
    for builds in (1, 2):
        result = project.run(MODELS, "--hierexport-cache=cache", "-p", "early", *SOME)
        assert result.ret == 0
        result.stdout.fnmatch_lines(["hierexport: warning: results are not kept *: early was loaded before *"])
        assert project.builds == builds


def test_a_session_that_waits_for_another_says_so(project: Project) -> None:
    command = [sys.executable, "-m", "pytest", *SET_UP, MODELS, "--hierexport-cache=cache", "-k", "MUST-002"]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    subprocess.run(command, cwd=project.path, env=environment, check=True)
    (lock,) = project.path.glob("cache/*.lock")
    for result in results(project.path / "cache"):  # a session that finds a result does not wait
        shutil.rmtree(result)
    with FileLock(lock):
        lock.with_suffix(".holder").write_text("process 1 in /elsewhere")
        second = subprocess.Popen(command, cwd=project.path, env=environment, stderr=subprocess.PIPE, text=True)
        assert second.stderr is not None
        said = next(line for line in second.stderr if line.strip())
    assert said == "hierexport: waiting for another session, process 1 in /elsewhere, to export build\n"
    second.communicate()
    assert second.returncode == 0


def test_cache_keeps_no_more_than_its_size(project: Project) -> None:
    project.write("pytest.ini", "[pytest]\nhierexport_cache = cache\nhierexport_cache_size = 1KB\n")
    for builds in (1, 2):
        assert project.run(MODELS, *SOME).ret == 0
        assert project.builds == builds
    assert not results(project.path / "cache")
    for builds in (3, 3):
        assert project.run(MODELS, "--hierexport-cache-size=1GB", *SOME).ret == 0
        assert project.builds == builds


def test_cache_of_size_zero_keeps_nothing(project: Project) -> None:
    assert project.run(MODELS, "--hierexport-cache=cache", "--hierexport-cache-size=0", *SOME).ret == 0
    assert not results(project.path / "cache")


def test_a_size_that_is_none_is_refused(project: Project) -> None:
    result = project.run(MODELS, "--hierexport-cache=cache", "--hierexport-cache-size=much")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*expected a size; found 'much'*"])


def test_impossible_cache_folder_is_refused_before_the_run(project: Project) -> None:
    result = project.run(MODELS, "--hierexport-cache=/proc/cache", *SOME)
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*expected a folder for the cache that can be written; found *"])


def test_without_a_cache_every_run_builds_the_model(project: Project) -> None:
    for _ in range(2):
        project.run(MODELS, *SOME)
    assert project.builds == 2


def test_cache_in_an_existing_folder_leaves_its_gitignore(project: Project) -> None:
    own = project.write(".gitignore", "/build\n")
    assert project.run(MODELS, "--hierexport-cache=.", *SOME).ret == 0
    assert own.read_text() == "/build\n"


def test_a_failing_import_shows_the_project_s_frames_alone(project: Project) -> None:
    project.write("outer.py", "import inner\n")
    project.write("inner.py", "import missing_module\n")
    project.write("test_own.py", "def test_own():\n    import outer\n")
    result = project.run(MODELS, "--hierexport-cache=cache", "test_own.py", "-k", "test_own")
    result.assert_outcomes(failed=1, deselected=11)
    result.stdout.fnmatch_lines(["outer.py:1: in <module>", "inner.py:1: ModuleNotFoundError"])
    result.stdout.no_fnmatch_line("*_call_with_frames_removed*")
    result.stdout.no_fnmatch_line("*loading.py*")


@pytest.mark.parametrize(
    "option",
    [
        *("-q", "-v", "-rA", "--tb=no", "--no-fold-skipped", "--trace-config", "--ignore=slow", "-x", "-k MUST-002"),
        *("--snapshot-update", "--snapshot-no-cleanup", "--snapshot-details", "--snapshot-diff-mode=disabled"),
    ],
)
def test_option_that_selects_or_reports_identifies_no_session(pytester: pytest.Pytester, option: str) -> None:
    plain, given = (session_cache.session_facts(pytester.parseconfig(*options)) for options in ((), (option,)))
    assert given == plain


def test_terminal_identifies_no_session(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    piped = session_cache.session_facts(pytester.parseconfig())
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert session_cache.session_facts(pytester.parseconfig()) == piped


def test_export_with_a_folder_is_made_anew_and_told(project: Project) -> None:
    project.write("own_exporter.py", WEIGHTS_IN_A_FOLDER)
    project.write("__hierexport__/build.txt", "/Other\n")
    arguments = (MODELS, "--hierexport-exporter=own_exporter:export", "--hierexport-cache=cache")
    for _ in range(2):
        result = project.run(*arguments, "-k", "MUST-006 or snapshot")
        result.assert_outcomes(passed=1, failed=1)
        result.stdout.fnmatch_lines(["  kept *model.onnx*; not the folder weights beside them"])
    assert project.builds == 2


def test_usage_error_leaves_no_run_folder(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.write("early.py", "")
    project.write("pytest.ini", "[pytest]\npythonpath = .\n")
    (project.path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(project.path / "temporary"))
    result = project.run("-p", "early", MODELS, "--hierexport-cache=kept", "--hierexport-rules=OWN-1")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: hierexport: *OWN-1*"])
    assert not list((project.path / "temporary").glob("hierexport-*"))


def test_impossible_folder_on_the_path_ends_no_session(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.path", ["n" * 300, *sys.path])
    assert session_cache.session_facts(pytester.parseconfig())["distributions"]


def test_option_that_changes_the_export_identifies_a_session(pytester: pytest.Pytester) -> None:
    plain, given = (pytester.parseconfig(*options) for options in ((), ("--hierexport-opset=20",)))
    assert session_cache.session_facts(given) != session_cache.session_facts(plain)
