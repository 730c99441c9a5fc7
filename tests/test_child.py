"""A process that answers requests, one after the other, and is started anew after it has died."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from processes import interruptible
from pytest_hierexport._child import ChildEndedError, ChildProcess, end_all
from pytest_hierexport._errors import CrashError

SERVER = """
import json, os, signal, sys, time

for line in sys.stdin:
    request = json.loads(line)
    if request.get("interrupts"):
        os.kill(os.getppid(), signal.SIGINT)
        sys.stdin.read()
        break
    if request.get("dies"):
        print("some noise", file=sys.stderr)
        print("the last words", file=sys.stderr, flush=True)
        os._exit(7)
    if request.get("killed"):
        os.kill(os.getpid(), signal.SIGKILL)
    if request.get("stammers"):
        print('{"half', end="", flush=True)
        os._exit(7)
    if request.get("forks"):
        pid = os.fork()
        if not pid:
            time.sleep(60)
            os._exit(0)
        if request["forks"] == "dies":
            os._exit(7)
        print(json.dumps({"fork": pid}), flush=True)
        continue
    answer = {"process": os.getpid(), "mark": os.environ.get("MARK"), "path": request["path"]}
    print(json.dumps(answer), flush=True)
"""


@pytest.fixture
def child(tmp_path: Path) -> Iterator[ChildProcess]:
    (tmp_path / "server.py").write_text(SERVER)
    child = ChildProcess(str(tmp_path / "server.py"), MARK="marked")
    yield child
    child.close()


def test_one_process_answers_all_requests(child: ChildProcess) -> None:
    assert child.ask() == child.ask()


def test_process_gets_our_path_and_its_own_environment(child: ChildProcess) -> None:
    answer = child.ask()
    assert answer["path"] == list(map(str, sys.path))
    assert answer["mark"] == "marked"
    assert "MARK" not in os.environ


def test_dead_process_says_its_last_line_and_starts_again(child: ChildProcess) -> None:
    first = child.ask()["process"]
    for _ in range(2):
        with pytest.raises(ChildEndedError, match=r"^ended with 7: the last words$"):
            child.ask(dies=True)
    assert child.ask()["process"] != first


def test_kill_of_the_process_is_no_fault_of_the_model(child: ChildProcess) -> None:
    with pytest.raises(CrashError, match="when memory is short"):
        child.ask(killed=True)
    assert child.ask()


def test_half_an_answer_is_none(child: ChildProcess) -> None:
    with pytest.raises(ChildEndedError, match="ended with 7"):
        child.ask(stammers=True)


def test_next_request_after_the_end_starts_a_new_process(child: ChildProcess) -> None:
    first = child.ask()["process"]
    end_all()
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)
    assert child.ask()["process"] != first


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no forks")
def test_fork_neither_uses_nor_ends_the_process(child: ChildProcess) -> None:
    first = child.ask()["process"]
    fork = os.fork()
    if not fork:
        child.close()
        os._exit(child.ask()["process"] == first)
    assert os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1]) == 0
    assert child.ask()["process"] == first


def test_silent_death_is_said_to_be_silent() -> None:
    with pytest.raises(ChildEndedError, match="ended with 3: it said nothing"):
        ChildProcess("-c", "import os; os._exit(3)").ask()


def test_interrupted_request_ends_the_process(child: ChildProcess) -> None:
    process = child.ask()["process"]
    with interruptible(), pytest.raises(KeyboardInterrupt):
        child.ask(interrupts=True)
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no forks")
def test_fork_of_the_process_delays_neither_answer_nor_end(child: ChildProcess) -> None:
    fork = child.ask(forks="lives")["fork"]
    child.close()
    with pytest.raises(ChildEndedError, match="ended with 7"):
        child.ask(forks="dies")
    os.kill(fork, signal.SIGKILL)  # raises where it has ended: then it was waited for


def test_process_that_died_after_its_answer_is_replaced(child: ChildProcess) -> None:
    first = child.ask()["process"]
    os.kill(first, signal.SIGKILL)
    os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)
    assert child.ask()["process"] != first


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no forks")
def test_model_in_the_process_may_fork() -> None:
    code = """
import multiprocessing
from pytest_hierexport._rules.peer import serve

def answer():
    fork = multiprocessing.get_context("fork").Process(target=int)
    fork.start()
    fork.join(20)
    return fork.exitcode

serve(answer)
"""
    child = ChildProcess("-c", code)
    assert child.ask() == 0
    child.close()
