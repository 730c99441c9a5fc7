"""Sums up the kernels of a profile by node, by module call and by class."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
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


_Nodes = defaultdict[str, list[NodeProfile]]


def _grouped(nodes: Iterable[NodeProfile], hierarchy: Hierarchy, group: Callable[[str], str]) -> tuple[_Nodes, _Nodes]:
    """Return the own nodes of each group of calls, and those of its calls and of all calls below them."""
    own, below = _Nodes(list), _Nodes(list)
    for node in (node for node in nodes if node.calls):
        own[group(node.calls[0])].append(node)
        # A call below another one of its group counts once.
        for name in set(map(group, hierarchy.lineage(node.calls[0]))):
            below[name].append(node)
    return own, below


def _time(nodes: Iterable[NodeProfile]) -> float:
    return sum((node.self_time for node in nodes), 0.0)


def call_profiles(nodes: Iterable[NodeProfile], hierarchy: Hierarchy, run_time: float) -> Iterator[CallProfile]:
    """Yield the figures of each call with a kernel, in execution order."""
    own, below = _grouped(nodes, hierarchy, str)
    for name in sorted(below.keys() | {ROOT}, key=hierarchy.position.__getitem__):
        call, total_time = hierarchy[name], _time(below[name])
        yield CallProfile(
            call=name,
            parent=call.parent,
            cls=call.cls,
            self_time=_time(own[name]),
            total_time=total_time,
            shared_time=_time(node for node in own[name] if len(node.calls) > 1),
            share=_part(total_time, run_time),
            kernels=sum(node.kernels for node in below[name]),
            output_bytes=sum(node.output_bytes for node in below[name]),
        )


def class_profiles(
    nodes: Iterable[NodeProfile], calls: Iterable[CallProfile], hierarchy: Hierarchy, run_time: float
) -> list[ClassProfile]:
    """Return the figures of each class of these calls, the slowest first."""
    own, below = _grouped(nodes, hierarchy, lambda name: hierarchy[name].cls)
    profiles = (
        ClassProfile(
            cls=cls,
            calls=count,
            self_time=_time(own[cls]),
            total_time=_time(below[cls]),
            share=_part(_time(own[cls]), run_time),
            kernels=sum(node.kernels for node in own[cls]),
            output_bytes=sum(node.output_bytes for node in own[cls]),
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
