"""What models without weights cost: seconds, peak memory and nodes, by stage.

    python -m benchmarks.large_models [--layers 2 20 80] [--model llama|mixture] [--json FILE]

`llama` is Llama-3-70B's configuration, `mixture` one of a mixture of experts with 235 billion parameters (Qwen3's).
Each number of layers runs in a process of its own. The columns are seconds, with processor seconds in brackets: other
programs on the machine disturb these less.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

WALL_BUDGET, MEMORY_BUDGET = 120.0, 4.0
"""Seconds and gigabytes for all 80 layers of `llama`."""
_LARGEST = 80


def llama(layers: int) -> object:
    """Return Llama-3-70B with this many of its 80 layers."""
    import torch
    import transformers

    config = transformers.LlamaConfig(
        hidden_size=8192,
        num_hidden_layers=layers,
        num_attention_heads=64,
        num_key_value_heads=8,
        intermediate_size=28672,
        vocab_size=128256,
        max_position_embeddings=8192,
        use_cache=False,
    )
    return transformers.LlamaForCausalLM(config).eval(), (), {"input_ids": torch.randint(0, 128256, (1, 16))}


def mixture(layers: int) -> object:
    """Return a mixture of 128 experts with this many of its 94 layers."""
    import torch
    import transformers

    config = transformers.Qwen3MoeConfig(  # type: ignore[call-arg]  # it takes a size of heads as further options
        hidden_size=4096,
        num_hidden_layers=layers,
        num_attention_heads=64,
        num_key_value_heads=4,
        head_dim=128,
        intermediate_size=12288,
        moe_intermediate_size=1536,
        num_experts=128,
        num_experts_per_tok=8,
        vocab_size=151936,
        use_cache=False,
    )
    return transformers.Qwen3MoeForCausalLM(config).eval(), (), {"input_ids": torch.randint(0, 151936, (1, 16))}


MODELS: dict[str, Callable[[int], object]] = {"llama": llama, "mixture": mixture}


class Stages:
    """The seconds of each stage; those of a stage inside another are not counted twice."""

    def __init__(self) -> None:
        """Start without any."""
        self.seconds: dict[str, list[float]] = {}
        self._inner = [[0.0, 0.0]]

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add what runs in the context to a stage."""
        start = (time.perf_counter(), time.process_time())
        self._inner.append([0.0, 0.0])
        try:
            yield
        finally:
            inner = self._inner.pop()
            spent = [time.perf_counter() - start[0], time.process_time() - start[1]]
            own = self.seconds.setdefault(name, [0.0, 0.0])
            for i in range(2):
                own[i] += spent[i] - inner[i]
                self._inner[-1][i] += spent[i]

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that adds its calls to a stage."""

        def call(*args: Any, **kwargs: Any) -> Any:
            with self.stage(name):
                return function(*args, **kwargs)

        return call


def measure(model: str, layers: int) -> dict[str, Any]:
    """Build, export and check a model without weights in this process."""
    import torch
    import transformers  # noqa: F401  # its import is no part of building

    from pytest_hierexport._cases import Case
    from pytest_hierexport._export import pipeline
    from pytest_hierexport._export.patching import replaced
    from pytest_hierexport._export.result import Export
    from pytest_hierexport._pytest.outcome import export_into
    from pytest_hierexport._rules.registry import BUILT_IN

    stages = Stages()
    case = Case(model, lambda: MODELS[model](layers), model, weights="none")
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        for holder, name, stage in (
            (Case, "load", "build"),
            (torch.onnx.ONNXProgram, "optimize", "optimizer"),
            (pipeline, "_capture", "capture"),
            (pipeline, "carry_flat", "carry"),
            (Export, "save", "write"),
        ):
            stack.enter_context(replaced(holder, name, stages.timed(stage, getattr(holder, name))))
        with stages.stage("snapshot and other"):
            outcome, example = export_into(Path(folder), case)
        if outcome.error is not None:
            return {"model": model, "layers": layers, "error": str(outcome.error), "stages": stages.seconds}
        assert example is not None  # noqa: S101  # the export succeeded
        exported = outcome.exported(case, example)
        broken = []
        for rule in (rule for rule in BUILT_IN if rule.needs == "file"):
            with stages.stage(rule.id):
                broken += [rule.id] * bool(rule.violations(exported))
    return {
        "model": model,
        "layers": layers,
        "parameters": sum(parameter.numel() for parameter in example.model.parameters()),
        "exporter": outcome.exporter,
        "nodes": sum(outcome.coverage.values()),
        "untagged": outcome.coverage["untagged"],
        "broken": broken,
        "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9,
        "stages": stages.seconds,
    }


def _shown(measured: dict[str, Any]) -> Iterator[str]:
    if "error" in measured:
        yield f"{measured['model']}, {measured['layers']} layers: {measured['error']}"
        return
    wall, processor = (sum(spent[i] for spent in measured["stages"].values()) for i in range(2))
    yield (
        f"{measured['model']}, {measured['layers']} layers, {measured['parameters'] / 1e9:.1f} billion parameters: "
        f"{wall:.1f} s ({processor:.1f} s), {measured['peak_gb']:.2f} GB, {measured['nodes']} nodes "
        f"({measured['untagged']} untagged) by {measured['exporter']}, broken: {measured['broken'] or 'none'}"
    )
    for name, (spent, of_processor) in measured["stages"].items():
        yield f"  {name:20} {spent:8.1f} s ({of_processor:.1f} s)"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure each number of layers, print the stages; 1 where all 80 layers of `llama` are beyond the budget."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--layers", type=int, nargs="+", default=[2, 20, _LARGEST])
    parser.add_argument("--model", choices=list(MODELS), default="llama")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    parser.add_argument("--here", action="store_true", help="measure in this process, and print JSON")
    options = parser.parse_args(arguments)
    if options.here:
        print(json.dumps(measure(options.model, options.layers[0])))
        return 0
    results = []
    for layers in options.layers:
        command = [sys.executable, "-m", __spec__.name, "--here", "--model", options.model, "--layers", str(layers)]
        made = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        results.append(json.loads(made.stdout.splitlines()[-1]))
        print(*_shown(results[-1]), sep="\n", flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1), encoding="utf-8")
    full = [each for each in results if each["model"] == "llama" and each["layers"] == _LARGEST]
    return int(any(map(_beyond, full)))


def _beyond(measured: dict[str, Any]) -> bool:
    spent = sum(wall for wall, _ in measured["stages"].values())
    return "error" in measured or spent > WALL_BUDGET or measured["peak_gb"] > MEMORY_BUDGET


if __name__ == "__main__":
    sys.exit(main())
