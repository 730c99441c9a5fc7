"""Finds the node of each kernel run, by name and operator, in the graph that ONNX Runtime ran.

Nodes of different graphs may have the same name, and a profile names a node without a name by its operator and index.
So nodes and kernels are compared graph by graph: the kernels of a subgraph with the subgraphs of the node that ran it.
Nodes of one graph with equal names and operators are paired with the kernels in order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_hierexport._grouping import grouped
from pytest_hierexport._onnx.graph import walk
from pytest_hierexport._text import numbered
from pytest_hierexport._tools.profiling.events import Kernel

if TYPE_CHECKING:
    import onnx

_Label = tuple[str, str]
_Level = dict[_Label, list[str]]


@dataclass(frozen=True)
class Joined:
    """A kernel with the key of its node; None if no node or more than one matches."""

    kernel: Kernel
    key: str | None


def name_all_nodes(model: onnx.ModelProto) -> None:
    """Name each node by its key if it has no name, or the name of an earlier node: profiles and viewers show names."""
    known: set[str] = set()
    nodes = list(walk(model))
    taken = {node.name for _, node in nodes}
    for key, node in nodes:
        if not node.name or node.name in known:
            node.name = next(name for name in numbered(key, ".") if name not in taken)
            taken.add(node.name)
        known.add(node.name)


def join(runs: Iterable[Sequence[Kernel]], model: onnx.ModelProto) -> list[tuple[Joined, ...]]:
    """Return the kernels of each run with the keys of their nodes, each followed by the kernels of its subgraphs."""
    # The key of a node in a subgraph is that of the holding node, the subgraph's place there and its own, with slashes.
    graphs = grouped(walk(model), lambda item: item[0].rpartition("/")[0])
    levels = {graph: _level(nodes) for graph, nodes in graphs.items()}
    held = grouped(levels, lambda graph: graph.rpartition("/")[0])
    inside = {holder: [levels[graph] for graph in each if graph] for holder, each in held.items()}
    main = [levels[""]] if "" in levels else []
    return [tuple(_join(kernels, main, inside)) for kernels in runs]


def _level(nodes: Iterable[tuple[str, onnx.NodeProto]]) -> _Level:
    """Return the keys of the nodes of one graph by name and operator, which identify them in a profile."""
    labels = grouped(nodes, lambda item: (item[1].name, item[1].op_type))
    return {label: [key for key, _ in equal] for label, equal in labels.items()}


def _label(kernel: Kernel, level: _Level) -> _Label:
    """Return the name and the operator of a kernel's node; its name may be empty."""
    has_no_name = kernel.name == f"{kernel.op_type}_{kernel.index}"
    label = (kernel.name, kernel.op_type)
    return ("", kernel.op_type) if has_no_name and label not in level else label


def _fit(kernels: Sequence[Kernel], level: _Level) -> int:
    """Return the number of kernels with a node in a graph minus the number of those without."""
    counts = Counter(_label(kernel, level) for kernel in kernels)
    return sum(min(count, len(level.get(label, ()))) for label, count in counts.items()) * 2 - counts.total()


def _join(
    kernels: Sequence[Kernel], levels: Sequence[_Level], inside: Mapping[str, Sequence[_Level]]
) -> Iterator[Joined]:
    best = max((_fit(kernels, level) for level in levels), default=0)
    fitting = [level for level in levels if _fit(kernels, level) == best]
    level = fitting[0] if len(fitting) == 1 else {}
    seen: Counter[_Label] = Counter()
    for kernel in kernels:
        label = _label(kernel, level)
        keys = level.get(label, ())
        key = keys[seen[label]] if seen[label] < len(keys) else None
        seen[label] += 1
        yield Joined(kernel, key)
        for graph in kernel.subgraphs:
            yield from _join(graph, () if key is None else inside.get(key, ()), inside)
