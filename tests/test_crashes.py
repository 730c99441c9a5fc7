"""Workers that die: what the run comes to, for every way to die and wherever the model stands."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from fatal_runs import Outcome, Runs
from pytest_hierexport._pytest.crashes import Crash, Crashes, ending

DEADLY = """
import ctypes, os, signal

def _began():
    with open(__file__ + ".log", "a") as log:
        log.write("built\\n")

def exits_with_0():
    _began()
    os._exit(0)

def exits_with_3():
    _began()
    os._exit(3)

def is_killed():
    _began()
    os.kill(os.getpid(), signal.SIGKILL)

def is_terminated():
    _began()
    signal.raise_signal(signal.SIGTERM)

def faults():
    _began()
    ctypes.string_at(0)

def aborts():
    _began()
    os.abort()
"""

DEADLY_MODELS = """
import os
import torch
from my_model import Tower

class InForward(Tower):
    def forward(self, x):
        os._exit(3)

def dies_in_forward():
    return InForward().eval(), (torch.ones(2, 4),)

def dies_in_rule():
    return Tower().eval(), (torch.ones(2, 4),)

def build():
    return Tower().eval(), (torch.ones(2, 4),)

def export(model, args, kwargs, path, **options):
    os._exit(5)
"""

RULE = """
import signal
from pytest_hierexport._rules.base import Rule

def _check(exported):
    if exported.case.name == "dies_in_rule":
        signal.raise_signal(signal.SIGSEGV)
    return []

def pytest_hierexport_rules(config):
    return [Rule("OWN-1", "survived", _check)]
"""

MANIFEST = """
[models.own]
model = "deadly_models.py::build"
exporter = "deadly_models:export"
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    texts = {"deadly.py": DEADLY, "deadly_models.py": DEADLY_MODELS, "own.toml": MANIFEST, "conftest.py": RULE}
    runs = Runs(tmp_path_factory.mktemp("deadly"), "--hierexport-rules=OWN-1", **texts)
    assert runs.run(*models("a", "b")).code == 0
    return runs


def models(*names: str) -> tuple[str, ...]:
    files = dict.fromkeys("ab", "my_model") | dict.fromkeys(["dies_in_forward", "dies_in_rule"], "deadly_models")
    selectors = [name if name.endswith(".toml") else f"{files.get(name, 'deadly')}.py::{name}" for name in names]
    return tuple(f"--hierexport-models={selector}" for selector in selectors)


def assert_only_the_model_failed(outcome: Outcome, name: str, cause: str) -> None:
    assert outcome.code == 1
    assert f"{name}: ended its process" in outcome.text
    assert cause in outcome.text
    assert set(outcome.checks(name).values()) == {"failed"}
    assert outcome.report["verdicts"]["not run"] == 0
    for living in ("a", "b"):
        assert "failed" not in outcome.checks(living).values()
    assert not outcome.left


@pytest.mark.parametrize(
    ("way", "cause", "place", "workers"),
    [
        ("exits_with_0", "ended with exit code 0", 0, 1),
        ("exits_with_3", "ended with exit code 3", 1, 2),
        ("is_killed", "was ended by SIGKILL", 2, 1),
        ("faults", "was ended by SIGSEGV", 2, 2),
        ("aborts", "was ended by SIGABRT", 0, 2),
        ("is_terminated", "was ended by SIGTERM", 1, 1),
    ],
)
def test_a_factory_that_ends_its_worker_fails_its_model_alone(
    runs: Runs, way: str, cause: str, place: int, workers: int
) -> None:
    names = ["a", "b"]
    names.insert(place, way)
    outcome = runs.run("-n", str(workers), *models(*names))
    assert_only_the_model_failed(outcome, way, cause)
    assert runs.begun() == 1


def test_forward_or_exporter_that_ends_its_worker_fails_alone(runs: Runs) -> None:
    outcome = runs.run("-n", "2", *models("a", "dies_in_forward", "own.toml", "b"))
    assert_only_the_model_failed(outcome, "dies_in_forward", "exit code 3 in test_snapshot")
    assert_only_the_model_failed(outcome, "own", "exit code 5 in test_snapshot")


def test_rule_that_ends_its_worker_keeps_earlier_verdicts(runs: Runs) -> None:
    outcome = runs.run("-n", "1", *models("a", "dies_in_rule", "b"))
    assert outcome.code == 1
    assert "was ended by SIGSEGV (a fault in native code) in test_must[OWN-1]" in outcome.text
    assert outcome.checks("dies_in_rule") == {
        "MUST-001": "failed",
        "MUST-002": "passed",
        "MUST-003": "passed",
        "OWN-1": "failed",
        "snapshot": "skipped",
    }
    assert outcome.report["verdicts"]["failed"] == 2
    assert "dies_in_rule/model.onnx" in outcome.text
    assert not outcome.left


