from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import onnx
import pytest
import torch

from projects import MODEL, Project
from pytest_hierexport._cases import Case, Example
from pytest_hierexport._cases.exporting import export_case
from pytest_hierexport._errors import ExportError
from pytest_hierexport._pytest.options import OPTIONS, Choices, Settings
from pytest_hierexport._pytest.plan import selected_cases

MODELS = "--hierexport-models=my_model.py::build"


class Cached(torch.nn.Module):
    """Takes a list of tensors."""

    def forward(self, x: torch.Tensor, cache: list[torch.Tensor]) -> torch.Tensor:
        return torch.cat([*cache, x])


def opset(project: Project) -> int:
    """Return the opset of the file that a failing item kept."""
    model = onnx.load(project.path / ".hierexport" / "build" / "model.onnx")
    (version,) = (each.version for each in model.opset_import if each.domain == "")
    return int(version)


@pytest.fixture
def failing(project: Project) -> Project:
    """Give a project that keeps its file, for a snapshot does not fit."""
    project.write("__hierexport__/build.txt", "/Other\n")
    return project


def test_opset_comes_from_option_then_manifest_then_ini(failing: Project) -> None:
    failing.write("pytest.ini", "[pytest]\nhierexport_opset = 19\n")
    failing.run(MODELS, "-k", "snapshot")
    assert opset(failing) == 19
    failing.write("models.toml", "[models.build]\nmodel = 'my_model.py::build'\nopset = 20\n")
    failing.run("--hierexport-models=models.toml", "-k", "snapshot")
    assert opset(failing) == 20
    result = failing.run("--hierexport-models=models.toml", "-k", "snapshot", "--hierexport-opset=21")
    assert opset(failing) == 21
    result.stdout.fnmatch_lines(
        ["  repeat *pytest --hierexport-models=models.toml --hierexport-opset=21 models.toml::*"]
    )


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        ("exporter = 'auto'\nafter = []", ("auto", "")),
        ("exporter = 'dynamo'\nafter = ['onnxruntime:all']", ("dynamo", "onnxruntime:all")),
        ("", ("torchscript", "onnxruntime:basic")),
    ],
    ids=["defaults", "others", "nothing"],
)
def test_exporter_and_steps_of_a_manifest_override_the_ini(tmp_path: Path, manifest: str, expected: object) -> None:
    (tmp_path / "models.toml").write_text(f"[models.build]\nmodel = 'my_model.py::build'\n{manifest}\n")
    (tmp_path / "my_model.py").write_text(MODEL)
    nothing = Choices(**dict.fromkeys(option.name for option in OPTIONS))
    ini = replace(nothing, models=("models.toml",), exporter="torchscript", after=("onnxruntime:basic",))
    case = selected_cases(Settings(nothing, ini, ini, tmp_path, tmp_path, tmp_path))[-1]
    assert (case.exporter, case.step) == expected


@pytest.mark.parametrize("where", ["option", "ini", "manifest"])
def test_unknown_exporter_or_opset_is_a_usage_error(where: str, project: Project) -> None:
    for name, value, nearest in (("exporter", "dynmao", "dynamo"), ("opset", 999, "opset from 7 to"), *NO_SUCH):
        (project.path / "pytest.ini").write_text("[pytest]\n")
        (project.path / "models.toml").write_text("[models.build]\nmodel = 'my_model.py::build'\n")
        arguments = [MODELS]
        if where == "option":
            arguments.append(f"--hierexport-{name}={value}")
        elif where == "ini":
            (project.path / "pytest.ini").write_text(f"[pytest]\nhierexport_{name} = {value}\n")
        else:
            entry = f"[models.build]\nmodel = 'my_model.py::build'\n{name} = {value!r}\n"
            (project.path / "models.toml").write_text(entry)
            arguments = ["--hierexport-models=models.toml"]
        result = project.run(*arguments)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines([f"*{nearest}*"])
        assert "Traceback" not in result.stderr.str()


NO_SUCH = (
    ("exporter", "no_such_module:export", "no module no_such_module"),
    ("exporter", "my_model:", "my_model:"),
    ("exporter", "my_model:biuld", "a function biuld in"),
)

OWN = """
    import torch
    from pytest_hierexport import export as plain

    def export(model, args, kwargs, path, *, opset=None):
        plain(model, args, kwargs, path, opset=opset)

    def untagged(model, args, kwargs, path):
        plain(model, args, kwargs, path, tags="none")
        path.with_suffix(".hierarchy.json").unlink()

    def nothing(model, args, kwargs, path):
        pass

    def raising(model, args, kwargs, path):
        raise RuntimeError("no room")

    def wrapping(model, args, kwargs, path):
        try:
            model("no tensor")
        except Exception as error:
            raise torch.onnx.OnnxExporterError("Step \\x1b[96m1/3\\x1b[0m failed. Next steps: many") from error

    def explaining(model, args, kwargs, path):
        try:
            wrapping(model, args, kwargs, path)
        except Exception as error:
            raise RuntimeError("\\x1b[31mno graph\\x1b[0m") from error

    table = {}

    def leaving(model, args, kwargs, path):
        import os
        os.chdir(path.parent)
        plain(model, args, kwargs, path.name)
        torch.set_default_dtype(torch.float64)
"""


