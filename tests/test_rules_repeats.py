"""Second exports: one process for all cases of a run and all that ask for one, with an answer also when it dies."""

from __future__ import annotations

import errno
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from pytest_hierexport._cases import Case, Example
from pytest_hierexport._errors import DiskFullError, ExportError, UsageError
from pytest_hierexport._rules import repeats, second_process
from pytest_hierexport._rules.repeats import Repeats


def nothing() -> object:
    return None


def cases(*names: str, factory: Callable[[], object] = nothing) -> list[Case]:
    return [Case(name, factory, "a test") for name in names]


class Death(BaseException):
    """What nothing in the second process survives."""


class Processes:
    """Runs second processes in this one, and counts them."""

    def __init__(self) -> None:
        self.orders: list[list[str]] = []
        self.seeds: list[str] = []

    def run(self, command: Sequence[str], *, env: dict[str, str], **_: Any) -> subprocess.CompletedProcess[bytes]:
        folder = Path(command[-1])
        self.seeds.append(env["PYTHONHASHSEED"])
        before = {path.name for path in folder.glob("*.json")}
        try:
            second_process.main(folder)
        except Death:
            return subprocess.CompletedProcess(command, -11, b"", b"some noise\nSegmentation fault\n")
        finally:
            self.orders.append(sorted({path.name for path in folder.glob("*.json")} - before))
        return subprocess.CompletedProcess(command, 0, b"", b"")

    def export(self, case: Case, exporter: object, path: Path) -> dict[str, Any]:
        if case.name == "deadly":
            raise Death
        if case.name == "hopeless":
            raise ExportError("a graph", found="none", do="nothing")
        if case.name == "full":
            raise ExportError("a file", found="an error", do="nothing") from OSError(errno.ENOSPC, "No space left", "f")
        path.parent.mkdir()
        path.write_text(case.name)
        return {"state": f"state of {case.name}", "files": {path.name: "digest"}}


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Processes]:
    processes, path = Processes(), list(sys.path)
    monkeypatch.setattr(subprocess, "run", processes.run)
    monkeypatch.setattr(second_process, "_export", processes.export)
    yield processes
    assert sys.path == path


def test_one_process_serves_all_cases(processes: Processes, tmp_path: Path) -> None:
    wanted = cases("a", "b", "c")
    second = Repeats(wanted, tmp_path)
    assert [second.of(case).state for case in wanted] == ["state of a", "state of b", "state of c"]
    assert len(processes.orders) == 1


def test_the_case_that_was_asked_for_comes_first(processes: Processes, tmp_path: Path) -> None:
    wanted = cases("a", "b", "c")
    second = Repeats(wanted, tmp_path)
    second.of(wanted[2])
    second.join()
    first, *_ = sorted(tmp_path.glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
    assert first.stem == repeats._key(wanted[2])


def test_another_process_of_the_run_reads_what_is_there(processes: Processes, tmp_path: Path) -> None:
    Repeats(cases("a", "b"), tmp_path).of(cases("a")[0])
    found = Repeats(cases("a", "b"), tmp_path).of(cases("b")[0])
    assert (found.folder / "model.onnx").read_text() == "b"
    assert len(processes.orders) == 1


def test_only_one_process_starts_the_second_process(processes: Processes, tmp_path: Path) -> None:
    (case,) = cases("a")
    other = FileLock(tmp_path / ".lock")
    other.acquire()
    waiting = threading.Thread(target=Repeats([case], tmp_path).of, args=(case,))
    waiting.start()
    waiting.join(timeout=0.3)
    assert waiting.is_alive()
    assert processes.orders == []
    other.release()
    waiting.join(timeout=30)
    assert len(processes.orders) == 1


@pytest.mark.parametrize(("ours", "theirs"), [("1", "2"), ("2", "1"), ("random", "1")])
def test_the_second_process_has_another_hash_seed(
    ours: str, theirs: str, processes: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", ours)
    (case,) = cases("a")
    Repeats([case], tmp_path).of(case)
    assert processes.seeds == [theirs]


def test_a_case_that_cannot_be_exported_says_why(processes: Processes, tmp_path: Path) -> None:
    (case,) = cases("hopeless")
    assert "expected a graph; found none" in Repeats([case], tmp_path).of(case).error


def test_case_that_kills_its_process_ends_the_wait(processes: Processes, tmp_path: Path) -> None:
    wanted = cases("a", "deadly", "z")
    second = Repeats(wanted, tmp_path)
    assert second.of(wanted[1]).error == "the process ended with -11: Segmentation fault"
    assert second.of(wanted[0]).state == "state of a"
    assert second.of(wanted[2]).state == "state of z"


def test_a_factory_that_cannot_be_sent_is_an_error_that_says_so(processes: Processes, tmp_path: Path) -> None:
    good, bad = cases("good")[0], cases("bad", factory=lambda: None)[0]
    second = Repeats([bad, good], tmp_path)
    with pytest.raises(UsageError, match="bad to be a model that another process can make"):
        second.of(bad)
    assert second.of(good).state == "state of good"


def test_only_the_very_case_that_was_announced_is_served_with_the_others(tmp_path: Path) -> None:
    (case,) = cases("a")
    second = Repeats([case], tmp_path)
    assert second.has(case)
    assert not second.has(cases("a")[0])
    assert not second.has(cases("b")[0])


def test_what_is_given_again_is_the_very_example() -> None:
    example = Example(None)  # type: ignore[arg-type]  # any object
    assert repeats._given(example) is example


def test_a_run_that_is_over_before_its_second_process_hears_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "repeats"
    folder.mkdir()

    def ended(*args: object, **kwargs: object) -> subprocess.CompletedProcess[bytes]:
        shutil.rmtree(folder)
        return subprocess.CompletedProcess([], 0, b"", b"")

    monkeypatch.setattr(subprocess, "run", ended)
    (case,) = cases("gone")
    started = Repeats([case], folder)
    # An exception in a thread fails the test.
    assert started._start(repeats._key(case))
    started.join()
    assert not folder.exists()


def test_a_full_disk_says_nothing_of_the_case(processes: Processes, tmp_path: Path) -> None:
    full, other = cases("full", "other")
    second = Repeats([full, other], tmp_path)
    with pytest.raises(DiskFullError, match="No space left: f"):
        second.of(full)
    assert second.of(other).state == "state of other"