def test_two_models_that_end_their_workers_at_once_fail_alone(runs: Runs) -> None:
    outcome = runs.run("-n", "2", *models("exits_with_0", "exits_with_3", "a", "b"))
    assert_only_the_model_failed(outcome, "exits_with_0", "exit code 0")
    assert_only_the_model_failed(outcome, "exits_with_3", "exit code 3")
    assert runs.begun() == 2


@pytest.mark.parametrize("workers", ["1", "2"])
def test_project_test_that_ends_its_worker_fails_alone(runs: Runs, workers: str) -> None:
    file = runs.write(
        "test_own.py",
        """
        import os
        def test_first(): pass
        def test_deadly(): os._exit(1)
        def test_last(): pass
        """,
    )
    outcome = runs.run("-n", workers, *models("a", "b"), file)
    assert outcome.code == 1
    assert "crashed while running 'test_own.py::test_deadly'" in outcome.text
    assert " 1 failed, " in outcome.text
    assert outcome.report["verdicts"]["failed"] == outcome.report["verdicts"]["not run"] == 0
    assert not outcome.left


@pytest.mark.parametrize("dist", ["loadscope", "worksteal"])
def test_other_ways_to_distribute_survive_as_well(runs: Runs, dist: str) -> None:
    outcome = runs.run("-n", "1", f"--dist={dist}", *models("a", "exits_with_3", "b"))
    assert_only_the_model_failed(outcome, "exits_with_3", "exit code 3")
    assert runs.begun() == 1


def test_tests_waiting_for_a_fatal_export_do_not_retry_it(runs: Runs) -> None:
    file = runs.write("test_export.py", "def test_export(hierexport_export): pass\n")
    outcome = runs.run("-n", "2", *models("exits_with_3", "a", "b"), file, "-k", "exits_with_3")
    assert outcome.code == 1
    assert runs.begun() == 1
    assert not outcome.left


@pytest.mark.parametrize("workers", ["1", "2"])
def test_without_restarts_the_run_ends_and_says_so(runs: Runs, workers: str) -> None:
    outcome = runs.run("-n", workers, "--max-worker-restart=0", *models("exits_with_3", "a", "b"))
    assert outcome.code == 1
    assert "crashed and worker restarting disabled" in outcome.text
    assert "exits_with_3: ended its process" in outcome.text
    assert "cardinal rules not run: " in outcome.text
    assert runs.begun() == 1
    assert not outcome.left


def test_a_limit_of_failures_ends_the_run(runs: Runs) -> None:
    outcome = runs.run("-n", "1", "-x", *models("exits_with_3", "a", "b"))
    assert outcome.code in {1, 2}
    assert "stopping after" in outcome.text
    assert outcome.report["verdicts"]["failed"] == 2
    assert set(outcome.checks("b").values()) == {"not run"}
    assert not outcome.left


def test_a_crash_is_of_one_run(runs: Runs) -> None:
    (runs.folder / "once.py").write_text(
        "import os\n"
        "def once():\n"
        "    if os.path.exists('ready'):\n"
        "        raise ValueError('the second run')\n"
        "    open('ready', 'w').close()\n"
        "    os._exit(3)\n"
    )
    selected = ("-n", "1", "--hierexport-models=once.py::once")
    assert "it ended its process" in runs.run(*selected).text
    second = runs.run(*selected).text
    assert "ValueError: the second run" in second
    assert "its process" not in second


def test_a_crash_is_read_by_every_process_of_the_run(tmp_path: Path) -> None:
    crash = Crash("model/one", "test_snapshot", "worker gw0", "ended with exit code 3")
    Crashes(tmp_path / "crashes").add(crash)
    assert Crashes(tmp_path / "crashes").of("model/one") == crash
    assert Crashes(tmp_path / "crashes").of("model") is None


def test_the_first_crash_of_a_model_stays(tmp_path: Path) -> None:
    crashes = Crashes(tmp_path)
    crashes.add(Crash("model", "first", "worker gw0", "ended"))
    crashes.add(Crash("model", "second", "worker gw1", "ended"))
    found = crashes.of("model")
    assert found is not None
    assert found.test == "first"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "ended with exit code 0"),
        (3, "ended with exit code 3"),
        (-signal.SIGSEGV, "was ended by SIGSEGV (a fault in native code)"),
        (-signal.SIGTERM, "was ended by SIGTERM"),
        (-4096, "was ended by signal 4096"),
        (None, "ended without a word"),
    ],
)
def test_the_end_of_a_process_is_said_in_words(code: int | None, words: str) -> None:
    assert ending(code) == words
