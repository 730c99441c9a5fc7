"""Sums up the kernels of a profile by node, by module call and by class."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from pytest_hierexport._calls.attribution import Attribution
from pytest_hierexport._calls.hierarchy import ROOT, Hierarchy
from pytest_hierexport._calls.names import encode_operator
from pytest_hierexport._tools.profiling.events import Kernel
from pytest_hierexport._tools.profiling.figures import CallProfile, ClassProfile, KernelSlice, NodeProfile
from pytest_hierexport._tools.profiling.joining import Joined

if TYPE_CHECKING:
    import onnx


def node_profiles(
    runs: Sequence[Sequence[Joined]], nodes: Iterable[tuple[str, onnx.NodeProto]], attribution: Attribution
) -> Iterator[NodeProfile]:
    """Yield the figures of each node that ran, in graph order."""
    ran = _ran(runs)
    for key, node in nodes:
        if key in ran:
            origins, kernels = attribution.nodes.get(key, ()), [kernel for run in ran[key] for kernel in run]
            times = [sum(kernel.self_time for kernel in run) / len(run) for run in ran[key]]
            yield NodeProfile(
                key=key,
                name=node.name,
                operator=encode_operator(node.domain, node.op_type),
                tag=attribution.tag(key) if origins else None,
                calls=tuple(origin.call for origin in origins),
                evidence=origins[0].evidence.value if origins else None,
                self_time=median(times) * len(kernels) / len(runs),
                kernels=_per_run(len(kernels), len(runs)),
                output_bytes=_per_run(sum(kernel.output_bytes for kernel in kernels), len(runs)),
                provider=kernels[0].provider,
            )


def _ran(runs: Iterable[Sequence[Joined]]) -> dict[str, list[list[Kernel]]]:
    """Return the kernels of each node, for each run in which it ran."""
    ran: dict[str, list[list[Kernel]]] = defaultdict(list)
    for run in runs:
        of_run: dict[str, list[Kernel]] = defaultdict(list)
        for joined in run:
            if joined.key is not None:
                of_run[joined.key].append(joined.kernel)
        for key, kernels in of_run.items():
            ran[key].append(kernels)
    return ran


def _per_run(count: int, runs: int) -> float:
    """Return the average over the runs; a whole number where it is one."""
    return count / runs if count % runs else count // runs


def count_varying(runs: Sequence[Sequence[Joined]]) -> int:
    """Count the nodes that did not run equally often in all runs."""
    counts = (Counter(joined.key for joined in run if joined.key is not None) for run in runs)
    first, *others = counts
    return len({key for other in others for key in first.keys() | other.keys() if first[key] != other[key]})


def unmatched_time(runs: Iterable[Iterable[Joined]]) -> float:
    """Return the time of the kernels of unknown nodes, as the median over the runs."""
    return float(median(sum(joined.kernel.self_time for joined in run if joined.key is None) for run in runs))


@dataclass
class _Sums:
    self_time: float = 0.0
    shared_time: float = 0.0
    own_kernels: float = 0
    own_bytes: float = 0
    total_time: float = 0.0
    kernels: float = 0
    output_bytes: float = 0


def _sums(nodes: Iterable[NodeProfile], hierarchy: Hierarchy, group: Callable[[str], str]) -> dict[str, _Sums]:
    """Return the sums of each group of calls with a node, and of each with a call above one."""
    sums: dict[str, _Sums] = defaultdict(_Sums)
    for node in (node for node in nodes if node.calls):
        own = sums[group(node.calls[0])]
        own.self_time += node.self_time
        own.shared_time += node.self_time if len(node.calls) > 1 else 0.0
        own.own_kernels += node.kernels
        own.own_bytes += node.output_bytes
        # A call below another one of its group counts once.
        for total in [sums[name] for name in set(map(group, hierarchy.lineage(node.calls[0])))]:
            total.total_time += node.self_time
            total.kernels += node.kernels
            total.output_bytes += node.output_bytes
    return sums


def call_profiles(nodes: Iterable[NodeProfile], hierarchy: Hierarchy, run_time: float) -> Iterator[CallProfile]:
    """Yield the figures of each call with a kernel, in execution order."""
    sums = _sums(nodes, hierarchy, str)
    for name in sorted(sums.keys() | {ROOT}, key=hierarchy.position.__getitem__):
        call, of_call = hierarchy[name], sums[name]
        yield CallProfile(
            call=name,
            parent=call.parent,
            cls=call.cls,
            self_time=of_call.self_time,
            total_time=of_call.total_time,
            shared_time=of_call.shared_time,
            share=_part(of_call.total_time, run_time),
            kernels=of_call.kernels,
            output_bytes=of_call.output_bytes,
        )


def class_profiles(
    nodes: Iterable[NodeProfile], calls: Iterable[CallProfile], hierarchy: Hierarchy, run_time: float
) -> list[ClassProfile]:
    """Return the figures of each class of these calls, the slowest first."""
    sums = _sums(nodes, hierarchy, lambda name: hierarchy[name].cls)
    profiles = (
        ClassProfile(
            cls=cls,
            calls=count,
            self_time=sums[cls].self_time,
            total_time=sums[cls].total_time,
            share=_part(sums[cls].self_time, run_time),
            kernels=sums[cls].own_kernels,
            output_bytes=sums[cls].own_bytes,
        )
        for cls, count in Counter(call.cls for call in calls).items()
    )
    return sorted(profiles, key=lambda each: (-each.self_time, -each.total_time, each.cls))


def _part(time: float, run_time: float) -> float:
    return time / run_time if run_time else 0.0


def timeline(start: int, joined: Iterable[Joined]) -> Iterator[KernelSlice]:
    """Yield the kernels of a run that began at `start`, each followed by the kernels of its subgraphs."""
    for each in joined:
        kernel = each.kernel
        began = kernel.start - start
        yield KernelSlice(each.key, kernel.name, kernel.op_type, began, kernel.duration, each.level)
