"""What the plugin costs where it is installed and not asked for.

    python benchmarks/import_cost.py [--repeats N] [--json FILE]

Runs one trivial test under `python -m pytest` with the plugin and without it, in turn, each in a fresh process and an
empty folder, and prints the modules that only the run with the plugin has in the end, and what importing each of
them takes. (`python -X importtime -m pytest` shows the same but for the plugin's own module: pytest imports plugins by
a function, and such imports are not reported.)
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

MODULES, MILLISECONDS = 25, 10
"""DESIGN's budget."""
HEAVY = ("torch", "onnx", "onnx_ir", "onnxruntime", "onnxscript", "transformers", "rich", "jsonschema", "filelock")
PLUGIN = "pytest_hierexport.plugin"
TEST = """
import json, sys

def test_trivial():
    assert True

def teardown_module():
    with open("modules.json", "w") as file:
        json.dump(list(sys.modules), file)
"""


@dataclass(frozen=True)
class Start:
    """One run of pytest."""

    seconds: float
    modules: Sequence[str]
    """What was imported by its end, in order."""


def start(folder: Path, *, plugin: bool) -> Start:
    """Run the trivial test, with the plugin or without it."""
    switch = [] if plugin else ["-p", "no:hierexport"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *switch]
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    began = time.perf_counter()
    subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, check=True)
    seconds = time.perf_counter() - began
    return Start(seconds, json.loads((folder / "modules.json").read_text(encoding="utf-8")))


def import_times(modules: Sequence[str]) -> dict[str, float]:
    """Return the milliseconds that importing each module takes beside pytest, without what it imports itself."""
    code = "\n".join(f"import {name}" for name in ("pytest", *modules))
    command = [sys.executable, "-X", "importtime", "-c", code]
    report = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    times = {}
    for line in report.splitlines():
        own, _, rest = line.removeprefix("import time:").partition("|")
        if own.strip().isdecimal():
            times[rest.rpartition("|")[2].strip()] = int(own) / 1000
    return {name: times.get(name, 0.0) for name in modules}


def measure(repeats: int) -> tuple[list[Start], list[Start]]:
    """Run with and without the plugin in turn, after one warm-up of each."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "test_trivial.py").write_text(TEST, encoding="utf-8")
        pairs = [(start(folder, plugin=True), start(folder, plugin=False)) for _ in range(repeats + 1)]
    return [pair[0] for pair in pairs[1:]], [pair[1] for pair in pairs[1:]]


def main() -> int:
    """Measure, print the figures and write the JSON file that was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=10, metavar="N", help="pairs of runs (default: 10)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to a file")
    options = parser.parse_args()
    with_plugin, without = measure(options.repeats)
    bare = set(without[0].modules)
    modules = [name for name in with_plugin[0].modules if name not in bare]
    if PLUGIN not in modules:
        raise SystemExit(f"{PLUGIN} was not imported: install the package first (make does)")
    runs = [import_times(modules) for _ in range(options.repeats)]
    times = {name: statistics.median(run[name] for run in runs) for name in modules}
    total = statistics.median(sum(run.values()) for run in runs)
    heavy = sorted({name.partition(".")[0] for name in modules} & set(HEAVY))
    starts = [1000 * statistics.median(run.seconds for run in kind) for kind in (with_plugin, without)]
    for name, milliseconds in times.items():
        print(f"  {milliseconds:7.3f} ms  {name}")
    print(f"{len(modules)} modules (budget {MODULES}), {total:.1f} ms (budget {MILLISECONDS})")
    print(f"pytest's whole start: {starts[0]:.0f} ms with the plugin, {starts[1]:.0f} ms without")
    print(f"heavy modules imported: {', '.join(heavy) or 'none'}")
    if options.json:
        report = {"import_ms": times, "total_ms": total, "start_ms": starts, "heavy": heavy}
        options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
