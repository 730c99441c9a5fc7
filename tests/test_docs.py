"""Checks the pages against the code: what they show works, and what they name exists."""

from __future__ import annotations

import ast
import doctest
import json
import re
import shlex
import textwrap
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

import pytest_hierexport
from benchmarks.merged_mask import draw, panels
from projects import Project
from pytest_hierexport import Rule, assertions, export, read
from pytest_hierexport._cases import select
from pytest_hierexport._onnx.graph import operators
from pytest_hierexport._rules.registry import BUILT_IN
from pytest_hierexport._snapshot import text
from pytest_hierexport.cli import main

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PACKAGE = Path(pytest_hierexport.__file__).parent
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "benchmarks" / "README.md", *sorted(DOCS.rglob("*.md"))]
PAGE_IDS = [str(page.relative_to(ROOT)) for page in PAGES]
# Files of the package, named from its own folder or from the repository's, with a name that they define.
CITATION = re.compile(r"((?:_[a-z]+|pytest_hierexport|tests|musts|benchmarks)/[\w/]+\.(?:py|json))(?:::([\w.]+))?")
# Files that the page tells the reader to write.
TO_WRITE = {"_rules/must_011.py", "musts/test_must_011.py", "tests/test_nets.py"}

TOWER = """
import torch

class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(3, 3)
    def forward(self, x):
        return self.fc(x).relu()

class Tower(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([Layer(), Layer()])
    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x

def build():
    torch.manual_seed(0)
    return Tower(), (torch.randn(2, 3),)
"""


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize(
    "text",
    [
        text
        for page in ("manifest.md", "pytest.md", "tutorial.md")
        for text in blocks(page, "toml")
        if "[models." in text
    ],
)
def test_every_manifest_that_is_shown_can_be_read(tmp_path: Path, text: str) -> None:
    for factories in ("my_model.py", "export_models.py"):
        (tmp_path / factories).write_text("from somewhere import *\n")
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "tools.py").write_text("from somewhere import *\n")
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


@pytest.mark.parametrize("rule", BUILT_IN, ids=lambda rule: rule.id)
def test_every_rule_has_its_page_rows_and_counterexamples(rule: Rule) -> None:
    page, rows, readme = (
        path.read_text(encoding="utf-8").replace("`", "")
        for path in (DOCS / "rules" / f"{rule.id}.md", DOCS / "rules" / "README.md", ROOT / "README.md")
    )
    assert page.startswith(f"# {rule.id}: ")
    assert f"| [{rule.id}]({rule.id}.md) | {rule.promise} |{' yes' if rule.cardinal else ''} |" in rows
    assert f"| {rule.id} | " in readme
    assert (ROOT / "musts" / f"test_{rule.id.lower().replace('-', '_')}.py").is_file()


def test_the_rule_and_the_tests_that_are_shown_work(project: Project) -> None:
    python = blocks("pytest.md", "python")
    (tests,) = (block for block in python if "def test_tower" in block)
    (conftest,) = (block for block in python if "conftest.py" in block)
    project.write("conftest.py", conftest)
    project.write("test_shown.py", f"import torch\nfrom my_model import Tower\n{tests}")
    result = project.run("--hierexport-models=my_model.py::build", "--snapshot-update", "-k", "test_shown or OWN-001")
    result.assert_outcomes(passed=3, deselected=result.parseoutcomes()["deselected"])


def test_models_in_code_that_are_shown_work(project: Project) -> None:
    (conftest,) = (block for block in blocks("pytest.md", "python") if "pytest_hierexport_models" in block)
    project.write("conftest.py", conftest)
    model = project.path / "my_model.py"
    model.write_text(model.read_text().replace("__init__(self)", "__init__(self, depth=2)").replace("3)", "depth)"))
    result = project.run("--hierexport-models=tower_12", "-k", "MUST-002")
    result.stdout.fnmatch_lines(["tower_12  dynamo    24 *"])


def test_documented_exporter_works_where_torch_scopes_are_right(project: Project) -> None:
    (tagging,) = (block for block in blocks("exporters.md", "python") if "tagging.py" in block)
    project.write("tagging.py", tagging)
    options = ("--hierexport-models=my_model.py::build", "--hierexport-exporter=tagging:export", "-Wignore")
    result = project.run(*options, "-k", "MUST-002 or MUST-003 or MUST-004 or MUST-006 or MUST-009")
    result.assert_outcomes(passed=5, deselected=result.parseoutcomes()["deselected"])
    shown = project.run(*options, "-k", "MUST-007")
    shown.assert_outcomes(passed=1, deselected=shown.parseoutcomes()["deselected"])


@pytest.mark.parametrize("page", PAGES, ids=PAGE_IDS)
def test_every_file_and_name_that_is_cited_exists(page: Path) -> None:
    wrong = []
    for path, name in CITATION.findall(page.read_text(encoding="utf-8")):
        files = [file for folder in (ROOT, PACKAGE.parent, PACKAGE) if (file := folder / path).is_file()]
        if path not in TO_WRITE and not (files and all(_defines(files[0], part) for part in name.split(".") if part)):
            wrong.append(f"{path}::{name}" if name else path)
    assert not wrong


def _defines(file: Path, name: str) -> bool:
    return bool(re.search(rf"(?:def|class) {name}\b|^{name}\b.* = ", file.read_text(encoding="utf-8"), re.MULTILINE))


