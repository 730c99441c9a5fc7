"""What reading and rewriting the tags of a large file costs, whose tensors lie outside.

    python benchmarks/tag_storage.py [--repeats N] [--json FILE]

Makes a file of 20,000 nodes with 256 MiB of external data, tags it, and in a fresh process reads its tags, rewrites
them as they are, and rewrites every one of them. Prints the median time of each and the peak memory of its process,
Python and ONNX included.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from onnx import TensorProto, helper

from pytest_hierexport._calls.attribution import Attribution, Evidence, Origin
from pytest_hierexport._calls.hierarchy import Call, Hierarchy
from pytest_hierexport._onnx import storage

SECONDS, MEGABYTES = 0.15, 120
"""DESIGN's budget."""
NODES, LAYERS, DATA = 20_000, 250, 256 * 2**20


@dataclass(frozen=True)
class Figures:
    """What a step costs."""

    seconds: float
    """By the clock, the median."""
    cpu: float
    """Of processor time, the median: other programs on the machine disturb it less."""
    megabytes: float
    """The process's peak after the first time."""


def make(path: Path) -> None:
    """Write the file, tagged with six calls a layer, and its external data."""
    with path.with_name(f"{path.name}.data").open("wb") as data:
        data.truncate(DATA)
    parts = ["query", "key", "value", "output"]
    calls = [Call("", 0, "models.Model", None)]
    for i in range(LAYERS):
        calls += [Call(f"layer.{i}", 0, "models.Layer", ""), Call(f"layer.{i}.mixer", 0, "models.Mixer", f"layer.{i}")]
        calls += [
            Call(f"layer.{i}.mixer.{part}", 0, "torch.nn.modules.linear.Linear", f"layer.{i}.mixer") for part in parts
        ]
    names = [f"value_{i}" for i in range(NODES)]
    nodes = [
        helper.make_node("Transpose", [before], [name], perm=[0])
        if i % 2
        else helper.make_node("Add", [before, f"weight_{i * LAYERS // NODES}"], [name])
        for i, (before, name) in enumerate(zip(["x", *names], names, strict=False))
    ]
    elements = DATA // LAYERS // 4
    weights = []
    for i in range(LAYERS):
        place = {"location": f"{path.name}.data", "offset": str(4 * i * elements), "length": str(4 * elements)}
        weight = TensorProto(name=f"weight_{i}", data_type=TensorProto.FLOAT, dims=[elements])
        weight.data_location = TensorProto.EXTERNAL
        for key, value in place.items():
            weight.external_data.add(key=key, value=value)
        weights.append(weight)
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [elements]) for name in ("x", names[-1])]
    graph = helper.make_graph(nodes, "graph", ends[:1], ends[1:], weights)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    made = [(Origin(call.name, Evidence.TRACED),) for call in calls[1:]]
    attribution = Attribution(
        Hierarchy(calls),
        {name: made[i * len(made) // NODES] for i, name in enumerate(names)},
        {weight.name: made[6 * i] for i, weight in enumerate(weights)},
    )
    storage.attach_proto(proto, attribution)
    path.write_bytes(proto.SerializeToString())


def _moved(found: Attribution) -> Attribution:
    keys = list(found.nodes)
    nodes = dict(zip(keys, [*list(found.nodes.values())[1:], found.nodes[keys[0]]], strict=True))
    return Attribution(found.hierarchy, nodes, found.initializers)


STEPS: dict[str, Callable[[Path], object]] = {
    "read": storage.read,
    "read and rewritten as they are": lambda path: storage.rewrite(path, lambda found: found),
    "read and rewritten, moved on by one node": lambda path: storage.rewrite(path, _moved),
}


def measure(step: str, path: Path, repeats: int) -> Figures:
    """Take one step again and again in this process."""
    STEPS[step](path)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    runs = [_seconds(step, path) for _ in range(repeats)]
    return Figures(statistics.median(run[0] for run in runs), statistics.median(run[1] for run in runs), peak)


def _seconds(step: str, path: Path) -> tuple[float, float]:
    began = time.perf_counter(), time.process_time()
    STEPS[step](path)
    return time.perf_counter() - began[0], time.process_time() - began[1]


def main() -> int:
    """Make the file, take every step in a process of its own, print the table."""
    parser = argparse.ArgumentParser(description="What reading and rewriting the tags of a large file costs.")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--step", choices=["make", *STEPS], help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step == "make":
        make(options.file)
        return 0
    if options.step:
        print(json.dumps(asdict(measure(options.step, options.file, options.repeats))))
        return 0
    figures: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "large.onnx")
        command = [sys.executable, __file__, "--file", str(path), "--repeats", str(options.repeats), "--step"]
        # A child's peak counts from its parent's: this process stays small.
        subprocess.run([*command, "make"], check=True)
        for step in STEPS:
            done = subprocess.run([*command, step], check=True, stdout=subprocess.PIPE, text=True)
            figures[step] = json.loads(done.stdout)
    print(f"{'tags of 20,000 nodes':42} {'seconds':>9} {'CPU':>9} {'peak MB':>9}")
    for step, figure in figures.items():
        print(f"{step:42} {figure['seconds']:9.3f} {figure['cpu']:9.3f} {figure['megabytes']:9.0f}")
    print(f"{'budget':42} {SECONDS:9.3f} {'':9} {MEGABYTES:9}")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
