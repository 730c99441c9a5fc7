"""The limit of a model's tests: what hangs is stopped, in Python and in native code, and costs that model alone."""

from __future__ import annotations

import enum
import importlib
import sys
import threading
import time
from pathlib import Path

import pytest

from fatal_runs import Runs
from projects import Project
from pytest_hierexport._child import ChildProcess
from pytest_hierexport._pytest.crashes import Hang, HangFiles
from pytest_hierexport._pytest.guard import dump_stacks
from pytest_hierexport._pytest.options import OPTIONS
from pytest_hierexport._pytest.time_limit import TimedOut, TimeLimit
from pytest_hierexport._stages import IDLE, listening, stage

HANGING = """
import re

def spins():
    while True:
        pass

def matches():
    re.match("(a+)+$", "a" * 60 + "b")

def lives():
    import torch
    return torch.nn.Linear(2, 2), (torch.ones(1, 2),)
"""
HANGS_IN_RULE = """
import time
from pytest_hierexport._rules.base import Rule

def _check(exported):
    while exported.case.name == "lives":
        time.sleep(60)
    return []

def pytest_hierexport_rules(config):
    return [Rule("OWN-1", "survived", _check)]
"""
LIMITS = {"spins": "timeout = 2\n", "matches": "timeout = 2\n", "lives": "timeout = 20\n"}


@pytest.fixture
def limit(tmp_path: Path) -> TimeLimit:
    return TimeLimit(tmp_path / "hangs", "pytest")


def spin(seconds: float = 30) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


