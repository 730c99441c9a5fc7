"""What a run of all rules over models costs: the first time, and again with nothing changed.

    python -m benchmarks.zoo_runs [SELECTOR …] [--workers N …] [--json FILE]

Each number of workers starts with an empty cache. Seconds are by the clock, and in brackets of all processes together.
The second run must import neither torch nor transformers: Python's own report of imports tells.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from pytest_hierexport._cases import select

HEAVY = ("torch", "transformers", "onnx", "onnxruntime")
BUDGET = 8.0 / 60
"""DESIGN's budget of a run with nothing changed, in seconds per model."""


@dataclass(frozen=True)
class Run:
    """One run of pytest."""

    workers: int
    is_warm: bool
    models: int
    seconds: float
    cpu: float
    heavy: Sequence[str]
    """What the session's own process imported of the packages that take seconds; with no workers alone."""


def run(selectors: Sequence[str], workers: int, project: Path, *, is_warm: bool, models: int) -> Run:
    """Run pytest once in a project without tests of its own; fail where it fails."""
    command = [sys.executable, "-X", "importtime", "-m", "pytest", "-q"]
    command += [f"--hierexport-models={','.join(selectors)}", "--hierexport-cache=cache", "-p", "no:cacheprovider"]
    # pytest would capture the report of what is imported in a test.
    command += ["--capture=no", "-n", str(workers)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    before, started = _cpu(), time.perf_counter()
    done = subprocess.run(command, check=False, cwd=project, env=environment, capture_output=True, text=True)
    seconds, cpu = time.perf_counter() - started, _cpu() - before
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}")
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    return Run(workers, is_warm, models, seconds, cpu, [name for name in HEAVY if name in imported])


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> int:
    """Measure, print the table; 1 where a second run is beyond the budget or imports torch."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("selectors", nargs="*", default=["all"], help="models as the plugin selects them")
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 2], metavar="N", help="0 is pytest's own process")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to a file")
    options = parser.parse_args()
    models = len(select(options.selectors, Path.cwd()))
    found = []
    for workers in options.workers:
        with tempfile.TemporaryDirectory() as project:
            Path(project, "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
            for is_warm in (False, True):
                found.append(run(options.selectors, workers, Path(project), is_warm=is_warm, models=models))
                kind = "nothing changed" if is_warm else "empty cache"
                shown = f"{found[-1].seconds:.1f} s ({found[-1].cpu:.1f} s)"
                print(
                    f"-n {workers}, {models} models, {kind}: {shown}, {', '.join(found[-1].heavy) or 'none'}",
                    flush=True,
                )
    if options.json:
        options.json.write_text(json.dumps([asdict(each) for each in found], indent=1) + "\n", encoding="utf-8")
    warm = [each for each in found if each.is_warm]
    return 1 if any(each.seconds > BUDGET * each.models or each.heavy for each in warm) else 0


if __name__ == "__main__":
    sys.exit(main())
