"""Runs what the pages show, as a reader would who copies it into an empty folder."""

from __future__ import annotations

import re
import shlex
import shutil
import warnings
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from markdown_it import MarkdownIt

from pages import DIRECTIVE, follow, in_fork
from projects import Project
from pytest_hierexport import export, read
from pytest_hierexport.cli import _parser

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SHOWING = [page for page in sorted(DOCS.rglob("*.md")) if DIRECTIVE.search(page.read_text(encoding="utf-8"))]
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.fc(x))


class Tower(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([Layer(), Layer()])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.fixture(autouse=True, scope="module")
def warm() -> None:
    """Import here what the commands import: each of them runs in a fork of this process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        export(torch.nn.Linear(1, 1), (torch.ones(1, 1),))


@pytest.fixture
def tower(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A folder with the files that the examples name, and the names that they use."""
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    model, args = Tower().eval(), (torch.randn(2, 3),)
    export(model, args, path="tower.onnx")
    for name in ("tower.optimized.onnx", "int8.onnx"):
        shutil.copy("tower.onnx", name)
    return {"__name__": "page", "model": model, "args": args, "inputs": args[0].numpy()}


def fences(page: Path, language: str) -> list[str]:
    tokens = MarkdownIt("commonmark").parse(page.read_text(encoding="utf-8"))
    return [token.content for token in tokens if token.type == "fence" and token.info.split()[:1] == [language]]


@pytest.mark.parametrize("page", SHOWING, ids=[str(page.relative_to(DOCS)) for page in SHOWING])
def test_commands_of_a_page_print_what_it_shows(page: Path, tmp_path: Path) -> None:
    assert follow(page, tmp_path, in_fork)


@pytest.mark.parametrize("page", ["README.md", "docs/tools.md"])
def test_python_of_a_page_runs_on_a_tagged_file(page: str, tower: dict[str, Any]) -> None:
    for code in fences(ROOT / page, "python"):
        if "class Tower" not in code:
            exec(compile(code, page, "exec"), tower)  # noqa: S102  # the page's own example


def test_every_file_that_the_api_examples_write_is_whole(tower: dict[str, Any]) -> None:
    for code in fences(DOCS / "api.md", "python"):
        exec(compile(code, "api.md", "exec"), tower)  # noqa: S102  # the page's own example
    for written in ("tower.tagged.onnx", "tower.fast.onnx", "layer.onnx", "functions.onnx"):
        onnx.checker.check_model(onnx.load(written))
        assert read(written).coverage()["untagged"] == 0


def test_the_rule_of_the_rules_page_finds_a_large_graph(project: Project) -> None:
    (rule,) = fences(DOCS / "rules" / "README.md", "python")
    project.write("conftest.py", rule.replace("500", "2"))
    result = project.run("--hierexport-models=my_model.py::build", "-k", "TEAM-1")
    result.assert_outcomes(failed=1, deselected=result.parseoutcomes()["deselected"])
    result.stdout.fnmatch_lines(["*expected*at most 2 operators", "*found*6"])


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_every_command_of_hierexport_that_is_shown_parses(page: Path) -> None:
    parser = _parser()
    for block in fences(page, "console"):
        for line in re.findall(r"^\$ (?:[\w/]+/)?hierexport (.*)", block, re.MULTILINE):
            words = shlex.split(line.partition(" > ")[0], comments=True)
            assert parser.parse_args(words).command, line


def test_every_option_that_a_page_names_exists(project: Project) -> None:
    known = set(re.findall(r"--hierexport-[a-z-]+", project.run("--help").stdout.str()))
    named = {
        (str(page.relative_to(ROOT)), option)
        for page in PAGES
        for option in re.findall(r"--hierexport-[a-z]+(?:-[a-z]+)*", page.read_text(encoding="utf-8"))
    }
    assert not {(page, option) for page, option in named if option not in known}
