"""What a command writes has the ending of its format; another name is refused before any work."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from projects import Project
from pytest_hierexport.cli import main

# No input exists: a command that began to work would tell of that.
COMMANDS = [
    (["export", "none.py::build", "-o", "{}"], ".onnx", False),
    (["rename", "none.onnx", "-o", "{}"], ".onnx", True),
    (["strip", "none.onnx", "-o", "{}"], ".onnx", True),
    (["carry", "none.onnx", "none.onnx", "-o", "{}"], ".onnx", True),
    (["extract", "none.onnx", "layer", "-o", "{}"], ".onnx", True),
    (["functions", "none.onnx", "-o", "{}"], ".onnx", True),
    (["select", "none.onnx", "a", "--format", "layer_ann", "--device", "cpu", "-o", "{}"], ".onnx", True),
    (["profile", "none.onnx", "--optimized", "{}"], ".onnx", False),
    (["profile", "none.onnx", "--trace", "{}"], ".json", False),
    (["profile", "none.onnx", "--node-data", "{}"], ".json", False),
    (["diverge", "none.onnx", "--model", "none.py::build", "--html", "{}"], ".html", False),
    (["merge", "none.json", "-o", "{}"], ".ctrf.json or .json or .html or .md", False),
]


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def refusal(command: list[str], output: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main([word.format(output) for word in command]) == 4
    return capsys.readouterr().err.splitlines()[-2]


@pytest.mark.parametrize(("command", "endings", "piped"), COMMANDS)
def test_output_of_another_format_is_refused_before_any_work(
    command: list[str], endings: str, piped: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = f"hierexport: expected a file to write whose name ends in {endings}; found "
    assert refusal(command, "out.txt", capsys) == f"{refused}out.txt"
    assert refusal(command, "-", capsys).startswith(f"{refused}-") is not piped
    assert not list(tmp_path.iterdir())


def test_refused_standard_output_asks_for_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "none.py::build", "-o", "-"]) == 4
    error = capsys.readouterr().err
    assert "found -, standard output\nto do: name a file that ends in .onnx: other files are written beside it" in error


@pytest.mark.parametrize("command", [command for command, endings, _ in COMMANDS if endings == ".onnx"])
def test_only_an_onnx_file_is_replaced(command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "folder.onnx").mkdir()
    (tmp_path / "notes.onnx").write_text("mine")
    assert refusal(command, "folder.onnx", capsys).endswith("an ONNX file to replace, at folder.onnx; found a folder")
    assert refusal(command, "notes.onnx", capsys).endswith("at notes.onnx; found something else")
    assert (tmp_path / "notes.onnx").read_text() == "mine"


@pytest.mark.parametrize("ending", [".onnx", ".json"])
def test_empty_file_is_replaced(ending: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / f"made{ending}").touch()  # as mktemp and NamedTemporaryFile make one
    for command in (command for command, endings, _ in COMMANDS if endings == ending):
        assert "to replace" not in refusal(command, f"made{ending}", capsys)


@pytest.mark.parametrize("command", [command for command, endings, _ in COMMANDS if endings == ".onnx"])
def test_only_a_sidecar_is_replaced_beside_it(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "net.hierarchy.json").write_text('{"a": 1}')
    assert refusal(command, "net.onnx", capsys).endswith(
        "a sidecar to replace, at net.hierarchy.json; found something else"
    )
    assert (tmp_path / "net.hierarchy.json").read_text() == '{"a": 1}'


@pytest.mark.parametrize("command", [command for command, endings, _ in COMMANDS if endings == ".json"])
@pytest.mark.parametrize(
    "content", ['{"format": 1, "calls": [], "nodes": {}}', '{"name": "app"}', '{"traceEvents": []}', "mine"]
)
def test_only_json_of_the_same_kind_is_replaced(
    command: list[str], content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "net.json").write_text(content)
    assert refusal(command, "net.json", capsys).endswith("to replace, at net.json; found something else")
    assert (tmp_path / "net.json").read_text() == content


def test_report_of_another_format_is_refused(project: Project) -> None:
    result = project.run("--hierexport-models=my_model.py::build", "--hierexport-report=report.txt")
    result.stderr.fnmatch_lines(["*name ends in .html or .json or .ctrf.json; found *report.txt"])
    assert project.builds == 0


def test_two_outputs_of_one_name_are_refused(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    (project.path / "link").symlink_to(project.path)
    for other in ("--hierexport-summary=link/r.json", "--hierexport-report=./r.json"):
        result = project.run("--hierexport-models=my_model.py::build", "--hierexport-report=r.json", other)
        assert result.ret == 4
        result.stderr.fnmatch_lines(["*expected a file of its own for each output; found 2 at */r.json"])
    assert project.builds == 0
    refused = refusal(["profile", "none.onnx", "--trace", "{}", "--node-data", "{}"], "o.json", capsys)
    assert "for each output; found 2 at" in refused


def test_ending_in_capitals_is_the_same_format(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    reports = [f"--hierexport-report=r.{ending}" for ending in ("JSON", "Html", "CTRF.json")]
    options = ("--hierexport-models=my_model.py::build", "--hierexport-shard=1/1", "-k", "MUST-002")
    assert project.run(*options, *reports).ret == 0
    assert json.loads((project.path / "r.JSON").read_text())["models"]
    assert json.loads((project.path / "r.CTRF.json").read_text())["results"]
    assert (project.path / "r.Html").read_text().startswith("<!doctype html>")
    assert main(["merge", str(project.path / "r.JSON"), "-o", str(project.path / "all.MD")]) == 0
    assert "build" in capsys.readouterr().out


@pytest.mark.parametrize(("command", "endings", "piped"), [each for each in COMMANDS if each[0][0] != "merge"])
def test_output_in_a_missing_folder_is_refused(
    command: list[str], endings: str, piped: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([word.format(f"missing/out{endings}") for word in command]) in {1, 2}
    assert f"expected a folder to write out{endings} into; found no missing" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("content", "found"), [(b"", "a file of 0 bytes"), (b"\x08\x0a:\xff", "a file that ends early")]
)
def test_file_that_is_cut_short_is_told_so(content: bytes, found: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("cut.onnx").write_bytes(content)
    assert main(["profile", "cut.onnx"]) == 4
    assert f"expected cut.onnx to be an ONNX file; found {found}" in capsys.readouterr().err
