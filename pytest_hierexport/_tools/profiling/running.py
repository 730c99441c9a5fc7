"""Runs a model under ONNX Runtime's profiler, in one session that also writes the optimized model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_hierexport._errors import UsageError, in_words
from pytest_hierexport._onnx.graph import inventory_proto
from pytest_hierexport._onnx.loading import import_runtime, ort_value, runtime_errors_told
from pytest_hierexport._tools.profiling.events import ModelRun, read_runs
from pytest_hierexport._tools.profiling.feeds import Array

if TYPE_CHECKING:
    import onnx
    import onnxruntime

LEVELS = {
    "none": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "all": "ORT_ENABLE_ALL",
}
"""ONNX Runtime's levels of optimization."""
_OPTIMIZED = "optimized.onnx"


@dataclass(frozen=True)
class RunOptions:
    """The options of a measurement."""

    runs: int
    """The number of runs that are measured."""
    warmup: int
    """The number of runs before them, which are not measured: the first run allocates memory."""
    level: str
    threads: int
    """The number of threads within a kernel; 0: ONNX Runtime's default."""
    providers: tuple[str, ...] = ("CPUExecutionProvider",)

    def __post_init__(self) -> None:
        """Check the values."""
        if self.level not in LEVELS:
            raise UsageError(f"a level of {', '.join(LEVELS)}", found=self.level, do="choose one of them")
        if self.runs < 1 or self.warmup < 0 or not 0 <= self.threads < 1 << 31:
            found = f"{self.runs} runs, {self.warmup} for warm-up, {self.threads} threads"
            raise UsageError(
                "one run or more, no negative number, and fewer than 2,147,483,648 threads",
                found=found,
                do="state other numbers",
            )


@dataclass(frozen=True)
class Measured:
    """The runs that one session measured, and the graph that it ran."""

    runs: tuple[ModelRun, ...]
    """The measured runs, without the runs for warm-up."""
    optimized: Path | None
    """The file with the graph that ran; None if ONNX Runtime cannot write it."""
    reason: str
    """Why ONNX Runtime cannot write it; empty if it can."""


def measure(
    model: onnx.ModelProto, data: Path | None, feeds: Mapping[str, Array], options: RunOptions, folder: Path
) -> Measured:
    """Run a model under the profiler.

    `data` is the folder of its external data, None if the message contains all data. `folder` is an empty one for the
    files that ONNX Runtime writes, the optimized model among them.

    Raises:
        UsageError: ONNX Runtime cannot run the model on these inputs, or lacks a provider.
    """
    onnxruntime = import_runtime()
    missing = set(options.providers).difference(onnxruntime.get_available_providers())
    if missing:
        known = ", ".join(onnxruntime.get_available_providers())
        raise UsageError(f"execution providers among {known}", found=", ".join(sorted(missing)), do="choose from these")
    reason = ""
    with runtime_errors_told(model.graph, loaded=False):
        try:
            session = _session(model, data, options, folder, optimized=folder / _OPTIMIZED)
        except Exception as error:  # noqa: BLE001  # an error of the second try is raised
            # ONNX Runtime cannot write a model with nodes that an execution provider compiled.
            session = _session(model, data, options, folder, optimized=None)
            reason = in_words(error)
    with runtime_errors_told(model.graph):
        runs = _run(session, feeds, options)
    return Measured(runs, None if reason else folder / _OPTIMIZED, reason)


def _run(
    session: onnxruntime.InferenceSession, feeds: Mapping[str, Array], options: RunOptions
) -> tuple[ModelRun, ...]:
    inputs = {name: ort_value(array) for name, array in feeds.items()}
    count = options.warmup + options.runs
    try:
        for _ in range(count):
            session.run_with_ort_values([output.name for output in session.get_outputs()], inputs)
    finally:
        profile = Path(session.end_profiling())
    runs = read_runs(json.loads(profile.read_text(encoding="utf-8", errors="replace")))
    if len(runs) != count:
        # ONNX Runtime's profiler stops after a million events.
        found = f"{len(runs)} of {count} runs"
        raise UsageError("a profile with all runs", found=found, do="measure fewer runs, or a smaller input")
    return tuple(runs[options.warmup :])


def _session(
    model: onnx.ModelProto, data: Path | None, options: RunOptions, folder: Path, *, optimized: Path | None
) -> onnxruntime.InferenceSession:
    runtime = import_runtime()
    chosen = runtime.SessionOptions()
    chosen.log_severity_level = 4
    chosen.intra_op_num_threads = options.threads
    chosen.graph_optimization_level = getattr(runtime.GraphOptimizationLevel, LEVELS[options.level])
    chosen.enable_profiling = True
    chosen.profile_file_prefix = str(folder / "profile")
    if data is not None:
        chosen.add_session_config_entry("session.model_external_initializers_file_folder_path", str(data))
    if optimized is not None:
        chosen.optimized_model_filepath = str(optimized)
        if any(tensor.external_data for _, tensor in inventory_proto(model).initializers):
            entry = "session.optimized_model_external_initializers_file_name"
            chosen.add_session_config_entry(entry, f"{optimized.name}.data")
    return runtime.InferenceSession(model.SerializeToString(), chosen, providers=list(options.providers))
