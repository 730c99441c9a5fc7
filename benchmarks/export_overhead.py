"""What tags cost: our `export()` against `torch.onnx.export`, model by model, in one process.

    python benchmarks/export_overhead.py [MODEL …] [--repeats N] [--json FILE]

Both get the same model, inputs and options (the optimizer on, no file written). After one warm-up of each, a repeat
runs both, the first one last in the next repeat, so that neither gains from its place; garbage is collected before
each. A model's ratio is that of the fastest run of each: other programs on the machine make a run longer, never
shorter, and on a shared one they do so for seconds at a time.

`--layers 2 8 32 96` measures one encoder at these depths instead of the zoo.
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_hierexport._cases import Example

BUDGET = 1.00
"""The median ratio of processor time over the zoo, at most."""
LARGEST = 1.10
"""The ratio of processor time of any model, at most."""


@dataclass(frozen=True)
class Run:
    """What something took, in seconds."""

    wall: float
    cpu: float


@dataclass(frozen=True)
class Comparison:
    """The runs of one model, in the order of the repeats."""

    model: str
    torch: tuple[Run, ...]
    ours: tuple[Run, ...]

    @property
    def ratio(self) -> float:
        """Our wall time over torch's, of the fastest runs."""
        return min(run.wall for run in self.ours) / min(run.wall for run in self.torch)

    @property
    def cpu_ratio(self) -> float:
        """The same of processor time, which other programs disturb less."""
        return min(run.cpu for run in self.ours) / min(run.cpu for run in self.torch)

    def row(self) -> str:
        """Return a line of the table."""
        plain, tagged = (min(run.wall for run in runs) for runs in (self.torch, self.ours))
        return f"{self.model:<20}{plain:>10.3f}{tagged:>10.3f}{self.ratio:>9.3f}{self.cpu_ratio:>11.3f}"

    def as_json(self) -> dict[str, object]:
        """Return everything measured and what was computed from it."""
        return {
            "model": self.model,
            "torch_seconds": [run.wall for run in self.torch],
            "ours_seconds": [run.wall for run in self.ours],
            "ratio": self.ratio,
            "cpu_ratio": self.cpu_ratio,
        }


def compare(model: str, example: Example, repeats: int) -> Comparison:
    """Export an example by both in turn."""
    torch_runs: list[Run] = []
    our_runs: list[Run] = []
    pair = [(export_by_torch, torch_runs), (export_by_us, our_runs)]
    for export, _ in pair:
        export(example)
    for _ in range(repeats):
        for export, runs in pair:
            runs.append(timed(partial(export, example)))
        pair.reverse()
    return Comparison(model, tuple(torch_runs), tuple(our_runs))


def timed(act: Callable[[], object]) -> Run:
    """Do something once, with no garbage left to collect."""
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    act()
    return Run(time.perf_counter() - wall, time.process_time() - cpu)


def export_by_torch(example: Example) -> None:
    """Export as torch alone does, writing no file."""
    import torch

    torch.onnx.export(
        example.model,
        example.args,
        kwargs=example.kwargs,
        dynamic_shapes=example.dynamic_shapes,
        dynamo=True,
        verbose=False,
    )


def export_by_us(example: Example) -> None:
    """Export with tags, writing no file."""
    from pytest_hierexport import export

    export(example.model, example.args, example.kwargs, dynamic_shapes=example.dynamic_shapes, exporter="dynamo")


def zoo_examples(selectors: Sequence[str]) -> Iterator[tuple[str, Example]]:
    """Yield the selected models, each built when its turn comes."""
    from pytest_hierexport._cases import select

    for case in select(selectors, Path.cwd()):
        example = case.load()
        example.model.eval()
        yield case.name, example


def deep_examples(depths: Sequence[int]) -> Iterator[tuple[str, Example]]:
    """Yield one encoder at several depths."""
    from transformers import BertConfig, BertModel

    from pytest_hierexport._cases import Example
    from pytest_hierexport._cases.zoo.encoder import bert

    inputs = bert().kwargs
    for depth in depths:
        config = BertConfig(
            vocab_size=100, hidden_size=32, num_hidden_layers=depth, num_attention_heads=4, intermediate_size=64
        )
        yield f"{depth} layers", Example(BertModel(config).eval(), kwargs=inputs)


def main() -> int:
    """Measure, print the table and write the JSON file that was asked for."""
    options = _options()
    _quiet()
    examples = deep_examples(options.layers) if options.layers else zoo_examples(options.models)
    print(f"{'model':<20}{'torch s':>10}{'ours s':>10}{'ratio':>9}{'CPU ratio':>11}")
    comparisons = []
    for name, example in examples:
        try:
            comparisons.append(compare(name, example, options.repeats))
        except Exception as error:  # noqa: BLE001  # whatever plain torch raises: there is nothing to compare with
            print(f"{name:<20}not compared: {type(error).__name__}", flush=True)
        else:
            print(comparisons[-1].row(), flush=True)
    if not comparisons:
        return 1
    median = statistics.median(comparison.ratio for comparison in comparisons)
    cpu_median = statistics.median(comparison.cpu_ratio for comparison in comparisons)
    largest = max(comparison.cpu_ratio for comparison in comparisons)
    print(f"{'median':<40}{median:>9.3f}{cpu_median:>11.3f}")
    print(f"{'largest':<49}{largest:>11.3f}")
    kept = cpu_median <= BUDGET and largest <= LARGEST
    print(f"budget of {BUDGET:.2f} (median) and {LARGEST:.2f} (largest): {'kept' if kept else 'exceeded'}")
    if options.json:
        report = {
            "repeats": options.repeats,
            "median_ratio": median,
            "median_cpu_ratio": cpu_median,
            "largest_cpu_ratio": largest,
            "models": [comparison.as_json() for comparison in comparisons],
        }
        options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=["all"], metavar="MODEL", help="selectors (default: all)")
    parser.add_argument("--repeats", type=int, default=5, metavar="N", help="pairs of exports per model (default: 5)")
    parser.add_argument("--layers", type=int, nargs="+", metavar="N", help="depths of one encoder, not the zoo")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every figure to a file")
    return parser.parse_args()


def _quiet() -> None:
    """Keep one thread, for steady figures, and silence what exporters say of their own accord."""
    os.environ["OMP_NUM_THREADS"] = "1"
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)


if __name__ == "__main__":
    sys.exit(main())
