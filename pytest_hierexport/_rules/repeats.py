"""Repeats exports in a second process: one process per run, started at the first request.

A run announces its cases. The first request, in any process of the run, starts the second process for all of them; each
request waits for its own case alone. A case that was not announced gets a process of its own.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_hierexport._errors import UsageError, disk_full
from pytest_hierexport._files.atomic import write_atomically
from pytest_hierexport._files.temporary import temporary_folder
from pytest_hierexport._rules import second_process
from pytest_hierexport._rules.second_process import CASES, Order

if TYPE_CHECKING:
    from pytest_hierexport._cases import Case, Example
    from pytest_hierexport._rules.base import ExportedCase

__all__ = ["Repeat", "announce", "repeat_of"]

_PAUSE = 0.05
"""How many seconds pass between two looks for a record."""


@dataclass(frozen=True)
class Repeat:
    """The result of a case in the second process."""

    folder: Path
    """Holds its files, until they are found to be the same."""
    files: Mapping[str, str]
    """The SHA-256 of each, by its name."""
    state: str = ""
    """The digest of the model and its inputs."""
    error: str = ""
    """The reason why there are no files; empty where there are."""


def announce(cases: Sequence[Case], folder: Path) -> None:
    """Announce the cases that will be repeated, in this process and in all others that announce the same.

    Args:
        cases: The cases.
        folder: The folder for their exports; made at the first request.
    """
    global _announced  # noqa: PLW0603  # a rule is a function of the case alone: the run speaks to it from here
    _announced = Repeats(cases, folder)


@contextmanager
def repeat_of(exported: ExportedCase) -> Iterator[Repeat]:
    """Give the second export of a case.

    Raises:
        UsageError: No other process can make the model.
    """
    if _announced is not None and _announced.has(exported.case):
        yield _announced.of(exported.case)
        return
    with temporary_folder() as folder:
        repeats = _Single(exported, Path(folder))
        try:
            yield repeats.of(repeats.case)
        finally:
            repeats.join()


class Repeats:
    """The second exports of some cases.

    Args:
        cases: The cases.
        folder: Where the exports lie.
    """

    name = "model.onnx"
    """The name of the ONNX file of an export."""

    def __init__(self, cases: Sequence[Case], folder: Path) -> None:
        """Start nothing yet."""
        self._cases = {_key(case): case for case in cases}
        self._folder = folder
        self._running: threading.Thread | None = None

    def has(self, case: Case) -> bool:
        """Whether this very case is among them."""
        return self._cases.get(_key(case)) is case

    def of(self, case: Case) -> Repeat:
        """Return the second export of a case; wait for it.

        Raises:
            UsageError: No other process can make the model.
            DiskFullError: There was no room for the export.
        """
        key = _key(case)
        self._folder.mkdir(parents=True, exist_ok=True)
        starts = 0
        while (record := self._read(key)) is None:
            if self._running is None or not self._running.is_alive():
                # Each process does at least one case, or finds out that it cannot.
                if starts > len(self._cases):
                    raise RuntimeError(f"no process writes to {self._folder}")
                starts += self._start(key)
            time.sleep(_PAUSE)
        if "full" in record:
            raise disk_full(record["full"])
        if "unknown" in record:
            raise UsageError(
                f"{case.name} to be a model that another process can make",
                found=record["unknown"],
                do="select it by its factory (file.py::factory), or define its class where it can be imported",
            )
        return Repeat(self._folder / key, record.get("files", {}), record.get("state", ""), record.get("error", ""))

    def join(self) -> None:
        """Wait for the process that was started last."""
        if self._running is not None:
            self._running.join()

    def _read(self, key: str) -> dict[str, Any] | None:
        try:
            record: dict[str, Any] = json.loads((self._folder / f"{key}.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        return record

    def _start(self, first: str) -> bool:
        """Start a process for what is still missing, unless another process of the run has one; say whether."""
        from filelock import FileLock, Timeout

        lock = FileLock(self._folder / ".lock", thread_local=False)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            return False
        self._running = threading.Thread(target=self._run, args=(lock, first), daemon=True)
        self._running.start()
        return True

    def _run(self, lock: Any, first: str) -> None:
        try:
            self._export_missing(first)
        except OSError:
            # The folder goes when the run ends; no request waits for the rest then.
            if self._folder.is_dir():
                raise
        finally:
            lock.release()

    def _export_missing(self, first: str) -> None:
        missing = [key for key in sorted(self._cases, key=lambda key: key != first) if self._read(key) is None]
        orders = [order for key in missing if (order := self._order(key)) is not None]
        if not orders:
            return
        (self._folder / CASES).write_bytes(pickle.dumps((sys.path, orders)))
        command = [sys.executable, "-m", second_process.__name__, str(self._folder)]
        ended = subprocess.run(  # noqa: S603  # our own module
            command, env=_environment(), stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
        # Where it ended early, the first that is missing is the one that it died of.
        died = next((order.key for order in orders if self._read(order.key) is None), None)
        if died is not None:
            lines = ended.stderr.decode(errors="replace").strip().splitlines() or ["it said nothing"]
            self._write(died, {"error": f"the process ended with {ended.returncode}: {lines[-1]}"})

    def _order(self, key: str) -> Order | None:
        """Return what the second process needs to export a case; None, and a record, where it cannot be pickled."""
        case = self._cases[key]
        try:
            return Order(key, self.name, self._task(case))
        except Exception as error:  # noqa: BLE001  # what cannot be pickled says so in many ways
            self._write(key, {"unknown": f"{type(error).__name__}: {error}"})
            return None

    def _task(self, case: Case) -> bytes:
        return pickle.dumps((case, None))

    def _write(self, key: str, record: dict[str, Any]) -> None:
        write_atomically(self._folder / f"{key}.json", json.dumps(record))


class _Single(Repeats):
    """The second export of a case that was not announced, by the exporter that exported it first."""

    def __init__(self, exported: ExportedCase, folder: Path) -> None:
        # The capture that served: another one would give another graph.
        self.case = replace(exported.case, exporter=exported.exporter_name)
        self.name = exported.path.name
        self._exported = exported
        super().__init__([self.case], folder)

    def _task(self, case: Case) -> bytes:
        exporter = self._exported._exporter
        try:
            return pickle.dumps((case, exporter))
        except Exception:  # noqa: BLE001  # a lambda, or a function inside another, says so in many ways
            return pickle.dumps((replace(case, factory=partial(_given, self._exported.example)), exporter))


_announced: Repeats | None = None


def _key(case: Case) -> str:
    return hashlib.sha256(case.name.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _given(example: Example) -> Example:
    return example


def _environment() -> dict[str, str]:
    """Return this process's environment with another hash seed."""
    other = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    return {**os.environ, "PYTHONHASHSEED": other}
