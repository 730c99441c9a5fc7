"""Ends xdist's workers in the middle of a run, or hangs in them, and checks that only the model they died of fails.

    python benchmarks/worker_deaths.py [--ways WAY ...] [--cold] [--json FILE]

Three toy models run under each number of workers. The factory of the first, the middle or the last one ends its
process in one of the ways, takes all memory that the run may have, or hangs in Python or in native code. A run is as
promised if it ends by itself within a minute with exit code 1, each test of the deadly model fails with the cause,
its factory was called once, the other models have all their verdicts in a complete report, and no process is left.
Without workers, a model that hangs in code that Python cannot stop ends the run, with its failure, the verdicts so
far and the report. A run that hangs is ended by this program. The exit code is 1 if any run is not as promised.

The verdicts on the living models come from a cache, so that the seconds are those of pytest and its workers. With
`--cold`, each run exports them.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

HANGS, SLOW = 120, 60
"""The seconds after which a run is ended, and after which it is too slow."""
LIVING = ("one", "two")
POSITIONS = {"first": 0, "middle": 1, "last": 2}
TIMEOUT, MEMORY = 2, 12 << 30
"""The seconds and the bytes that the deadly model may take."""
MODELS = """
import ctypes, os, re, signal, time
import numpy
import torch

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        return torch.relu(self.linear(x))

def one():
    return Block().eval(), (torch.ones(2, 4),)

def two():
    return torch.nn.Sequential(Block(), Block()).eval(), (torch.ones(2, 4),)

def called():
    with open("called", "a") as log:
        log.write("x")

def exits():
    called()
    os._exit(3)

def killed():
    called()
    os.kill(os.getpid(), signal.SIGKILL)

def faults():
    called()
    ctypes.string_at(0)

def exhausts():
    called()
    held = []
    while True:
        held.append(numpy.zeros(1 << 30, numpy.uint8))

def spins():
    called()
    while True:
        pass

def catches():
    called()
    while True:
        try:
            time.sleep(1)
        except BaseException:
            pass

def matches():
    called()
    re.match("(a+)+$", "a" * 60 + "b")

def waits():
    called()
    libc = ctypes.CDLL(None)
    while libc.usleep(500000) in (0, -1):
        pass
