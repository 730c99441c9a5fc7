from __future__ import annotations

import json
import shlex
import subprocess
from html.parser import HTMLParser

import pytest

from projects import MODEL, Project

MODELS = "--hierexport-models=my_model.py::build"

OWN_RULE = """
from pytest_hierexport import Rule, Violation

def no_gemm(exported):
    node = next(node for node in exported.proto.graph.node if node.op_type == "Gemm")
    yield Violation(exported.node(node.output[0]), "none", "a Gemm", "drop it")

def pytest_hierexport_rules(config):
    return [Rule("OWN-001", "no Gemm", no_gemm)]
"""


class Page(HTMLParser):
    """Reads a page's cells and texts, and what it loads from elsewhere."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: dict[str, list[str]] = {}
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.loaded += [value or "" for name, value in attrs if name == "src" or (tag == "link" and name == "href")]

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)


@pytest.fixture
def failing(project: Project) -> Project:
    """Give a project whose snapshot does not fit."""
    project.write("__hierexport__/build.txt", "/Other<Tower>\n")
    return project


def test_page_shows_table_failures_and_hierarchy_in_one_file(failing: Project) -> None:
    failing.run(MODELS, "-k", "MUST-002 or snapshot", "--hierexport-report=out/report.html")
    page = Page((failing.path / "out" / "report.html").read_text())
    assert page.loaded == ["data:,"]
    data = json.loads(page.texts["script"][0])
    (model,) = data["models"]
    assert (model["name"], model["exporter"], sum(model["coverage"].values())) == ("build", "dynamo", 6)
    verdicts = {data["columns"][i]: data["statuses"][check[0]] for i, check in enumerate(model["checks"])}
    assert (verdicts["MUST-002"], verdicts["MUST-003"], verdicts["snapshot"]) == ("passed", "not run", "failed")
    *_, message, failure = model["checks"][-1]
    assert "- /Other<Tower>" in message
    assert {"tag": "/Other<Tower>", "before": {}} in failure["changes"]
    assert model["text"] == "/Tower\n/Tower/Block.{0..2} ×3: Gemm 1, Relu 1\n"
    assert len(model["tree"]["parent"]) == 8


def test_json_holds_the_same(failing: Project) -> None:
    failing.run(MODELS, "-k", "MUST-002 or snapshot", "--hierexport-report=report.json")
    report = json.loads((failing.path / "report.json").read_text())
    (model,) = report["models"]
    assert (model["name"], model["source"], model["exporter"], model["nodes"]) == (
        "build",
        "my_model.py::build",
        "dynamo",
        6,
    )
    assert model["coverage"]["traced"] + model["coverage"]["fused"] == 6
    assert model["checks"]["MUST-002"]["verdict"] == "passed"
    assert model["checks"]["MUST-003"] == {"verdict": "not run"}
    assert model["checks"]["snapshot"]["verdict"] == "failed"
    assert "the hierarchy of build has changed" in model["checks"]["snapshot"]["message"]
    assert report["verdicts"]["failed"] == 1
    assert "MUST-003" in report["cardinal_rules_not_run"]["build"]


def test_model_of_a_manifest_has_its_line_there(failing: Project) -> None:
    failing.write(
        "models.toml",
        """
        [models.unused]
        model = "bert"
        [models."tower 1"]
        model = "my_model.py::build"
        after = ["onnxruntime:basic"]
        """,
    )
    failing.run("--hierexport-models=one=models.toml::tower 1", "-k", "MUST-002", "--hierexport-report=report.json")
    models = json.loads((failing.path / "report.json").read_text())["models"]
    assert [(model["name"], model["file"], model["line"]) for model in models] == [
        ("one", "models.toml", 4),
        ("one@onnxruntime:basic", "models.toml", 4),
    ]


def test_failure_states_place_values_and_command_apart(failing: Project) -> None:
    options = (MODELS, "--hierexport-rules=OWN-001", "--hierexport-cache=cache")
    failing.write("conftest.py", OWN_RULE)
    failing.run(*options, "-k", "OWN-001", "--hierexport-report=report.json")
    check = json.loads((failing.path / "report.json").read_text())["models"][0]["checks"]["OWN-001"]
    (finding,) = check["failure"]["findings"]
    assert finding == {"where": "linear (/Tower/Block.0)", "expected": "none", "found": "a Gemm", "do": "drop it"}
    repeat = check["failure"]["repeat"]
    assert repeat == f"pytest {shlex.join(options)} 'my_model.py::build::test_must[OWN-001]'"
    assert check["failure"]["kept"].startswith(".hierexport/build/")
    assert failing.run(*shlex.split(repeat)[1:]).ret == pytest.ExitCode.TESTS_FAILED


def test_modules_come_from_the_cache_without_torch(project: Project) -> None:
    options = (MODELS, "-k", "MUST-002", "--hierexport-cache=cache", "--hierexport-report=report.json", "-n0")
    project.write("conftest.py", "import sys\ndef pytest_unconfigure():\n    print('torch' in sys.modules)\n")
    (cold, _), (warm, imported) = (_modules_of(project, *options) for _ in range(2))
    assert cold == warm
    assert imported == "False"
    assert project.builds == 1
    assert [module["path"] for module in warm][:4] == ["", "blocks", "blocks.0", "blocks.0.linear"]
    assert warm[3] == {
        "path": "blocks.0.linear",
        "class": "torch.nn.modules.linear.Linear",
        "calls": 1,
        "operators": {"Gemm": 1},
        "evidence": {"traced": 1},
        "parameters": 20,
        "bytes": 80,
    }


def _modules_of(project: Project, *options: str) -> tuple[list[dict[str, object]], str]:
    """Return the modules of the model, and the last line that the run prints."""
    printed = project.process(*options).outlines[-1]
    return json.loads((project.path / "report.json").read_text())["models"][0]["modules"], printed


def test_report_names_the_commit_and_open_changes(failing: Project) -> None:
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@example.com")
    for command in (("init", "-q"), ("add", "my_model.py"), ("commit", "-qm", "one")):
        subprocess.run([*git, *command], cwd=failing.path, check=True)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=failing.path, check=True, capture_output=True, text=True)
    failing.run(MODELS, "-k", "snapshot", "--hierexport-report=report.json")
    assert json.loads((failing.path / "report.json").read_text())["commit"] == head.stdout.strip()
    failing.write("my_model.py", MODEL + "\n# changed\n")
    failing.run(MODELS, "-k", "snapshot", "--hierexport-report=report.json")
    assert json.loads((failing.path / "report.json").read_text())["commit"] == f"{head.stdout.strip()}-dirty"


def test_both_reports_are_written_by_the_xdist_controller(failing: Project) -> None:
    failing.process(
        MODELS, "-n", "1", "-k", "MUST-002 or snapshot", "--hierexport-report=r.json", "--hierexport-report=r.html"
    )
    (model,) = json.loads((failing.path / "r.json").read_text())["models"]
    assert model["hierarchy"].startswith("/Tower\n")
    assert {name: check["verdict"] for name, check in model["checks"].items() if check["verdict"] != "not run"} == {
        "MUST-002": "passed",
        "snapshot": "failed",
    }
    assert [module["path"] for module in model["modules"]][:3] == ["", "blocks", "blocks.0"]
    assert model["checks"]["snapshot"]["failure"]["changes"][0]["tag"] == "/Other<Tower>"
    assert len(json.loads(Page((failing.path / "r.html").read_text()).texts["script"][0])["models"]) == 1


def test_the_ini_may_name_a_report_beside_itself(failing: Project) -> None:
    failing.write("pytest.ini", "[pytest]\nhierexport_report = report.json\n")
    failing.run(MODELS, "-k", "MUST-002")
    assert (failing.path / "report.json").exists()


def test_collecting_writes_none(failing: Project) -> None:
    failing.run(MODELS, "--co", "--hierexport-report=report.json")
    assert not (failing.path / "report.json").exists()


@pytest.mark.parametrize(("name", "text"), [("data.json", '{"mine": 1}'), ("page.html", "<!doctype html><p>mine")])
def test_foreign_report_file_is_refused_before_the_run(project: Project, name: str, text: str) -> None:
    own = project.write(name, text)
    result = project.run(MODELS, "-k", "MUST-002", f"--hierexport-report={name}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*{name} to be written; found a file that pytest-hierexport did not write"])
    assert own.read_text() == text
    assert project.builds == 0


def test_a_report_of_an_earlier_run_is_replaced(failing: Project) -> None:
    reports = ("--hierexport-report=r.json", "--hierexport-report=r.html")
    for _ in range(2):
        assert failing.run(MODELS, "-k", "snapshot", *reports).ret == pytest.ExitCode.TESTS_FAILED
    assert json.loads((failing.path / "r.json").read_text())["generator"] == "pytest-hierexport"


def test_a_report_that_cannot_be_written_is_one_warning(failing: Project) -> None:
    (failing.path / "report.json").symlink_to("/dev/full")
    result = failing.run(MODELS, "-k", "snapshot", "--hierexport-report=report.json", "-W", "error")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        ["the hierarchy of build has changed", "warning: *report.json was not written: No space left on device"]
    )
    assert "INTERNALERROR" not in result.stdout.str()
    assert "written: " not in [line[:9] for line in result.outlines]
