"""Sessions that are asked to end, or killed: what they leave behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from processes import carrying
from pytest_hierexport._pytest.termination import Terminated, TerminationPlugin

WAITS = """
import os, pathlib, tempfile, time

HERE = pathlib.Path(__file__).parent

def build():
    from pytest_hierexport._files.temporary import temporary_folder
    with temporary_folder():
        wait()

def twice():
    import torch
    if os.environ.get("PYTHONHASHSEED") in {"1", "2"}:
        wait()
    return torch.nn.Linear(4, 4).eval(), (torch.ones(2, 4),)

def wait():
    (HERE / "waits").touch()
    while True:
        time.sleep(0.05)
"""

LONG = 300.0


class Session:
    """pytest in a process of its own, with a TMPDIR of its own, working on a factory that never ends."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder, self.temporary = folder, folder / "tmp"
        self.mark = f"session-{folder}"
        self.temporary.mkdir(exist_ok=True)
        (folder / "waits.py").write_text(WAITS)
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, "TMPDIR": str(self.temporary), "HIEREXPORT_TEST_RUN": self.mark},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def until(self, condition: Callable[[], object]) -> None:
        """Wait for a condition; fail after a long time."""
        end = time.monotonic() + LONG
        while not condition():
            assert time.monotonic() < end
            time.sleep(0.05)

    def until_it_waits(self) -> None:
        """Wait until the factory was called."""
        self.until(lambda: (self.folder / "waits").exists() or self.process.poll() is not None)
        assert self.process.poll() is None

    def end(self, number: int) -> str:
        """Send a signal, and return what was printed until the end."""
        self.process.send_signal(number)
        printed, _ = self.process.communicate(timeout=LONG)
        return str(printed)

    def left(self) -> list[str]:
        """Return what lies in TMPDIR beside the folders that pytest and torch keep there from run to run."""
        kept = ("pytest-of-", "torchinductor_")
        return sorted(path.name for path in self.temporary.iterdir() if not path.name.startswith(kept))


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Session]]:
    for name in [name for name in os.environ if name.startswith("PYTEST_")]:
        monkeypatch.delenv(name)
    sessions: list[Session] = []

    def start(*arguments: str) -> Session:
        sessions.append(Session(tmp_path, *arguments))
        return sessions[-1]

    yield start
    for session in sessions:
        session.process.kill()
        session.process.communicate()


@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_sigterm_leaves_no_file_and_no_process(start: Callable[..., Session], workers: tuple[str, ...]) -> None:
    session = start("--hierexport-models=waits.py::build", *workers)
    session.until_it_waits()
    assert session.left()
    assert "ended by SIGTERM" in session.end(signal.SIGTERM)
    assert session.process.returncode == 128 + signal.SIGTERM
    assert session.left() == []
    assert not carrying(session.mark)


def test_sigterm_leaves_no_second_process_of_an_export(start: Callable[..., Session]) -> None:
    session = start("--hierexport-models=waits.py::twice", "-k", "MUST-008", "-n", "1")
    session.until_it_waits()
    session.end(signal.SIGTERM)
    session.until(lambda: not carrying(session.mark))
    assert session.left() == []


def test_next_run_removes_only_what_killed_runs_left(start: Callable[..., Session]) -> None:
    session = start("--hierexport-models=waits.py::build")
    session.until_it_waits()
    (folder,) = session.temporary.glob("hierexport-*/")
    assert start("--hierexport-models=waits.py::build", "--co").process.wait(LONG) == 0
    assert folder.exists()
    session.end(signal.SIGKILL)
    assert folder.exists()
    assert start("--hierexport-models=waits.py::build", "--co").process.wait(LONG) == 0
    assert session.left() == []


@pytest.fixture
def sigterm() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGTERM, before)


def nothing() -> None:
    pass


@pytest.mark.usefixtures("sigterm")
def test_the_handler_is_there_for_the_session_alone() -> None:
    plugin = TerminationPlugin(nothing)
    assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    plugin.pytest_unconfigure()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.usefixtures("sigterm")
def test_a_handler_of_somebody_else_stays() -> None:
    def theirs(*_: object) -> None:
        pass

    signal.signal(signal.SIGTERM, theirs)
    plugin = TerminationPlugin(nothing)
    assert signal.getsignal(signal.SIGTERM) is theirs
    plugin.pytest_unconfigure()
    assert signal.getsignal(signal.SIGTERM) is theirs


@pytest.mark.usefixtures("sigterm")
def test_a_second_sigterm_ends_the_process_at_once() -> None:
    called: list[str] = []
    TerminationPlugin(lambda: called.append("workers"))
    with pytest.raises(Terminated, match="ended by SIGTERM"):
        signal.raise_signal(signal.SIGTERM)
    assert called == ["workers"]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
