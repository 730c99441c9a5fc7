"""Profiles a tagged ONNX file with ONNX Runtime, and carries its tags to the graph that ran."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import median

import onnx

from pytest_hierexport._calls.attribution import Attribution, Evidence
from pytest_hierexport._carry import carry
from pytest_hierexport._errors import ExportError
from pytest_hierexport._files.temporary import temporary_folder
from pytest_hierexport._files.versions import OWN, own_version
from pytest_hierexport._onnx.graph import fitted_inputs, walk
from pytest_hierexport._onnx.loading import import_runtime
from pytest_hierexport._onnx.storage import load_proto
from pytest_hierexport._text import counted
from pytest_hierexport._tools.profiling import rollup
from pytest_hierexport._tools.profiling.feeds import Array, random_feeds
from pytest_hierexport._tools.profiling.figures import Profile
from pytest_hierexport._tools.profiling.joining import join, name_all_nodes
from pytest_hierexport._tools.profiling.running import Measured, RunOptions, measure
from pytest_hierexport._tools.tagged_file import TaggedFile, load_tagged


def profile(
    path: str | Path,
    inputs: Mapping[str, Array] | None = None,
    *,
    sizes: Mapping[str, int] | None = None,
    runs: int = 10,
    warmup: int = 1,
    level: str = "all",
    threads: int = 0,
    providers: tuple[str, ...] = ("CPUExecutionProvider",),
    optimized: str | Path | None = None,
) -> Profile:
    """Measure the time that ONNX Runtime spends in each node, module call and class.

    Args:
        path: A tagged ONNX file.
        inputs: An array for each input of the graph; None: random inputs.
        sizes: The size of each symbolic dimension, for random inputs.
        runs: The number of runs that are measured.
        warmup: The number of runs before them, which are not measured.
        level: ONNX Runtime's level of optimization: `none`, `basic`, `extended` or `all`.
        threads: The number of threads within a kernel; 0: ONNX Runtime's default.
        providers: The execution providers, the preferred first.
        optimized: The file to write the graph that ran to, with its tags; None writes none.

    Raises:
        ExportError: The optimized graph cannot be written.
        TagError: The file has no tags, or tags that cannot be parsed.
        UsageError: The file is not ONNX, does not run on these inputs, or an option is invalid.
    """
    source = load_tagged(Path(path))
    feeds = random_feeds(source.proto, sizes or {}) if inputs is None else inputs
    options = RunOptions(runs, warmup, level, threads, tuple(providers))
    return profile_file(source, feeds, options, None if optimized is None else Path(optimized))


def profile_file(
    source: TaggedFile, feeds: Mapping[str, Array], options: RunOptions, optimized: Path | None = None
) -> Profile:
    """Profile a loaded file; see :func:`profile`."""
    feeds = fitted_inputs(source.proto.graph, feeds)
    named = onnx.ModelProto()
    named.CopyFrom(source.proto)
    name_all_nodes(named)
    data = None if source.path is None else source.path.absolute().parent
    with temporary_folder() as folder:
        measured = measure(named, data, feeds, options, Path(folder))
        if measured.optimized is None:
            ran, attribution = named, source.attribution
        else:
            ran = load_proto(measured.optimized)
            attribution = carry(source.to_ir(), source.attribution, measured.optimized)
        result = _figures(measured, ran, attribution)
        if optimized is not None:
            _save(ran, attribution, source, measured, optimized)
    return result


def _figures(measured: Measured, ran: onnx.ModelProto, attribution: Attribution) -> Profile:
    """Sum up the measured runs, and give each node of the graph that ran a unique name."""
    runs = measured.runs
    joined = join([run.kernels for run in runs], ran)
    name_all_nodes(ran)
    nodes = tuple(rollup.node_profiles(joined, walk(ran), attribution))
    hierarchy = attribution.hierarchy
    middle = sorted(range(len(runs)), key=lambda i: runs[i].duration)[len(runs) // 2]
    unmatched = rollup.unmatched_time(joined)
    outside = float(median(run.outside for run in runs))
    run_time = sum(node.self_time for node in nodes) + unmatched + outside
    calls = tuple(rollup.call_profiles(nodes, hierarchy, run_time))
    return Profile(
        runs=len(runs),
        run_time=run_time,
        untagged_time=sum(node.self_time for node in nodes if not node.calls),
        derived_time=sum(node.self_time for node in nodes if node.evidence == Evidence.DERIVED.value),
        shared_time=sum(node.self_time for node in nodes if len(node.calls) > 1),
        unmatched_time=unmatched,
        outside_time=outside,
        nodes=nodes,
        calls=calls,
        classes=tuple(rollup.class_profiles(nodes, calls, hierarchy, run_time)),
        timeline=tuple(rollup.timeline(runs[middle].start, joined[middle])),
        hierarchy=hierarchy,
        graph=ran.graph.name,
        coverage=attribution.coverage(),
        notes=tuple(_notes(measured, rollup.count_varying(joined))),
        versions={OWN: own_version(), "onnxruntime": import_runtime().__version__},
    )


def _notes(measured: Measured, varying: int) -> Iterator[str]:
    if measured.optimized is None:
        reason = f"ONNX Runtime cannot write the optimized graph ({measured.reason})"
        yield f"{reason}: kernels are matched with the file's own nodes; those that the optimizer made are unattributed"
    if varying:
        nodes = f"{counted(varying, 'node')} did not run equally often in all runs"
        yield f"{nodes}: these figures are averages, those of the trace of one run"


def _save(ran: onnx.ModelProto, attribution: Attribution, source: TaggedFile, measured: Measured, path: Path) -> None:
    if measured.optimized is None:
        raise ExportError(
            "an optimized graph that ONNX Runtime can write",
            found=measured.reason,
            do="leave out the file for it, or choose providers that compile no nodes",
        )
    replace(source, proto=ran, attribution=attribution, path=measured.optimized).save(path)
