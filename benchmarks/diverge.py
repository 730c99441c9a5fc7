"""What `diverge` promises: its speed against torch's verification, and its ranking against ONNX Runtime's.

    python -m benchmarks.diverge [SPEED_MODEL] [--quantized MODEL …] [--repeats N] [--json FILE]

Speed: `diverge(example, file, added=False)` and `verify_onnx_program(compare_intermediates=True)` compare one model's
values with the eager model's, in one process.

Ranking: a model with generic weights is quantized (`quantize_static`, QDQ, calibrated on random inputs), then again
without the first three of a ranking, by module calls:

- ours: the three calls that add the largest errors;
- theirs: the nodes of the three activations with the largest error of `qdq_loss_debug`, by each of its two figures:
  `qdq_err` (before and after quantization) and `xmodel_err` (float and quantized model); then, which is more than it
  gives by itself, all nodes of the first three module calls among its activations.

What an exclusion wins back is the noise power of the outputs that it removes, on inputs that neither saw.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from pytest_hierexport import Attribution
    from pytest_hierexport._cases import Example

BUDGET = 300
"""How many times as fast as torch's verification, at least."""
TOP = 3
"""How many calls of a ranking are excluded."""
OPERATORS = (None, ("MatMul", "Gemm"))
"""The operators that are quantized; None for all that ONNX Runtime can quantize."""
CALIBRATION = 8
EVALUATION = 32
"""How many random inputs calibrate, and measure the noise."""

Feeds = dict[str, Any]


@dataclass(frozen=True)
class Won:
    """What the exclusion of one ranking's first calls wins back."""

    ranking: str
    calls: tuple[str, ...]
    nodes: int
    sqnr: float
    """The outputs' ratio of signal to noise with the exclusion, in dB."""
    share: float
    """The share of the noise power that it removes."""


def main() -> int:
    """Measure, print the ratios and write the JSON file that was asked for."""
    options = _options()
    os.environ["OMP_NUM_THREADS"] = "1"
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    theirs, ours = measure_speed(options.model, options.repeats)
    ratio = theirs / ours
    print(f"{options.model}: verify_onnx_program {theirs:.2f} s, diverge {ours:.3f} s: {ratio:,.0f} times as fast")
    kept = ratio >= BUDGET
    found = {}
    for model, operators in product(options.quantized, OPERATORS):
        base, wins = measure_ranking(model, operators)
        name = f"{model}, {' and '.join(operators) if operators else 'all operators'} quantized"
        print(f"{name}: {base:.1f} dB; without the first {TOP} of a ranking:")
        for won in wins:
            print(f"  {won.ranking:<20}{won.sqnr:6.1f} dB{won.share:9.2%} of the noise won back, {won.nodes} nodes")
        for won in wins[1:]:
            print(f"  ours to {won.ranking}: {_ratio(wins[0].share, won.share)}")
        kept &= all(wins[0].share > won.share for won in wins[1:])
        found[name] = [asdict(won) for won in wins]
    print(f"at least {BUDGET} times as fast, and more accuracy won back: {'kept' if kept else 'not kept'}")
    if options.json:
        report = {"verify_seconds": theirs, "diverge_seconds": ours, "speed_ratio": ratio, "rankings": found}
        options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return 0


def _ratio(ours: float, theirs: float) -> str:
    return f"{ours / theirs:.3f} times" if theirs > 0 else f"{ours:.2%} against {theirs:.2%}"


def measure_speed(model: str, repeats: int) -> tuple[float, float]:
    """Return the seconds of torch's verification, and the median of ours."""
    import torch
    from torch.onnx.verification import verify_onnx_program

    from pytest_hierexport import diverge, export

    example = _example(model)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        export(example.model, example.args, example.kwargs, path, exporter="dynamo")
        program = torch.onnx.export(example.model, example.args, kwargs=example.kwargs, dynamo=True, verbose=False)
        assert program is not None, "torch returns a program unless it is given a file"  # noqa: S101
        diverge(example, path, added=False)  # warm-up: imports
        theirs = _seconds(
            lambda: verify_onnx_program(program, example.args, example.kwargs, compare_intermediates=True)
        )
        ours = [_seconds(lambda: diverge(example, path, added=False)) for _ in range(repeats)]
    return theirs, statistics.median(ours)


