"""Models, folders and files with odd and hostile names, in whole runs."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from projects import Project

ESCAPE = "\x1b]0;title\x07\u202eevil\n::error::"
"""Sets a terminal's title, turns the text's direction, and begins a line that GitHub takes for a command."""


def manifest(project: Project, *names: str, **more: str) -> str:
    """Write a manifest of the project's model under these names; return the option that selects it."""
    lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in more.items())
    tables = (f'[models.{json.dumps(name)}]\nmodel = "my_model.py::build"\n{lines}' for name in names)
    (project.path / "models.toml").write_text("".join(tables), encoding="utf-8")
    return "--hierexport-models=models.toml"


def controls(text: str) -> set[str]:
    return {c for c in text if not c.isprintable() and c != "\n"}


@pytest.mark.parametrize("arguments", [(), ("-n", "1")], ids=["here", "worker"])
def test_a_root_folder_may_be_called_brackets(
    project: Project, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    folder = project.path / "brack[et]s"
    folder.mkdir()
    (project.path / "my_model.py").rename(folder / "my_model.py")
    (folder / "test_own.py").write_text("def test_it(): pass\n")
    monkeypatch.chdir(folder)
    chosen = ("--hierexport-models=my_model.py::build", "-k", "MUST-002 or snapshot or test_it", *arguments)
    project.run(*chosen, "--snapshot-update").assert_outcomes(passed=3, deselected=0 if arguments else 9)
    project.run(*chosen).assert_outcomes(passed=3, deselected=0 if arguments else 9)


def test_a_model_in_a_folder_with_brackets_has_its_tests(project: Project) -> None:
    folder = project.path / "brack[et]s"
    folder.mkdir()
    (project.path / "my_model.py").rename(folder / "my_model.py")
    result = project.run("--hierexport-models=brack[et]s/my_model.py::build", "-k", "MUST-002")
    result.assert_outcomes(passed=1, deselected=10)


def test_names_that_a_system_takes_for_one_keep_their_files(project: Project) -> None:
    names = ["con", "CON", "Model", "model", "m" * 300, "m" * 301, "model.", ".gitignore"]
    models = manifest(project, *names)
    assert project.run(models, "-m", "hierexport", "-k", "snapshot", "--snapshot-update").ret == 0
    files = [path.name for path in (project.path / "__hierexport__").glob("*.txt")]
    assert len({name.casefold() for name in files}) == len(names)
    assert all(len(name) < 143 and not name.casefold().startswith("con.") for name in files)
    for name in files:
        (project.path / "__hierexport__" / name).write_text("/Other\n")
    failed = project.run(models, "-m", "hierexport", "-k", "snapshot")
    failed.assert_outcomes(failed=len(names), deselected=10 * len(names))
    kept = [path.name for path in (project.path / ".hierexport").iterdir() if path.is_dir()]
    assert len({name.casefold() for name in kept}) == len(names)


@pytest.mark.parametrize("selector", ["m" * 300, f"{'m' * 300}.py::build", f"{'m' * 300}/config.json", "a\0b/c"])
def test_impossible_file_name_as_selector_is_a_usage_error(project: Project, selector: str) -> None:
    result = project.run(f"--hierexport-models={selector}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "Traceback" not in result.stderr.str()
    assert "hierexport: expected" in result.stderr.str()


def test_a_model_s_name_reaches_the_terminal_escaped(project: Project) -> None:
    models = manifest(project, ESCAPE, f"{ESCAPE}broken")
    (project.path / "__hierexport__").mkdir()
    for arguments in (("-k", "MUST-002 or snapshot"), ("--co", "-v"), ("-k", "MUST-002", "-rA")):
        result = project.run(models, *arguments)
        assert not controls(result.stdout.str() + result.stderr.str())
        assert not any(line.lstrip().startswith("::error") for line in result.outlines)


def test_class_and_exception_texts_reach_the_terminal_escaped(project: Project) -> None:
    model = project.path / "my_model.py"
    text = model.read_text()
    model.write_text(f"{text}\ndef fails():\n    raise ValueError({ESCAPE!r})\nBlock.__name__ = {ESCAPE!r}\n")
    project.write("__hierexport__/build.txt", "/Other\n")
    result = project.run("--hierexport-models=my_model.py::build,my_model.py::fails", "-k", "snapshot")
    result.assert_outcomes(failed=2, deselected=20)
    assert not controls(result.stdout.str())


def test_reports_hold_any_name_and_json_keeps_it(project: Project) -> None:
    name = f"{ESCAPE}[x](http://evil.example)<b>"
    models = manifest(project, name)
    reports = [f"--hierexport-report={file}" for file in ("report.json", "report.html")]
    project.run(models, "-k", "snapshot", "--hierexport-require-snapshots", *reports, "--hierexport-summary=summary.md")
    texts = {
        path.name: path.read_text(encoding="utf-8")
        for path in project.path.iterdir()
        if path.suffix in {".json", ".html", ".md"}
    }
    assert sorted(texts) == ["report.html", "report.json", "summary.md"]
    assert [controls(text) for text in texts.values()] == [set()] * 3
    assert json.loads(texts["report.json"])["models"][0]["name"] == name


def test_folder_with_undecodable_name_is_usage_error_or_model(project: Project, tmp_path: Path) -> None:
    folder = os.fsdecode(b"odd\xff\x1b[31m")
    (project.path / folder).mkdir()
    result = project.run(f"--hierexport-models=./{folder}")
    assert not controls(result.stdout.str() + result.stderr.str())
    assert "Traceback" not in result.stderr.str()
