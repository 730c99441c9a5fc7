"""A project that uses the package is checked against its types, by mypy and by pyright."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = """
from pathlib import Path

import pytest
import torch

from pytest_hierexport import Attribution, Case, Export, Rule, Violation, export, prove, read
from pytest_hierexport.assertions import assert_checker_passes


def tower(path: Path) -> Export:
    return export(torch.nn.ReLU(), (torch.ones(1),), path=path, opset=18)


def tags(exported: Export) -> list[str]:
    return [exported.attribution.tag(node) for node in exported.attribution.nodes]


def of_file(path: Path) -> Attribution:
    return read(path)


def pytest_hierexport_rules(config: pytest.Config) -> list[Rule]:
    return []


unknown_option = export(torch.nn.ReLU(), (torch.ones(1),), opsets=18)  # wrong
unknown_name = tower(Path("a.onnx")).attributions  # wrong
number: int = of_file(Path("a.onnx")).tag("relu")  # wrong
rule_of_text: Rule = "MUST-011"  # wrong
"""
MYPY = """
[mypy]
strict = true

# Their types take minutes to read, and are not in question here.
[mypy-torch.*,onnx.*,onnx_ir.*,onnxruntime.*,numpy.*,syrupy.*]
follow_imports = skip
ignore_missing_imports = true
"""
CHECKERS = {
    "mypy": ["mypy", "--config-file", "mypy.ini", "project.py"],
    "pyright": ["pyright", "--pythonpath", sys.executable, "project.py"],
}


@pytest.mark.parametrize("checker", CHECKERS)
def test_types_reach_a_project_that_uses_the_package(checker: str, tmp_path: Path) -> None:
    # pyright's package fetches its program when it first runs.
    if importlib.util.find_spec(checker) is None or _run([checker, "--version"], tmp_path).returncode:
        pytest.skip(f"{checker} is not installed")
    (tmp_path / "project.py").write_text(PROJECT, encoding="utf-8")
    (tmp_path / "mypy.ini").write_text(MYPY, encoding="utf-8")
    ran = _run(CHECKERS[checker], tmp_path)
    found = {int(line) for line in re.findall(r"project\.py:(\d+)(?::\d+)?.* error", ran.stdout)}
    wrong = {number for number, line in enumerate(PROJECT.splitlines(), 1) if line.endswith("# wrong")}
    assert found == wrong, ran.stdout + ran.stderr


def _run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", *command], cwd=folder, capture_output=True, text=True, check=False)