def _seconds(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def _example(model: str) -> Example:
    from pytest_hierexport._cases import select

    example = select([model], Path.cwd())[0].load()
    example.model.eval()
    return example


def measure_ranking(model: str, operators: Sequence[str] | None) -> tuple[float, list[Won]]:
    """Quantize a model with and without the first calls of each ranking; the outputs' SQNR without, and ours first."""
    from pytest_hierexport import diverge, export

    example = _example(model)
    with tempfile.TemporaryDirectory() as folder:
        bench = _Quantizer(Path(folder), example, operators)
        attribution = export(example.model, example.args, example.kwargs, bench.tagged, exporter="dynamo").attribution
        bench.prepare()
        quantized = bench.quantize(())
        found = diverge(bench.tagged, quantized, bench.calibration)
        base = bench.noise(quantized)
        own = {call.call: call.nodes for call in found.calls}
        ours = found.exclusion(TOP)
        wins = [bench.won("diverge", ours.modules, ours.nodes, base)]
        for key, activations in bench.activation_rankings(quantized, attribution):
            names = bench.node_names()
            wins.append(
                bench.won(f"{key}, nodes", activations[:TOP], [names[each] for each in activations[:TOP]], base)
            )
            calls = [*dict.fromkeys(attribution.nodes[name][0].call for name in activations)][:TOP]
            wins.append(bench.won(f"{key}, calls", calls, [node for call in calls for node in own[call]], base))
        return _decibels(*base), wins


def _decibels(signal: float, noise: float) -> float:
    return float(10 * np.log10(signal / noise))


class _Quantizer:
    def __init__(self, folder: Path, example: Example, operators: Sequence[str] | None) -> None:
        self.folder, self.example, self.operators = folder, example, operators
        self.tagged, self.plain = folder / "tagged.onnx", folder / "plain.onnx"
        self.calibration: list[Feeds] = []
        self.evaluation: list[Feeds] = []

    def prepare(self) -> None:
        """Write a file that the quantizer takes, and draw inputs."""
        import onnx

        from pytest_hierexport._proof.feeds import feeds_of

        proto = onnx.load(self.tagged)
        feeds = feeds_of(self.example, proto)
        del proto.graph.value_info[:]  # the quantizer infers other shapes than torch states, and stops
        onnx.save(proto, self.plain)
        generator = np.random.default_rng(0)
        drawn = [{name: _shuffled(array, generator) for name, array in feeds.items()} for _ in range(EVALUATION)]
        self.calibration = [
            {name: _shuffled(array, generator) for name, array in feeds.items()} for _ in range(CALIBRATION)
        ]
        self.evaluation = drawn

    def quantize(self, excluded: Sequence[str]) -> Path:
        """Quantize without some nodes."""
        from onnxruntime.quantization import QuantFormat, quantize_static

        path = self.folder / "quantized.onnx" if not excluded else self.folder / "excluded.onnx"
        quantize_static(
            str(self.plain),
            str(path),
            _reader(self.calibration),
            quant_format=QuantFormat.QDQ,
            op_types_to_quantize=self.operators and [*self.operators],
            nodes_to_exclude=[*excluded],
        )
        return path

    def noise(self, path: Path) -> tuple[float, float]:
        """Return the power of the float model's outputs, and of their difference to a quantized model's."""
        signal = noise = 0.0
        for one, two in zip(self._outputs(self.plain), self._outputs(path), strict=True):
            signal += float(np.square(one).sum())
            noise += float(np.square(one - two).sum())
        return signal, noise

    def _outputs(self, path: Path) -> Iterator[Any]:
        import onnxruntime

        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        for feeds in self.evaluation:
            yield np.concatenate([output.astype(np.float64).ravel() for output in session.run(None, feeds)])

    def won(self, ranking: str, names: Sequence[str], nodes: Sequence[str], base: tuple[float, float]) -> Won:
        """Measure what the exclusion of nodes wins back."""
        signal, noise = self.noise(self.quantize(nodes))
        return Won(ranking, tuple(names), len(nodes), _decibels(signal, noise), 1 - noise / base[1])

    def node_names(self) -> dict[str, str]:
        """Return the name of the node that computes each value."""
        import onnx

        return {value: node.name for node in onnx.load(self.plain).graph.node for value in node.output}

    def activation_rankings(self, quantized: Path, attribution: Attribution) -> Iterator[tuple[str, list[str]]]:
        """Yield the activations that calls compute, the largest error first, by each figure of `qdq_loss_debug`."""
        from onnxruntime.quantization import qdq_loss_debug as debug

        collected = []
        for path in (self.plain, quantized):
            augmented = path.with_suffix(".augmented.onnx")
            debug.modify_model_output_intermediate_tensors(str(path), str(augmented))
            collected.append(debug.collect_activations(str(augmented), _reader(self.calibration)))
        matched = debug.create_activation_matching(collected[1], collected[0])
        errors = debug.compute_activation_error({name: each for name, each in matched.items() if "float" in each})
        for key in ("qdq_err", "xmodel_err"):
            yield (
                key,
                sorted((name for name in errors if attribution.nodes.get(name)), key=lambda name: errors[name][key]),
            )


def _shuffled(array: Any, generator: np.random.Generator) -> Any:
    """Return other numbers of the same kind: integers and booleans in another order, floating ones drawn anew."""
    if array.dtype.kind == "f":
        return generator.standard_normal(array.shape).astype(array.dtype)
    flat = array.ravel()
    largest = int(flat.max(initial=0))
    if array.dtype.kind == "b" or largest <= 1:
        return array
    return generator.integers(0, largest + 1, array.shape).astype(array.dtype)


def _reader(feeds: Sequence[Feeds]) -> Any:
    from onnxruntime.quantization import CalibrationDataReader

    class Reader(CalibrationDataReader):  # type: ignore[misc]  # ONNX Runtime ships no types
        def __init__(self) -> None:
            self._left = iter(feeds)

        def get_next(self) -> Feeds | None:
            return next(self._left, None)

    return Reader()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", default="bert", help="the model for speed (default: bert)")
    parser.add_argument("--quantized", nargs="*", default=["bert"], metavar="MODEL", help="for ranking (default: bert)")
    parser.add_argument("--repeats", type=int, default=5, metavar="N", help="runs of diverge (default: 5)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every figure to a file")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