"""


@dataclass(frozen=True)
class Way:
    """A way to end a process."""

    model: str
    cause: str
    """The words of the failing test."""
    workers: tuple[int, ...] = (1, 2)
    """The numbers of workers that it is run under."""
    ends_run: bool = False
    """Whether it ends a run without workers."""


WAYS = {
    "os._exit": Way("exits", "ended with exit code 3"),
    "SIGKILL": Way("killed", "was ended by SIGKILL"),
    "SIGSEGV": Way("faults", "was ended by SIGSEGV"),
    "memory": Way("exhausts", "Unable to allocate 1.00 GiB", (0, 1, 2)),
    "python": Way("spins", f"did not finish within {TIMEOUT} s (building the model, models.py line ", (0, 1, 2)),
    "ctypes": Way("waits", f"did not finish within {TIMEOUT} s (building the model, models.py line ", (0, 1, 2)),
    "except": Way("catches", f"did not finish within {TIMEOUT} s (building the model, ", (1, 2)),
    "regex": Way("matches", f"did not finish within {TIMEOUT} s (building the model, ", (0, 1, 2), ends_run=True),
}


@dataclass(frozen=True)
class Death:
    """A run with a deadly model."""

    way: str
    position: str
    workers: int
    seconds: float
    faults: tuple[str, ...]
    """What is not as promised."""

    @property
    def row(self) -> str:
        """The line of the table."""
        outcome = "; ".join(self.faults) or "as promised"
        return f"{self.way:10} {self.position:8} {self.workers:7} {self.seconds:8.1f}  {outcome}"


@dataclass(frozen=True)
class Ended:
    """A run of pytest that has ended."""

    code: int | None
    """None where it was ended because it hung."""
    seconds: float
    text: str
    report: Mapping[str, Any]
    calls: int
    """How often the deadly factory was called."""
    left: int
    """The number of processes that it left."""
    workers: int

    def faults(self, way: Way) -> Iterator[str]:
        """Yield what is not as promised."""
        if self.code is None:
            yield f"hung and was ended after {HANGS} s"
        elif self.code != 1:
            yield f"exit code {self.code}"
        if self.seconds > SLOW and self.code is not None:
            yield f"more than {SLOW} s"
        if self.calls != 1:
            yield f"the deadly factory was called {self.calls} times"
        if self.left:
            yield f"{self.left} processes left"
        models = {model["name"]: model["checks"] for model in self.report.get("models", ())}
        if set(models) != {*LIVING, way.model}:
            yield "no complete report"
            return
        cut = {"not run"} if way.ends_run and not self.workers else set()
        for name, checks in models.items():
            expected = {"failed"} if name == way.model else {"passed", "skipped"}
            wrong = {check["verdict"] for check in checks.values()} - expected - cut
            if wrong or not checks:
                yield f"{name}: {', '.join(sorted(wrong)) or 'no verdicts'}"
        failed = [check for check in models[way.model].values() if check["verdict"] == "failed"]
        if not failed or not all(way.cause in check["message"] for check in failed):
            yield f"a test does not say: {way.cause}"


def run(folder: Path, models: Sequence[str], workers: int, *, cold: bool) -> Ended:
    """Run pytest on models in a folder; end it where it hangs."""
    mark, report, called = uuid.uuid4().hex, folder / "report.json", folder / "called"
    for file in (report, called):
        file.unlink(missing_ok=True)
    limits = {name: f"timeout = {TIMEOUT}\n" for name in models if name not in LIVING}
    tables = (f'[models.{name}]\nmodel = "models.py::{name}"\n{limits.get(name, "")}' for name in models)
    (folder / "models.toml").write_text("".join(tables), encoding="utf-8")
    options = ["--hierexport-rules=MUST-002", f"--hierexport-report={report}", "-p", "no:cacheprovider"]
    options += [] if cold else ["--hierexport-cache=cache"]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "GITHUB_"))}
    began = time.perf_counter()
    with (folder / "output.txt").open("w+", encoding="utf-8") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", "-n", str(workers), *options, "--hierexport-models=models.toml"],
            cwd=folder,
            env={**inherited, "HIEREXPORT_RUN_MARK": mark},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        code = _exit_code(process)
        seconds = time.perf_counter() - began
        output.seek(0)
        text = output.read()
    written = json.loads(report.read_text(encoding="utf-8")) if report.exists() else {}
    calls = len(called.read_text(encoding="utf-8")) if called.exists() else 0
    return Ended(code, seconds, text, written, calls, len(_end_all(mark)), workers)


def _exit_code(process: subprocess.Popen[bytes]) -> int | None:
    try:
        return process.wait(timeout=HANGS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return None


def _end_all(mark: str) -> list[int]:
    """End the processes with a mark in their environment; return their ids. None are found where /proc is missing."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
                os.kill(int(folder.name), signal.SIGKILL)
        except OSError:
            continue
    return found


def deaths(folder: Path, ways: Sequence[str], *, cold: bool) -> Iterator[Death]:
    """Run each way to die at each position under each number of workers."""
    (folder / "models.py").write_text(MODELS, encoding="utf-8")
    if not cold:
        filled = run(folder, LIVING, 1, cold=False)
        if filled.code != 0:
            raise SystemExit(f"the living models do not pass:\n{filled.text}")
    runs = ((name, WAYS[name], workers) for name in ways for workers in WAYS[name].workers)
    for (name, way, workers), (position, place) in itertools.product(runs, POSITIONS.items()):
        ended = run(folder, [*LIVING[:place], way.model, *LIVING[place:]], workers, cold=cold)
        yield Death(name, position, workers, ended.seconds, tuple(ended.faults(way)))


def main() -> int:
    """Run, print the table and write the JSON file that was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS), metavar="WAY", help=f"of {list(WAYS)}")
    parser.add_argument("--cold", action="store_true", help="export the living models in each run")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the outcomes to a file")
    options = parser.parse_args()
    # The processes that are started inherit it.
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    print(f"{'way':10} {'position':8} {'workers':>7} {'seconds':>8}  outcome")
    made = []
    with tempfile.TemporaryDirectory(prefix="worker-deaths-") as name:
        for death in deaths(Path(name), options.ways, cold=options.cold):
            print(death.row, flush=True)
            made.append(death)
    failed = sum(bool(death.faults) for death in made)
    print(f"{len(made)} runs, {failed} not as promised; the slowest took {max(each.seconds for each in made):.1f} s")
    if options.json:
        options.json.write_text(json.dumps([asdict(death) for death in made], indent=2) + "\n", encoding="utf-8")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