@pytest.fixture
def own(project: Project) -> Project:
    """Give a project with exporters of its own, in a module that only its folder makes importable."""
    project.write("own.py", OWN)
    return project


def test_exporter_of_the_project_is_checked_by_the_same_rules(own: Project) -> None:
    result = own.run(MODELS, "--hierexport-exporter=own:export", "--hierexport-opset=20", "-k", "MUST")
    result.assert_outcomes(passed=10, deselected=1)
    result.stdout.fnmatch_lines(["build *own:export*pass*"])


def test_folder_and_dtype_that_a_project_exporter_leaves_are_restored(own: Project) -> None:
    result = own.run(MODELS, "--hierexport-exporter=own:leaving", "-k", "MUST-003 or MUST-008 or MUST-010")
    result.assert_outcomes(passed=3, deselected=8)


def test_source_of_a_project_exporter_is_read(own: Project) -> None:
    own.write("tags.py", "def tags_of(model):\n    return 'metadata' if type(model).__name__ == 'Tower' else 'both'\n")
    source = (own.path / "own.py").read_text().replace("opset=opset)", "opset=opset, tags=tags_of(model))")
    (own.path / "own.py").write_text(f"from tags import tags_of\n{source}")
    result = own.run(MODELS, "--hierexport-exporter=own:export", "-k", "MUST-001")
    result.assert_outcomes(failed=1, deselected=10)
    result.stdout.fnmatch_lines(["*tags.py:2", "*'Tower' decides `*"])


@pytest.mark.parametrize(
    ("function", "found"),
    [
        ("untagged", "  expected  own:untagged to write an ONNX model with tags"),
        ("nothing", "*no such file after it returned*"),
        ("raising", "*RuntimeError: no room*"),
        ("wrapping", "  found     TypeError: linear(): * (my_model.py, line 10)"),
        (
            "explaining",
            "  found     RuntimeError: no graph (own.py, line 28); caused by TypeError: linear(): * (my_model.py, *)",
        ),
        ("table", "*to be a function*"),
    ],
)
def test_an_exporter_of_the_projects_own_that_fails_says_how(function: str, found: str, own: Project) -> None:
    result = own.run(MODELS, f"--hierexport-exporter=own:{function}", "-k", "MUST-002")
    result.assert_outcomes(failed=1, deselected=10)
    result.stdout.fnmatch_lines([found, "*to do *"])
    assert "Traceback" not in result.stdout.str()


def test_project_exporter_that_cannot_be_imported_is_an_error(own: Project) -> None:
    own.write("torn.py", "def export(model, args, kwargs, path): ...\nno_such_name\n")
    result = own.run(MODELS, "--hierexport-exporter=torn:export", "-k", "MUST-002")
    result.assert_outcomes(failed=1, deselected=10)
    result.stdout.fnmatch_lines(["*NameError: name 'no_such_name'*"])


def test_what_an_exporter_leaves_unwritten_or_changed_does_no_harm(own: Project) -> None:
    model, path = torch.nn.Linear(2, 2).train(), own.path / "model.onnx"
    case = Case("linear", lambda: None, "here")
    example = Example(model, (torch.ones(1, 2),))
    export_case(replace(case, exporter="auto"), example, path)
    before = {file: file.read_bytes() for file in own.path.iterdir() if file.suffix != ".py"}
    source = """
        def halved(model, args, kwargs, path):
            model.half().requires_grad_(False)
            path.write_bytes(b"half a file")
            raise RuntimeError("no room")
    """
    own.write("harm.py", source)
    sys.path.insert(0, str(own.path))
    try:
        for function in ("harm:halved", "builtins:print"):
            with pytest.raises(ExportError):
                export_case(replace(case, exporter=function), example, path)
    finally:
        sys.path.remove(str(own.path))
    assert {file: file.read_bytes() for file in own.path.iterdir() if file.suffix not in {".py", ""}} == before
    assert (model.weight.dtype, model.weight.requires_grad, model.training) == (torch.float32, True, True)


def test_inputs_that_an_exporter_changes_are_as_before(own: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    source = """
        from pytest_hierexport import export

        def export_after_a_run(model, args, kwargs, path):
            args[0].zero_()
            kwargs["cache"].append(args[0])
            export(model, args, kwargs, path)
    """
    own.write("running.py", source)
    monkeypatch.syspath_prepend(own.path)
    example = Example(Cached(), (torch.ones(1, 2),), {"cache": [torch.ones(1, 2)]})
    case = Case("cached", lambda: None, "here", exporter="running:export_after_a_run")
    export_case(case, example, own.path / "model.onnx")
    assert example.args[0].all()
    assert len(example.kwargs["cache"]) == 1


def test_project_exporter_error_names_the_unknown_option(own: Project) -> None:
    result = own.run(MODELS, "--hierexport-exporter=own:untagged", "--hierexport-opset=20", "-k", "MUST-002")
    result.assert_outcomes(failed=1, deselected=10)
    result.stdout.fnmatch_lines(["*own:untagged to take (model, args, kwargs, path, opset=)*"])


def test_ini_opset_that_is_no_number_is_a_usage_error(project: Project) -> None:
    project.write("pytest.ini", "[pytest]\nhierexport_opset = newest\n")
    assert project.run(MODELS).ret == pytest.ExitCode.USAGE_ERROR
