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


def test_summary_draws_a_changed_snapshot_as_a_tree(project: Project) -> None:
    project.write("__hierexport__/build.txt", "/Tower\n/Tower/Block.{0..2} ×3: Exp 1, Gemm 1\n")
    project.run(MODELS, "-k", "snapshot", "--hierexport-summary=summary.md")
    tree = (project.path / "summary.md").read_text().partition("changes as a tree</summary>")[2]
    lines = [" /Tower", "-  Block.{0..2} ×3: Exp 1, Gemm 1", "+  Block.{0..2} ×3: Gemm 1, Relu 1"]
    assert tree.startswith("\n\n```diff\n" + "\n".join(lines) + "\n```\n")


def test_summary_draws_no_tree_without_a_change(project: Project) -> None:
    project.write("__hierexport__/build.txt", "/Tower\n")
    project.write("broken.py", "def fail():\n    raise RuntimeError\n")
    project.write("__hierexport__/fail.txt", "/Tower\n")
    models = f"{MODELS},no_snapshot=my_model.py::build,broken.py::fail"
    project.run(models, "-k", "snapshot", "--hierexport-summary=summary.md")
    summary = (project.path / "summary.md").read_text()
    assert summary.count("<details>") == 4
    assert summary.count("changes as a tree") == summary.count("build: changes as a tree") == 1


def test_training_mode_model_is_reported_as_exported_in_eval_mode(project: Project) -> None:
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


def test_foreign_summary_file_is_refused_before_the_run(project: Project) -> None:
    own = project.write("README.md", "# Mine\n")
    assert project.run(MODELS, "-k", "MUST-002", "--hierexport-summary=README.md").ret == 4
    assert own.read_text() == "# Mine\n"


def test_github_step_summary_keeps_its_present_text(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    summary = project.write("step_summary", "# Mine\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    assert project.run(MODELS, "-k", "MUST-002", f"--hierexport-summary={summary}").ret == 0
    text = summary.read_text()
    assert text.startswith("# Mine\n")
    assert "| build | dynamo | 6 |" in text


def test_a_summary_that_cannot_be_written_is_one_warning(project: Project) -> None:
    project.write("__hierexport__/build.txt", "/Other\n")
    result = project.run(MODELS, "-k", "snapshot", "--hierexport-summary=/dev/full")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        ["the hierarchy of build has changed", "warning: /dev/full was not written: No space left on device"]
    )
