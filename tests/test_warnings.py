"""What a project's own code makes Python or torch warn of: shown where it is the project's, else silent or an error."""

from __future__ import annotations

import pytest

from projects import Project

ASYNC = """
import torch

async def build():
    return torch.nn.ReLU(), (torch.ones(1),)
"""
OWN = """
import warnings
import torch
from pytest_hierexport import export as tagged

def export(model, args, kwargs, path):
    torch.onnx.export(model, args, kwargs=kwargs, dynamo=True, verbose=False)
    warnings.warn("this exporter is old", FutureWarning, stacklevel=1)
    tagged(model, args, kwargs, path)

async def waits(model, args, kwargs, path):
    tagged(model, args, kwargs, path)

async def step(source, target):
    target.write_bytes(source.read_bytes())
"""
RULES = """
from pytest_hierexport import Rule

def pytest_hierexport_rules():
    async def check(exported):
        return []
    return [Rule("OWN-001", "nothing is wrong", check)]
"""
MODELS = "--hierexport-models=my_model.py::build"


@pytest.mark.parametrize(
    ("files", "options", "expected"),
    [
        ({"my_model.py": ASYNC}, [], "the factory of build (my_model.py::build)"),
        ({"own.py": OWN}, ["--hierexport-exporter=own:waits"], "own:waits"),
        ({"own.py": OWN}, ["--hierexport-after=own:step"], "the step own:step"),
        ({"conftest.py": RULES}, [], "the check of OWN-001"),
    ],
    ids=["factory", "exporter", "step", "rule"],
)
def test_async_function_is_one_sentence(
    files: dict[str, str], options: list[str], expected: str, project: Project
) -> None:
    for name, text in files.items():
        project.write(name, text)
    result = project.run(MODELS, *options, "-k", "MUST-002 or OWN-001", "-Werror")
    result.stdout.fnmatch_lines(
        [f"  expected  {expected} to be a function that runs when it is called".replace("[", "[[]")]
    )
    result.stdout.no_fnmatch_line("*never awaited*")


def test_only_warnings_of_the_project_are_shown(project: Project) -> None:
    project.write("own.py", OWN)
    result = project.run(MODELS, "--hierexport-exporter=own:export", "-k", "MUST-002", "-Wdefault")
    result.assert_outcomes(passed=1, warnings=1, deselected=result.parseoutcomes()["deselected"])
    result.stdout.fnmatch_lines(["*own.py:8: FutureWarning: this exporter is old"])
