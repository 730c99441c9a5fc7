"""What the pages about pytest say, held to what is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from projects import Project
from pytest_hierexport import assertions
from pytest_hierexport._cases import select

DOCS = Path(__file__).parent.parent / "docs"


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("text", blocks("manifest.md", "toml"))
def test_every_manifest_that_is_shown_can_be_read(tmp_path: Path, text: str) -> None:
    (tmp_path / "my_model.py").write_text("from somewhere import *\n")
    (tmp_path / "checkpoints" / "classifier").mkdir(parents=True)
    (tmp_path / "checkpoints" / "classifier" / "config.json").write_text("{}")
    (tmp_path / "models.toml").write_text(text)
    assert select(["models.toml"], tmp_path)


def test_every_option_and_its_ini_twin_are_described(project: Project) -> None:
    text = (DOCS / "pytest.md").read_text(encoding="utf-8")
    listed = project.run("--help").stdout.str()
    options = set(re.findall(r"--hierexport-[a-z-]+", listed))
    assert options == set(re.findall(r"\| `(--hierexport-[a-z-]+)", text))
    assert {option[2:].replace("-", "_") for option in options} == set(
        re.findall(r"\| `(hierexport_[a-z_]+)` \|", text)
    ) - {
        "hierexport_case",
        "hierexport_export",
        "hierexport_snapshot",
    }


def test_every_assertion_is_described() -> None:
    described = set(re.findall(r"\| `(assert_\w+)` \|", (DOCS / "pytest.md").read_text(encoding="utf-8")))
    assert described == set(assertions.__all__) - {"assert_rule"}


def test_the_rule_and_the_tests_that_are_shown_work(project: Project) -> None:
    python = blocks("pytest.md", "python")
    (tests,) = (block for block in python if "def test_tower" in block)
    (conftest,) = (block for block in python if "conftest.py" in block)
    project.write("conftest.py", conftest)
    project.write("test_shown.py", f"import torch\nfrom my_model import Tower\n{tests}")
    result = project.run("--hierexport-models=my_model.py::build", "--snapshot-update", "-k", "test_shown or OWN-001")
    result.assert_outcomes(passed=3, deselected=result.parseoutcomes()["deselected"])


def test_the_exporter_that_is_shown_works_where_torch_s_own_scopes_are_right(project: Project) -> None:
    (tagging,) = blocks("exporters.md", "python")[1:]
    project.write("tagging.py", tagging)
    options = ("--hierexport-models=my_model.py::build", "--hierexport-exporter=tagging:export", "-Wignore")
    result = project.run(*options, "-k", "MUST-002 or MUST-003 or MUST-004 or MUST-006 or MUST-009")
    result.assert_outcomes(passed=5, deselected=result.parseoutcomes()["deselected"])
    shown = project.run(*options, "-k", "MUST-007")
    shown.assert_outcomes(passed=1, deselected=shown.parseoutcomes()["deselected"])
