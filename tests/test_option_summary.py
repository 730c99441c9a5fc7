from __future__ import annotations

from typing import TYPE_CHECKING

from projects import Project

if TYPE_CHECKING:
    import pytest

MODELS = "--hierexport-models=my_model.py::build"


def test_a_summary_holds_the_table_and_the_failures(project: Project) -> None:
    project.write("__hierexport__/build.txt", "/Other\n")
    project.run(MODELS, "-k", "MUST-002 or snapshot", "--hierexport-summary=summary.md")
    summary = (project.path / "summary.md").read_text()
    head, rule, row = [line for line in summary.splitlines() if line.startswith("|")]
    assert head.startswith("| model | exporter | nodes | MUST-0")
    assert head.count("|") == rule.count("|") == row.count("|")
    assert row.startswith("| build | dynamo | 6 |")
    assert row.endswith("| ❌ |")
    assert "<details><summary>build: snapshot</summary>" in summary
    assert "- cardinal rules not run:" in summary


def test_a_model_in_training_mode_is_said_to_be_exported_in_eval_mode(project: Project) -> None:
    model = project.path / "my_model.py"
    model.write_text(model.read_text().replace(".eval()", ""))
    result = project.run(MODELS, "-k", "MUST-002", "--hierexport-summary=summary.md")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["build: the model was in training mode*eval mode"])
    assert "training mode" in (project.path / "summary.md").read_text()


def test_failures_annotate_a_pull_request(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.write("__hierexport__/build.txt", "/Other\n")
    assert "::error" not in project.run(MODELS, "-k", "snapshot").stdout.str()
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(project.path.parent))
    result = project.run(MODELS, "-k", "snapshot")
    (line,) = [line for line in result.outlines if line.startswith("::error")]
    lines = (project.path / "my_model.py").read_text().splitlines()
    file = f"file={project.path.name}/my_model.py,line={lines.index('def build():') + 1}"
    assert line.startswith(f"::error {file},title=build%3A snapshot::the hierarchy of build has changed%0A")
