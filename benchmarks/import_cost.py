"""What the plugin costs where it is installed and not asked for.

    python benchmarks/import_cost.py [--repeats N] [--json FILE]

Runs one trivial test under `python -m pytest` with a plugin and without it, in turn, each in a fresh process and an
empty folder, and prints the modules that only the run with the plugin has in the end, and what importing each of
them takes. (`python -X importtime -m pytest` shows the same but for the plugin's own module: pytest imports plugins by
a function, and such imports are not reported.) The same is done for syrupy and pytest-benchmark, for comparison.
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
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

MODULES, MILLISECONDS = 25, 10
"""DESIGN's budget."""
HEAVY = ("torch", "onnx", "onnx_ir", "onnxruntime", "onnxscript", "transformers", "rich", "jsonschema", "filelock")
PLUGINS = ("hierexport", "syrupy", "benchmark")
"""Ours, and two that are asked for as rarely: syrupy and pytest-benchmark."""
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


@dataclass(frozen=True)
class Cost:
    """What a plugin costs that is installed and not asked for."""

    import_ms: Mapping[str, float]
    """The milliseconds that importing each of its modules takes, without what the module imports itself."""
    total_ms: float
    start_ms: float
    """What pytest's whole start takes longer, by the clock: mostly noise."""


def start(folder: Path, *, without: str = "") -> Start:
    """Run the trivial test, without one plugin."""
    switch = ["-p", f"no:{without}"] if without else []
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


def cost(plugin: str, repeats: int) -> Cost:
    """Run with and without a plugin in turn, after one warm-up of each, and import what only runs with it have."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "test_trivial.py").write_text(TEST, encoding="utf-8")
        pairs = [(start(folder), start(folder, without=plugin)) for _ in range(repeats + 1)][1:]
    bare = set(pairs[0][1].modules)
    modules = [module for module in pairs[0][0].modules if module not in bare]
    if not modules:
        raise SystemExit(f"the plugin {plugin} adds no module: install the package with its extra `bench` first")
    runs = [import_times(modules) for _ in range(repeats)]
    times = {module: statistics.median(run[module] for run in runs) for module in modules}
    starts = [1000 * statistics.median(pair[i].seconds for pair in pairs) for i in range(2)]
    return Cost(times, statistics.median(sum(run.values()) for run in runs), starts[0] - starts[1])


def main() -> int:
    """Measure, print the figures and write the JSON file that was asked for; 1 where the budget is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=10, metavar="N", help="pairs of runs (default: 10)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to a file")
    options = parser.parse_args()
    costs = {plugin: cost(plugin, options.repeats) for plugin in PLUGINS}
    ours = costs[PLUGINS[0]]
    for name, milliseconds in ours.import_ms.items():
        print(f"  {milliseconds:7.3f} ms  {name}")
    for plugin, each in costs.items():
        print(
            f"{plugin:12}{len(each.import_ms)} modules, {each.total_ms:.1f} ms to import, {each.start_ms:+.0f} ms more"
        )
    heavy = sorted({name.partition(".")[0] for name in ours.import_ms} & set(HEAVY))
    kept = len(ours.import_ms) <= MODULES and ours.total_ms <= MILLISECONDS and not heavy
    print(f"budget of {MODULES} modules, {MILLISECONDS} ms and no heavy module: {'kept' if kept else 'exceeded'}")
    if options.json:
        options.json.write_text(json.dumps({name: asdict(each) for name, each in costs.items()}, indent=2) + "\n")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
