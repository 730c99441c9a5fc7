"""A fallback that may freeze a branch: a red note, and a failure where a run is strict."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn

from projects import Project
from pytest_hierexport import cli, export
from pytest_hierexport._errors import ExportError

MODELS = "--hierexport-models=branching.py::build"
STRICT = "--hierexport-strict"
CHECK = ("-k", "MUST-002")
RED = "\x1b[31m\x1b[1m"
FALLBACK = (
    "build: torchscript served in the place of dynamo: it records one run, of each branch in Python the side that ran"
)
FIXED = "build: the graph is valid for inputs like the example's: * at branching.py:*"

BRANCHING = """
import torch

class Branching(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        if x.sum() > 0:
            return self.linear(x)
        return x

def build():
    return Branching().eval(), (torch.ones(2, 4),)
"""


class Branching(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = self.linear(x)
        return hidden if x.sum() > 0 else x


@pytest.fixture
def branching(project: Project) -> Project:
    """Give a project whose model decides by a tensor's value."""
    project.write("branching.py", BRANCHING)
    return project


def entry(text: str) -> str:
    return f"[models.build]\nmodel = 'branching.py::build'\n{text}\n"


def test_fallback_is_a_red_note_in_summary_and_reports(branching: Project) -> None:
    reports = ("--hierexport-report=out.json", "--hierexport-report=out.html", "--hierexport-summary=out.md")
    result = branching.run(MODELS, *CHECK, *reports, "--color=yes")
    assert result.ret == 0
    result.stdout.fnmatch_lines([f"{RED}{FALLBACK}*".replace("[", "[[]")])
    result.stdout.fnmatch_lines([f"{RED}{FIXED}".replace("[", "[[]")])
    warnings = json.loads((branching.path / "out.json").read_text())["models"][0]["warnings"]
    assert f"build: {warnings[0]}" == FALLBACK
    assert FALLBACK in (branching.path / "out.html").read_text()
    assert f"🔴 **{FALLBACK}**" in (branching.path / "out.md").read_text()


def test_a_strict_run_fails_and_says_what_to_do(branching: Project) -> None:
    result = branching.run(MODELS, *CHECK, STRICT)
    assert result.parseoutcomes() == {"failed": 1, "deselected": 10}
    result.stdout.fnmatch_lines(
        [
            "build: could not be exported",
            "  expected  Branching to be captured as a graph without falling back to torchscript, as strict demands",
            "  found     dynamo: GuardOnDataDependentSymNode: *",
            "  to do     *torch.cond*exporter torchscript; or drop strict",
            f"  repeat    pytest {MODELS} {STRICT} *",
        ]
    )


@pytest.mark.parametrize(
    ("ini", "manifest", "code"),
    [("true", "", 1), ("false", "strict = true", 1), ("true", "strict = false", 0), ("false", "", 0)],
)
def test_a_manifest_goes_before_the_ini(branching: Project, ini: str, manifest: str, code: int) -> None:
    branching.write("pytest.ini", f"[pytest]\nhierexport_strict = {ini}\n")
    branching.write("models.toml", entry(manifest))
    assert branching.run("--hierexport-models=models.toml", *CHECK).ret == code


def test_the_option_goes_before_the_manifest(branching: Project) -> None:
    branching.write("models.toml", entry("strict = false"))
    assert branching.run("--hierexport-models=models.toml", *CHECK, STRICT).ret == 1


def test_a_cached_fallback_does_not_pass_a_strict_run(branching: Project) -> None:
    assert branching.run(MODELS, *CHECK, "--hierexport-cache=cache").ret == 0
    assert branching.run(MODELS, *CHECK, "--hierexport-cache=cache", STRICT).ret == 1


def test_strict_has_nothing_against_a_model_that_dynamo_exports(project: Project) -> None:
    assert project.run("--hierexport-models=my_model.py::build", *CHECK, STRICT).ret == 0


@pytest.mark.parametrize("options", [{"exporter": "torchscript"}, {"opset": 16}], ids=["by name", "by its opset"])
def test_torchscript_that_nothing_failed_before_is_no_fallback(options: dict[str, object]) -> None:
    result = export(Branching().eval(), (torch.ones(2, 4),), strict=True, **options)  # type: ignore[arg-type]
    assert (result.exporter, result.warnings) == ("torchscript", ())
    assert any("now constants" in note for note in result.notes)


def test_strict_fails_before_torchscript_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    from pytest_hierexport._export import captures

    monkeypatch.setattr(captures, "CAPTURES", {"dynamo": captures.CAPTURES["dynamo"], "torchscript": None})
    with pytest.raises(ExportError, match="as strict demands"):
        export(Branching().eval(), (torch.ones(2, 4),), strict=True)


def test_the_command_line_shows_the_fallback_or_fails(
    branching: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(branching.path)
    monkeypatch.setenv("FORCE_COLOR", "1")
    arguments = ["export", "branching.py::build", "-o", "model.onnx"]
    assert cli.main(arguments) == 0
    assert "\x1b[1;31mwarning: torchscript served in the place of dynamo" in capsys.readouterr().out
    (branching.path / "model.onnx").unlink()
    assert cli.main([*arguments, "--strict"]) == 1
    assert "as strict demands" in capsys.readouterr().err
    assert not (branching.path / "model.onnx").exists()
