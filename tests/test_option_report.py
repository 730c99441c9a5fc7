from __future__ import annotations

import json
from html.parser import HTMLParser

import pytest

from projects import Project

MODELS = "--hierexport-models=my_model.py::build"


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
    assert page.loaded == []
    assert {"build", "dynamo", "6", "passed", "not run"} <= set(page.texts["td"])
    assert page.texts["a"] == ["failed"]
    failure, hierarchy = page.texts["pre"]
    assert "- /Other<Tower>" in failure
    assert hierarchy == "/Tower\n/Tower/Block.{0..2} ×3: Gemm 1, Relu 1\n"


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
    assert (failing.path / "r.html").exists()


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
