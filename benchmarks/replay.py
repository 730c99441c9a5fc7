"""A net to work over: what exports gave once, and whether today's code still gives it.

    python -m benchmarks.replay record FOLDER [--only 'zoo/*' 'seed/?'] [--seeds 500] [--jobs 1] [--timeout 120]
    python -m benchmarks.replay check FOLDER [--only ...] [--capture marked|all|none] [--jobs 2]

`record` exports the zoo (`zoo/bert`), random module trees (`seed/17`), small models of every transformers type
(`type/bert`) and the models of `libraries.toml` whose library is installed (`library/monai.VNet`). It keeps a case in a
file of its own and passes over what is there, so that it can be stopped at any time. `check` gives the stored graphs to
today's carry, the stored fx graphs to today's search for dropped calls, builds the model again and proves the tags; it
captures a few models again as well. It prints each node and verdict that differs, by model; its exit code is 1 where
something does.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from fnmatch import fnmatch
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any
from unittest import mock

_PATHS = [str(Path(__file__).resolve().parents[1] / folder) for folder in ("", "tests")]
sys.path[:0] = _PATHS

_SKIPPED = "skipped.jsonl"
_IDLE = 10
"""How many times its processor time a process may take on the clock."""


@dataclass(frozen=True)
class Result:
    """What a process gave for a case."""

    name: str
    seconds: float
    lines: list[str]
    """What `record` says of the case; what differs for `check`."""
    error: str = ""


@dataclass(frozen=True)
class _Running:
    name: str
    process: Any
    pipe: Connection
    started: float

    def result(self, timeout: float) -> Result | None:
        """Return what the process gave or why it gave nothing; None while it runs and has time left."""
        seconds = time.monotonic() - self.started
        if not self.pipe.poll():
            if seconds < timeout:
                return None
            self.process.kill()
        try:
            lines, error = self.pipe.recv()
        except EOFError:
            lines, error = [], ""
        self.process.join()
        return Result(self.name, seconds, lines, error or _ending(self.process.exitcode))


def _ending(code: int) -> str:
    """Return how a process ended; empty where it ended well."""
    if code == -signal.SIGXCPU:
        return "took too much processor time"
    return f"ended by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}" if code else ""


def main(arguments: Sequence[str]) -> int:
    """Record or check; 1 where something differs."""
    options = _options(arguments)
    if options.command == "record":
        return _record(options)
    names = [name for name in recorded(options.folder) if is_wanted(name, options.only)]
    started = time.monotonic()
    results = []
    for result in run("check", names, options):
        results.append(result)
        print_differences(result)
    return summarize(results, time.monotonic() - started)


def _record(options: argparse.Namespace) -> int:
    options.folder.mkdir(parents=True, exist_ok=True)
    log = options.folder / _SKIPPED
    skipped = [json.loads(line)[0] for line in log.read_text(encoding="utf-8").splitlines()] if log.exists() else []
    there = {*recorded(options.folder), *skipped}
    from benchmarks.replay_case import all_names

    names = [name for name in all_names(options.seeds) if name not in there and is_wanted(name, options.only)]
    print(f"{len(names)} cases to record, {len(there)} are there", flush=True)
    for result in run("record", names, options):
        print(f"{result.name}: {result.error or result.lines[0]} ({result.seconds:.1f} s in all)", flush=True)
        if result.error:
            with log.open("a", encoding="utf-8") as file:
                file.write(json.dumps([result.name, result.error]) + "\n")
    return 0


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("record", "check"))
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--only", nargs="+", default=["*"], metavar="GLOB", help="these cases alone")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="cases at a time (default: one per core)")
    parser.add_argument("--timeout", type=int, default=120, help="seconds of processor time for a case (default: 120)")
    parser.add_argument("--seeds", type=int, default=500, help="random module trees to record")
    parser.add_argument("--capture", choices=("marked", "all", "none"), default="marked", help="what to capture again")
    return parser.parse_args(arguments)


def is_wanted(name: str, globs: Sequence[str]) -> bool:
    """Whether a case is one of those that were asked for."""
    return any(fnmatch(name, glob) for glob in globs)


def recorded(folder: Path) -> list[str]:
    """Return the names of the cases in a folder."""
    return sorted(path.relative_to(folder).with_suffix("").as_posix() for path in folder.glob("*/*.zip"))


def run(command: str, names: Sequence[str], options: argparse.Namespace) -> Iterator[Result]:
    """Yield the result of every case, each from a process of its own, which is forked with all libraries loaded."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["benchmarks.replay_warm"])
    paths = os.pathsep.join([*_PATHS, os.environ.get("PYTHONPATH", "")])
    left = list(reversed(names))
    running: list[_Running] = []
    # Some models iterate over a set of strings, and compute in the order of their hashes.
    with mock.patch.dict(os.environ, OMP_NUM_THREADS="1", PYTHONPATH=paths, PYTHONHASHSEED="0"):
        while left or running:
            while left and len(running) < options.jobs:
                running.append(_start(context, command, left.pop(), options))
            wait([item.pipe for item in running], timeout=1)
            for item in list(running):
                result = item.result(_IDLE * options.timeout)
                if result is not None:
                    running.remove(item)
                    yield result


def _start(context: Any, command: str, name: str, options: argparse.Namespace) -> _Running:
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=_in_process, args=(sending, command, name, options))
    process.start()
    sending.close()
    return _Running(name, process, receiving, time.monotonic())


def _in_process(pipe: Connection, command: str, name: str, options: argparse.Namespace) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (options.timeout, options.timeout + 5))
    logging.disable(logging.CRITICAL)
    with Path(os.devnull).open("w") as nothing, redirect_stdout(nothing), redirect_stderr(nothing):
        try:
            pipe.send((_done(command, name, options), ""))
        except Exception as error:  # noqa: BLE001  # whatever it is, it is the result of this case
            last = traceback.extract_tb(error.__traceback__)[-1]
            pipe.send(([], f"{type(error).__name__}: {error} ({Path(last.filename).name}:{last.lineno})"))


def _done(command: str, name: str, options: argparse.Namespace) -> list[str]:
    from benchmarks import replay_case as one

    case = one.case_of(name)
    if command == "record":
        return [one.record(name, case, options.folder)]
    marked = options.capture == "marked" and one.needs_capture(name, options.folder)
    return one.check(name, case, options.folder, capture=marked or options.capture == "all")


def print_differences(result: Result) -> None:
    """Print what differs of a case, or that it could not be checked."""
    if result.error:
        print(f"{result.name}: {result.error}", flush=True)
    elif result.lines:
        print("\n  ".join([f"{result.name}: {len(result.lines)} differ", *result.lines]), flush=True)


def summarize(results: Sequence[Result], seconds: float) -> int:
    """Print the totals; return the exit code."""
    differing = [result for result in results if result.lines]
    failed = [result for result in results if result.error]
    count = sum(len(result.lines) for result in results)
    print(
        f"{len(results)} cases in {seconds:.0f} s: {count} differences in {len(differing)}, {len(failed)} not checked"
    )
    return 1 if differing or failed or not results else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
