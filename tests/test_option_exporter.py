from __future__ import annotations

import onnx
import pytest

from projects import Project

MODELS = "--hierexport-models=my_model.py::build"


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


def test_the_opset_is_the_option_s_then_the_manifest_s_then_the_ini_s(failing: Project) -> None:
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


def test_an_opset_that_does_not_exist_fails_with_no_traceback(project: Project) -> None:
    result = project.run(MODELS, "-k", "MUST-002", "--hierexport-opset=999")
    assert result.parseoutcomes()["failed"] == 1
    result.stdout.fnmatch_lines(["*999*"])
    assert "Traceback" not in result.stdout.str()


def test_an_unknown_exporter_fails_with_those_there_are(project: Project) -> None:
    result = project.run(MODELS, "-k", "MUST-002", "--hierexport-exporter=dynmao")
    assert result.parseoutcomes()["failed"] == 1
    result.stdout.fnmatch_lines(["*dynamo*"])
    assert "Traceback" not in result.stdout.str()


def test_an_opset_in_the_ini_that_is_no_number_is_a_usage_error(project: Project) -> None:
    project.write("pytest.ini", "[pytest]\nhierexport_opset = newest\n")
    assert project.run(MODELS).ret == pytest.ExitCode.USAGE_ERROR