class TestTimeLimit:
    def test_python_code_is_stopped_with_stage_and_line(self, limit: TimeLimit) -> None:
        with pytest.raises(TimedOut) as caught, limit.limited("an item", 0.2), stage("exporting"):
            spin()
        assert caught.value.ending.startswith("did not finish within 0.2 s (exporting, ")
        assert "test_option_timeout.py line " in caught.value.ending
        assert limit.files.read() is None

    def test_an_error_in_place_of_the_interruption_hides_nothing(self, limit: TimeLimit) -> None:
        def convert() -> None:
            try:
                spin()
            except BaseException as error:
                raise ValueError("the exporter's own words") from error

        with pytest.raises(TimedOut), limit.limited("an item", 0.2), stage("exporting"):
            convert()

    def test_waiting_is_stopped(self, limit: TimeLimit) -> None:
        started = time.monotonic()
        with pytest.raises(TimedOut), limit.limited("an item", 0.2), stage("exporting"):
            time.sleep(30)
        assert time.monotonic() - started < 20

    def test_what_finishes_is_left_alone(self, limit: TimeLimit) -> None:
        with limit.limited("an item", 0.5), stage("exporting"):
            found = limit.files.read()
        spin(0.8)
        assert found is not None
        assert found.item == "an item"

    def test_a_block_without_stages_leaves_no_trace(self, limit: TimeLimit) -> None:
        with limit.limited("an item", 0.5):
            assert not limit.folder.exists()

    def test_clock_that_a_test_replaces_moves_no_limit(self, limit: TimeLimit, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(time, "monotonic", lambda: 1e9)
        with limit.limited("an item", 5), stage("exporting"):
            found = limit.files.read()
        assert found is not None
        assert 0 < found.deadline - time.clock_gettime(time.CLOCK_MONOTONIC) < 60

    @pytest.mark.parametrize("idle", sorted(IDLE))
    def test_import_of_torch_and_waiting_do_not_count(self, limit: TimeLimit, idle: str) -> None:
        with limit.limited("an item", 1), stage("building the model"):
            with stage(idle):
                spin(1.5)
            spin(0.1)

    @pytest.mark.parametrize("idle", sorted(IDLE))
    def test_time_starts_when_torch_or_the_export_is_there(self, limit: TimeLimit, idle: str) -> None:
        def build() -> None:
            with stage(idle):
                pass
            spin()

        with pytest.raises(TimedOut), limit.limited("an item", 0.3):
            build()

    def test_stage_that_cannot_be_told_is_left(self) -> None:
        told = []

        def tell(stages: tuple[str, ...]) -> None:
            told.append(stages)
            if stages:
                raise TimedOut("did not finish")

        with listening(tell), pytest.raises(TimedOut), stage("exporting"):
            pass
        assert told == [("exporting",), ()]

    def test_an_import_is_not_cut_in_half(
        self, limit: TimeLimit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "slow_import.py").write_text("import time\ntime.sleep(0.6)\nwhole = True\n")
        monkeypatch.syspath_prepend(tmp_path)

        def build() -> None:
            importlib.import_module("slow_import")
            spin()

        with pytest.raises(TimedOut), limit.limited("an item", 0.2), stage("building the model"):
            build()
        assert sys.modules.pop("slow_import").whole

    def test_a_process_that_hangs_is_ended(self, limit: TimeLimit, tmp_path: Path) -> None:
        script, pid = tmp_path / "child.py", tmp_path / "pid"
        script.write_text(
            "import os, pathlib, re\n"
            f"pathlib.Path({str(pid)!r}).write_text(str(os.getpid()))\n"
            "re.match('(a+)+$', 'a' * 60 + 'b')\n"
        )
        child = ChildProcess(str(script))
        with pytest.raises(TimedOut) as caught, limit.limited("an item", 2):
            child.ask()
        assert "waiting for a process of its own" in caught.value.ending
        assert not Path("/proc", pid.read_text()).exists()


LIBRARY = Path(enum.__file__).parent
STACKS = f"""Timeout (0:00:07)!
Thread 0x0001 (most recent call first):
  File "/usr/lib/thread.py", line 5 in run
Thread 0x0002 (most recent call first):
  File "{LIBRARY}/enum.py", line 9 in __or__
  File "/env/site-packages/torch/nn/functional.py", line 7 in relu
  File "/project/tower.py", line 12 in forward
  File "/env/site-packages/torch/nn/modules/module.py", line 8 in _call_impl
  File "/env/site-packages/pluggy/_callers.py", line 3 in _multicall
  File "/env/site-packages/_pytest/runner.py", line 3 in call_runtest_hook
  File "/env/site-packages/xdist/remote.py", line 2 in <module>
  File "/env/bin/pytest", line 1 in <module>
"""


def test_line_is_the_users_where_it_called_torch() -> None:
    ending = Hang("an item", 2, 0, ("exporting",)).ending(STACKS)
    assert ending == "did not finish within 2 s (exporting, tower.py line 12)"


def test_file_in_the_project_has_its_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    ending = Hang("an item", 2, 0).ending(STACKS.replace("/project/", f"{tmp_path}/models/"))
    assert ending == "did not finish within 2 s (models/tower.py line 12)"


def test_line_is_the_innermost_without_code_of_users() -> None:
    inside = STACKS.replace("/project/", "/env/site-packages/onnxscript/")
    assert Hang("an item", 2, 0).ending(inside) == "did not finish within 2 s (torch/nn/functional.py line 7)"
    assert Hang("an item", 2, 0).ending("") == "did not finish within 2 s"


def test_zero_is_no_limit_and_others_are_refused(project: Project) -> None:
    (option,) = (each for each in OPTIONS if each.name == "timeout")
    assert option.parse("0", Path()) == float("inf")
    assert option.parse("2.5", Path()) == 2.5
    result = project.run("--hierexport-models=my_model.py::build", "--hierexport-timeout=-1")
    result.stderr.fnmatch_lines(["*expected a number of seconds in hierexport_timeout; found '-1'*"])


@pytest.mark.parametrize(
    ("given", "manifest", "ini", "limit"),
    [("3", "timeout = 4", "5", 3.0), ("", "timeout = 4", "5", 4.0), ("", "", "5", 5.0), ("", "", "", 1800.0)],
)
def test_command_line_overrides_manifest_overrides_ini(
    project: Project, given: str, manifest: str, ini: str, limit: float
) -> None:
    project.write("models.toml", f'[models.tower]\nmodel = "my_model.py::build"\n{manifest}\n')
    stated = f"hierexport_timeout = {ini}\n" if ini else ""
    project.write("pytest.ini", f"[pytest]\nhierexport_models = models.toml\n{stated}")
    project.write("test_own.py", f"def test_own(hierexport_case): assert hierexport_case.timeout == {limit}\n")
    options = [f"--hierexport-timeout={given}"] if given else []
    result = project.run("--hierexport-models=models.toml", *options, "test_own.py", "-k", "test_own")
    assert result.parseoutcomes()["passed"] == 1


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    texts = {"hanging.py": HANGING, "conftest.py": HANGS_IN_RULE}
    runs = Runs(tmp_path_factory.mktemp("hanging"), "--hierexport-rules=OWN-1", **texts)
    assert runs.run(manifest(runs, "a", "b")).code == 0
    return runs


def manifest(runs: Runs, *names: str) -> str:
    files = dict.fromkeys(LIMITS, "hanging.py")
    tables = [
        f'[models.{name}]\nmodel = "{files.get(name, "my_model.py")}::{name}"\n{LIMITS.get(name, "")}' for name in names
    ]
    return f"--hierexport-models={runs.write('models.toml', ''.join(tables))}"


@pytest.mark.parametrize(
    ("name", "place", "workers"),
    [("spins", 0, 0), ("spins", 1, 2), ("matches", 2, 1)],
)
def test_a_model_that_hangs_fails_alone(runs: Runs, name: str, place: int, workers: int) -> None:
    names = ["a", "b"]
    names.insert(place, name)
    outcome = runs.run("-n", str(workers), manifest(runs, *names))
    assert outcome.code == 1
    assert f"{name}: did not finish in time" in outcome.text
    assert "did not finish within 2 s (building the model, hanging.py line " in outcome.text
    assert set(outcome.checks(name).values()) == {"failed"}
    for living in ("a", "b"):
        assert not {"failed", "not run"} & set(outcome.checks(living).values())
    assert not outcome.left


def test_hang_in_native_code_without_workers_leaves_report(runs: Runs) -> None:
    outcome = runs.run("-n0", manifest(runs, "a", "matches", "b"))
    assert outcome.code == 1
    assert "the run ends here" in outcome.text
    assert "did not finish within 2 s (building the model, hanging.py line " in outcome.text
    assert outcome.checks("matches")["snapshot"] == "failed"
    assert outcome.checks("a")["OWN-1"] == "passed"
    assert set(outcome.checks("b").values()) == {"not run"}
    assert " 1 failed, " in outcome.text
    assert not outcome.left


LEAVES_THE_ITEM = """
import pytest

@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    report.item = item
    return report
"""


def test_objects_of_the_project_on_reports_end_no_run(project: Project) -> None:
    project.write("conftest.py", LEAVES_THE_ITEM)
    project.write("test_own.py", "def test_own(record_property): record_property('made', lambda: 1)\n")
    result = project.run("--hierexport-models=my_model.py::build", "-k", "MUST-002 or own", ".")
    result.assert_outcomes(passed=2, deselected=result.parseoutcomes()["deselected"])


def test_dump_that_is_being_written_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = HangFiles.of(tmp_path, "pytest")
    whole = STACKS.replace("0x0002", f"0x{threading.get_ident():016x}")
    first_thread, _, _ = whole.partition(f"Thread 0x{threading.get_ident():016x}")

    def write(_: int, signal_number: int) -> None:
        files.stacks.write_text(first_thread)
        threading.Timer(0.6, files.stacks.write_text, [whole]).start()

    monkeypatch.setattr("os.kill", write)
    dump_stacks(0, files)
    assert files.dumped() == whole


def test_hang_in_a_rule_keeps_the_verdicts_before(runs: Runs) -> None:
    outcome = runs.run("-n0", manifest(runs, "lives"), "-k", "OWN-1 or MUST-002")
    assert "(checking OWN-1, conftest.py line 7) in test_must[OWN-1]" in outcome.text
    checks = outcome.checks("lives")
    assert (checks["MUST-002"], checks["OWN-1"], checks["MUST-001"]) == ("passed", "failed", "not run")


def test_system_without_signals_and_forks_is_refused(project: Project) -> None:
    project.write(
        "conftest.py",
        """
        import os, select, signal
        for module, name in [(os, "fork"), (select, "poll"), (signal, "SIGURG"), (signal, "SIGCONT")]:
            delattr(module, name)
        """,
    )
    project.write("test_own.py", "def test_it(): pass\n")
    result = project.process("--hierexport-models=my_model.py::build")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*hierexport: expected Linux or macOS to check models on; found *"])
    project.write("pytest.ini", "[pytest]\nhierexport_models = my_model.py::build\n")
    assert project.process("test_own.py").ret == 0


def test_limit_that_no_timer_takes_is_none(project: Project) -> None:
    result = project.run("--hierexport-models=my_model.py::build", "--hierexport-timeout=1e12", "-k", "MUST-002")
    result.assert_outcomes(passed=1, deselected=10)
