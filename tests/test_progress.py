"""The progress of a run: what a terminal shows while a model is under way, and how long each stage took."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from contextlib import suppress
from pathlib import Path

import pytest

from projects import Project
from pytest_hierexport._pytest.clock import StageClock, UnderWay, under_way
from pytest_hierexport._pytest.progress import progress_text
from pytest_hierexport._stages import LOADING, listening, stage

MODELS = "--hierexport-models=my_model.py::build"
SLOW_RULE = """
import time
from pytest_hierexport._rules.base import Rule

def _check(exported):
    time.sleep(2)
    return []

def pytest_hierexport_rules(config):
    return [Rule("OWN-1", "slow", _check)]
"""
RUNNING = [UnderWay("bert", "exporting", 10.0), UnderWay("vit", "checking MUST-001", 2.0)]


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        (80, "hierexport: bert: exporting 4 s, vit: checking MUST-001 12 s"),
        (50, "bert: exporting 4 s, vit: checking MUST-001 12 s"),
        (40, "exporting 4 s, checking MUST-001 12 s"),
        (20, "bert: exporting 4 s…"),
        (10, ""),
    ],
)
def test_text_fits_the_columns_that_are_left(columns: int, text: str) -> None:
    assert progress_text(RUNNING, 14.0, columns) == text


def test_stage_that_just_began_is_not_shown() -> None:
    assert progress_text(RUNNING, 10.5, 80) == "hierexport: vit: checking MUST-001 8 s"
    assert progress_text([], 10.5, 80) == ""


def test_clock_counts_outermost_stages_and_the_import_apart(tmp_path: Path) -> None:
    clock = StageClock(tmp_path / "absent" / "pytest.json")
    with listening(clock.note), stage("checking MUST-001"):
        time.sleep(0.01)
        with stage("exporting"), stage(LOADING):
            time.sleep(0.01)
    assert list(taken := clock.taken()) == ["checking MUST-001", LOADING]
    assert min(taken.values()) > 0
    assert clock.taken() == {}


def test_clock_tells_the_innermost_stage_and_its_end(tmp_path: Path) -> None:
    clock = StageClock(tmp_path / "worker gw0.json")
    clock.model = "bert"
    with listening(clock.note), stage("checking MUST-001"):
        with stage("exporting"):
            (found,) = under_way(tmp_path)
            assert (found.model, found.stage) == ("bert", "exporting")
        assert under_way(tmp_path)[0].stage == "checking MUST-001"
    assert under_way(tmp_path) == []


def on_a_terminal(project: Project, *arguments: str) -> str:
    """Return what pytest writes to a terminal of 100 columns."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    command = [sys.executable, "-m", "pytest", *arguments]
    written = b""
    with subprocess.Popen(command, cwd=project.path, env=environment, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        # Linux tells by an error that the other end was closed.
        with suppress(OSError):
            while read := os.read(ours, 4096):
                written += read
    os.close(ours)
    assert process.returncode == 0
    return written.decode()


@pytest.mark.parametrize("workers", ["-n0", "-n1"])
def test_terminal_shows_model_and_stage(project: Project, workers: str) -> None:
    project.write("conftest.py", SLOW_RULE)
    shown = on_a_terminal(project, MODELS, "-k", "OWN-1", workers)
    assert "build: checking OWN-1 1 s" in shown
    # Each text is erased before pytest writes on.
    assert shown.rindex("\x1b[K") > shown.rindex("build: checking OWN-1")


def test_output_into_a_file_shows_no_progress(project: Project) -> None:
    project.write("conftest.py", SLOW_RULE)
    result = project.run(MODELS, "-k", "OWN-1")
    assert result.ret == 0
    assert "checking OWN-1" not in result.stdout.str()


def test_export_is_a_step_of_its_own_in_durations(project: Project) -> None:
    result = project.run(MODELS, "-k", "MUST-002", "--durations=0", "-vv")
    result.stdout.re_match_lines([r"slowest stages of models:", r" +\d+\.\d\d s  build: exporting"])
    phases = [line.split() for line in result.outlines if line.endswith("build::test_must[MUST-002]") and "s " in line]
    seconds = {phase: float(shown[:-1]) for shown, phase, _ in phases}
    assert seconds["setup"] > seconds["call"]


def test_report_has_the_seconds_of_each_stage(project: Project) -> None:
    assert project.run(MODELS, "-k", "MUST-002 or snapshot", "--hierexport-report=report.json").ret == 0
    (model,) = json.loads((project.path / "report.json").read_text())["models"]
    assert {"building the model", "exporting", "checking MUST-002"} <= model["stages"].keys()
    assert model["stages"]["exporting"] > 0


def properties_of(file: Path) -> dict[str, dict[str, str]]:
    """Return the properties of each test in a JUnit report."""
    return {
        test.attrib["name"]: {each.attrib["name"]: each.attrib["value"] for each in test.iter("property")}
        for test in ET.parse(file).iter("testcase")  # noqa: S314  # written by this test
    }


@pytest.mark.parametrize("workers", ["-n0", "-n1"])
def test_junit_report_has_properties_of_each_test(project: Project, workers: str) -> None:
    arguments = (MODELS, "-k", "MUST-002 or snapshot", "--junitxml=junit.xml", workers)
    assert (project.run if workers == "-n0" else project.process)(*arguments).ret == 0
    properties = properties_of(project.path / "junit.xml")
    assert float(properties["test_snapshot"].pop("seconds exporting")) > 0
    rule = properties["test_must[MUST-002]"]
    assert {name: value for name, value in rule.items() if not name.startswith("seconds")} == {
        "model": "build",
        "rule": "MUST-002",
        "exporter": "dynamo",
        "nodes": "6",
        "stage": "check",
    }


def test_failed_export_is_the_stage_of_all_its_tests(project: Project) -> None:
    project.write("my_model.py", "def build():\n    raise ValueError('no weights')\n")
    project.run(MODELS, "-k", "MUST-002 or snapshot", "--junitxml=junit.xml")
    properties = properties_of(project.path / "junit.xml")
    assert {each["stage"] for each in properties.values()} == {"export"}
    assert {each["nodes"] for each in properties.values()} == {"0"}
