"""Sessions that Ctrl-C ends, at each stage of the work on a model: their reports are complete."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator, validators

from processes import carrying, interruptible
from schemas import strict_schema

CONFTEST = """
import os, pathlib
from models import wait_in
from pytest_hierexport import Rule

def pytest_runtest_logreport(report):
    in_worker = "PYTEST_XDIST_WORKER" in os.environ
    if "::first::" in report.nodeid and "OWN" in report.nodeid and report.when == "teardown" and not in_worker:
        pathlib.Path(__file__).with_name("done").touch()

def pytest_hierexport_rules(config):
    def check(exported):
        if exported.case.name == "second":
            wait_in("rule")
        return []

    return [Rule("OWN-001", "nothing", check)]
"""
MODELS = """
import os, pathlib, time

def wait_in(stage):
    if os.environ["WAITS_IN"] == stage:
        pathlib.Path(__file__).with_name("waits").touch()
        while True:
            time.sleep(0.05)

def first():
    import torch
    return torch.nn.Linear(4, 4).eval(), (torch.ones(2, 4),)

def second():
    import torch

    class Waiting(torch.nn.Linear):
        def forward(self, x):
            if torch.compiler.is_exporting():
                wait_in("export")
            return super().forward(x)

    wait_in("build")
    return Waiting(4, 4).eval(), (torch.ones(2, 4),)
"""
REPORTS = ("report.json", "report.ctrf.json", "report.html")
CTRF = Path(__file__).with_name("data") / "ctrf-schema-0.0.json"
LONG = 300.0


@pytest.fixture
def interrupted(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Press Ctrl-C while the second of two models is in a stage; give the folder with the reports."""
    stage, selector, *arguments = request.param
    awaited = ["waits"] if selector == "models.py::second" else ["waits", "done"]
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "models.py").write_text(MODELS)
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    reports = [*(f"--hierexport-report={name}" for name in REPORTS), "--hierexport-summary=report.md"]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-k", "MUST-002 or OWN-001", *arguments]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    mark = f"interrupted-{tmp_path}"
    with interruptible():
        process = subprocess.Popen(
            [*command, f"--hierexport-models={selector}", "--junitxml=report.xml", *reports],
            cwd=tmp_path,
            env={**inherited, "WAITS_IN": stage, "HIEREXPORT_TEST_RUN": mark},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            # A terminal sends the signal to the workers, too.
            start_new_session=True,
        )
    try:
        end = time.monotonic() + LONG
        while not all((tmp_path / name).exists() for name in awaited):
            assert process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        printed, _ = process.communicate(timeout=LONG)
    finally:
        process.kill()
    print(printed)  # noqa: T201  # pytest shows it where the test fails
    assert process.returncode == pytest.ExitCode.INTERRUPTED
    assert not carrying(mark)
    return tmp_path


def read(interrupted: Path) -> dict[str, Any]:
    """Return the JSON report, after a look at every other one."""
    report = json.loads((interrupted / "report.json").read_text())
    Draft202012Validator(strict_schema("report")).validate(report)
    names = {model["name"] for model in report["models"]}
    ctrf = json.loads((interrupted / "report.ctrf.json").read_text())
    schema = json.loads(CTRF.read_text())
    validators.validator_for(schema)(schema).validate(ctrf)
    page = (interrupted / "report.html").read_text()
    assert page.endswith("</body></html>\n")
    data = json.loads(page.partition('id="data">')[2].partition("</script>")[0])
    assert {model["name"] for model in data["models"]} == names
    summary = (interrupted / "report.md").read_text()
    assert all(name in summary for name in names)
    assert report["interrupted"]
    assert "interrupted: checks that did not run have no verdict" in summary
    junit = ET.parse(interrupted / "report.xml").getroot()  # noqa: S314  # pytest has just written it
    passed = sum(check["verdict"] == "passed" for model in report["models"] for check in model["checks"].values())
    assert len(list(junit.iterfind(".//testcase[@name]"))) == ctrf["results"]["summary"]["passed"] == passed
    return report  # type: ignore[no-any-return]


def verdicts(report: dict[str, Any]) -> dict[str, str]:
    return {model["name"]: model["checks"]["OWN-001"]["verdict"] for model in report["models"]}


BOTH = "models.py::*"


@pytest.mark.parametrize(
    "interrupted",
    [("build", BOTH, "-n0"), ("export", BOTH, "-n0"), ("rule", BOTH, "-n0"), ("export", BOTH, "-n2")],
    ids=["build", "export", "rule", "workers"],
    indirect=True,
)
def test_every_report_is_complete_after_ctrl_c(interrupted: Path) -> None:
    assert verdicts(read(interrupted)) == {"first": "passed", "second": "not run"}


@pytest.mark.parametrize("interrupted", [("build", "models.py::second", "-n0")], ids=[""], indirect=True)
def test_reports_are_written_before_any_check_has_ended(interrupted: Path) -> None:
    assert verdicts(read(interrupted)) == {"second": "not run"}
