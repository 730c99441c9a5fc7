"""What modules as ONNX functions cost and save: file size, session load time, and whether the numbers agree.

    python -m benchmarks.functions [FILE.onnx ...] [--depth N | --module PATTERN] [--repeats N] [--json FILE]

Without files, every model of the zoo is exported first. Each file gets a twin with functions; both are loaded by ONNX
Runtime with all optimizations in turn, and run on the same random inputs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

from pytest_hierexport import attach, modules_as_functions, read, save

Session = Any


@dataclass(frozen=True)
class Figures:
    """A file beside its twin with functions."""

    name: str
    functions: int
    calls: int
    outside: int
    nodes: int
    """Of the flat file."""
    nodes_with_functions: int
    size: int
    """Bytes of the flat file, tags included."""
    size_with_functions: int
    load: float
    """Seconds, the median."""
    load_with_functions: float
    difference: float
    """The largest difference of an output, relative to the largest magnitude in it."""


def measure(flat: Path, folder: Path, options: argparse.Namespace) -> Figures:
    """Make the twin of a file and compare both."""
    attribution = read(flat)
    made = modules_as_functions(flat, attribution, depth=options.depth, module=options.module)
    attach(made.model, made.attribution)
    twin = save(made.model, made.attribution, folder / "functions.onnx")
    onnx.checker.check_model(twin, full_check=True)
    loads = [(_load(flat), _load(twin)) for _ in range(options.repeats)]
    before, after = loads[-1][0][1], loads[-1][1][1]
    feeds = _random_inputs(before)
    return Figures(
        name=flat.parent.name if flat.stem == "model" else flat.stem,
        functions=len(made.functions),
        calls=sum(len(function.calls) for function in made.functions),
        outside=len(made.outside),
        nodes=len(attribution.nodes),
        nodes_with_functions=len(made.attribution.nodes),
        size=flat.stat().st_size,
        size_with_functions=twin.stat().st_size,
        load=statistics.median(pair[0][0] for pair in loads),
        load_with_functions=statistics.median(pair[1][0] for pair in loads),
        difference=max(map(_difference, before.run(None, feeds), after.run(None, feeds)), default=0.0),
    )


def _load(path: Path) -> tuple[float, Session]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    began = time.perf_counter()
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return time.perf_counter() - began, session


def _random_inputs(session: Session) -> dict[str, Any]:
    """Return small whole numbers, truth values or normal numbers; 5 for an open dimension."""
    random = np.random.default_rng(0)
    made = {}
    for value in session.get_inputs():
        shape = [size if isinstance(size, int) else 5 for size in value.shape]
        is_whole = "float" not in value.type and "double" not in value.type
        numbers = random.integers(0, 2, shape) if is_whole else random.standard_normal(shape)
        kind = value.type.removeprefix("tensor(").removesuffix(")")
        dtype = {"float": "float32", "double": "float64"}.get(kind, kind)
        made[value.name] = np.asarray(numbers, dtype)
    return made


def _difference(before: Any, after: Any) -> float:
    first, second = np.float64(before), np.float64(after)
    if not np.array_equal(np.isfinite(first), np.isfinite(second)):
        return float("inf")
    known = np.isfinite(first)
    scale = np.abs(first[known]).max(initial=1e-12)
    return float(np.abs(first[known] - second[known]).max(initial=0.0) / scale)


def _zoo(folder: Path) -> Iterator[Path]:
    """Export every model of the zoo."""
    from pytest_hierexport._cases import select
    from pytest_hierexport._cases.exporting import export_case

    for case in select(["all"], Path.cwd()):
        path = folder / f"{case.name}.onnx"
        export_case(case, case.load(), path)
        yield path


def main() -> int:
    """Compare each file with its twin, print the table; 1 where an output differs."""
    parser = argparse.ArgumentParser(description="What modules as ONNX functions cost and save.")
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
    parser.add_argument("--depth", type=int)
    parser.add_argument("--module")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--tolerance", type=float, default=1e-5)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    figures = []
    print(
        f"{'model':18} {'functions':>9} {'calls':>6} {'outside':>7} {'nodes':>11} {'kB':>13} {'load ms':>13} difference"
    )
    with tempfile.TemporaryDirectory() as folder:
        for path in options.files or _zoo(Path(folder)):
            each = measure(path, Path(folder), options)
            figures.append(each)
            nodes = f"{each.nodes} {each.nodes_with_functions}"
            size = f"{each.size / 1e3:.0f} {each.size_with_functions / 1e3:.0f}"
            load = f"{each.load * 1e3:.1f} {each.load_with_functions * 1e3:.1f}"
            counts = f"{each.functions:9} {each.calls:6} {each.outside:7}"
            print(f"{each.name:18} {counts} {nodes:>11} {size:>13} {load:>13} {each.difference:.1e}", flush=True)
    size, load = (
        statistics.median(getattr(each, f"{what}_with_functions") / getattr(each, what) for each in figures)
        for what in ("size", "load")
    )
    print(f"median ratio: size {size:.2f}, load time {load:.2f}")
    if options.json:
        options.json.write_text(json.dumps([asdict(each) for each in figures], indent=1), encoding="utf-8")
    return int(any(each.difference > options.tolerance for each in figures))


if __name__ == "__main__":
    sys.exit(main())