@pytest.mark.parametrize("page", PAGES, ids=PAGE_IDS)
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)", page.read_text(encoding="utf-8"))
    wrong = [f"{path}#{heading}" for path, heading in targets if not _is_there(page, path, heading)]
    assert not wrong


def _is_there(page: Path, path: str, heading: str) -> bool:
    target = page.parent / path if path else page
    if not heading or not target.is_file():
        return target.exists()
    titles = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
    return heading in {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=PAGE_IDS)
def test_every_python_example_is_python(page: Path) -> None:
    for token in MarkdownIt("commonmark").parse(page.read_text(encoding="utf-8")):
        if token.type == "fence" and token.info.split()[:1] == ["python"]:
            ast.parse(textwrap.dedent(token.content))


def test_the_site_shows_every_page_once() -> None:
    listed = re.findall(r"^ +- (?:.*: )?(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    assert sorted(listed) == sorted({*pages, "measuring.md", "changelog.md"})


def test_the_home_page_shows_what_the_readme_runs() -> None:
    (shown,) = blocks("index.md", "console")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [line for line in shown.splitlines()[1:] if line not in readme] == []


def test_the_api_reference_has_every_public_name() -> None:
    listed = re.findall(r"^::: pytest_hierexport\.(\w+)$", (DOCS / "api-reference.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted([*pytest_hierexport.__all__, "assertions"])


@pytest.mark.filterwarnings("ignore")  # torch warns of itself
def test_the_figure_shows_what_an_export_gives() -> None:
    assert (DOCS / "images" / "merged-mask.svg").read_text(encoding="utf-8") == draw(panels())


def test_a_room_imports_only_rooms_before_it() -> None:
    rooms = re.findall(r"^\| `(_[a-z]+)` \|", (DOCS / "architecture.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(rooms) == {file.parent.name for file in PACKAGE.glob("_*/__init__.py")}
    wrong = [
        f"{file.relative_to(PACKAGE)} imports {other}"
        for position, room in enumerate(rooms)
        for file in (PACKAGE / room).rglob("*.py")
        for other in re.findall(r"(?:from|import) pytest_hierexport\.(\w+)", file.read_text(encoding="utf-8"))
        if other in rooms[position + 1 :] or other in {"assertions", "cli", "plugin"}
    ]
    assert not wrong


def test_the_example_of_the_architecture_gives_what_is_shown() -> None:
    (code,) = blocks("architecture.md", "python")
    (snapshot,) = (block for block in blocks("architecture.md", "text") if block.startswith("/Net"))
    names: dict[str, Any] = {"__name__": "net"}
    exec(compile(code, "architecture.md", "exec"), names)  # noqa: S102 the page's own example
    exported = export(*names["build"]())
    assert text(exported.attribution, operators(exported.model)) == snapshot
    origins = [(origin.call, origin.evidence.value) for origin in exported.attribution.nodes["where"]]
    assert origins == [("layers.0", "traced"), ("layers.1", "merged")]


def test_the_repl_shows_of_readmes_model_what_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(
        r"<!-- file: my_model.py -->\n```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL
    )
    names: dict[str, Any] = {"__name__": "my_model"}
    exec(compile(code, "my_model.py", "exec"), names)  # noqa: S102 the page's own example
    model, args = names["build"]()
    exported = export(model, args, path="tower.onnx")
    (session,) = blocks("api.md", "pycon")
    example = doctest.DocTestParser().get_doctest(session, {"exported": exported}, "api.md", None, 0)
    assert doctest.DocTestRunner().run(example).failed == 0


@pytest.mark.filterwarnings("ignore")  # onnxruntime's quantizer logs what it advises
def test_how_to_quantize_gives_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "page"}
    exec(compile("".join(blocks("how-to-quantize.md", "python")), "how-to-quantize.md", "exec"), names)  # noqa: S102
    printed = capsys.readouterr().out
    (shown,) = blocks("how-to-quantize.md", "text")
    assert shown in printed
    (difference,) = re.findall(r"largest difference (.*)", printed)
    assert 0 < float(difference) < 0.5
    # The modules that were named have no operator that they did not have, but the parts of a `Gemm`.
    for module in names["FLOAT"]:
        counted = names["operators"]("bert.int8.onnx", names["attribution"], module)
        assert counted
        assert set(counted) <= {*names["operators"]("bert.onnx", read("bert.onnx"), module), "MatMul", "Add"}
    assert main(["select", "bert.onnx", *names["FLOAT"], "--format", "nodes_to_exclude"]) == 0
    assert json.loads(capsys.readouterr().out) == names["excluded"]


def test_every_command_on_files_that_is_shown_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_model.py").write_text(TOWER)
    export_tower = ["export", "my_model.py::build", "-o"]
    assert main([*export_tower, "tower.onnx"]) == 0
    assert main([*export_tower, "tower.next.onnx", "--opset", "19"]) == 0
    capsys.readouterr()
    shown = [line for block in blocks("command-line.md", "console") for line in block.splitlines()]
    commands = [
        shlex.split(line.removeprefix("$ hierexport"), comments=True) for line in shown if "hierexport " in line
    ]
    run = [words for words in commands if words[0] in {"analyze", "validate", "diff", "strip"}]
    assert len(run) > 10
    for words in run:
        assert main(words) == (1 if words[0] == "diff" else 0), words
        assert capsys.readouterr().out
