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
"""The name and the operator of a node, which identify it in a profile."""
_Graph = dict[_Label, list[str]]
"""The keys of the nodes of one graph by their labels."""


@dataclass(frozen=True)
class Joined:
    """A kernel with the node that it ran."""

    kernel: Kernel
    key: str | None
    """The node's key; None if no node or more than one matches."""
    level: int
    """0 in the main graph, 1 in the subgraph of one of its nodes, and so on."""


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
    nodes = grouped(walk(model), lambda item: item[0].rpartition("/")[0])
    graphs = {place: _graph(of_graph) for place, of_graph in nodes.items()}
    held = grouped(graphs, lambda place: place.rpartition("/")[0])
    inside = {holder: [graphs[place] for place in places if place] for holder, places in held.items()}
    main = [graphs[""]] if "" in graphs else []
    return [tuple(_join(kernels, 0, main, inside)) for kernels in runs]


def _graph(nodes: Iterable[tuple[str, onnx.NodeProto]]) -> _Graph:
    labels = grouped(nodes, lambda item: (item[1].name, item[1].op_type))
    return {label: [key for key, _ in equal] for label, equal in labels.items()}


def _label(kernel: Kernel, graph: _Graph) -> _Label:
    """Return the label of a kernel's node, whose name may be empty."""
    has_no_name = kernel.name == f"{kernel.op_type}_{kernel.index}"
    label = (kernel.name, kernel.op_type)
    return ("", kernel.op_type) if has_no_name and label not in graph else label


def _fit(kernels: Sequence[Kernel], graph: _Graph) -> tuple[int, bool]:
    """Return how many kernels have a node in a graph, and whether these are all kernels and all its nodes."""
    counts = Counter(_label(kernel, graph) for kernel in kernels)
    matched = sum(min(count, len(graph.get(label, ()))) for label, count in counts.items())
    return matched, matched == len(kernels) == sum(map(len, graph.values()))


def _join(
    kernels: Sequence[Kernel], level: int, graphs: Sequence[_Graph], inside: Mapping[str, Sequence[_Graph]]
) -> Iterator[Joined]:
    """Yield the kernels with their nodes in the one of these graphs that fits best; several best ones tell no node."""
    fits = [_fit(kernels, graph) for graph in graphs]
    best = max(fits, default=(0, False))
    graph = graphs[fits.index(best)] if fits.count(best) == 1 else {}
    seen: Counter[_Label] = Counter()
    for kernel in kernels:
        label = _label(kernel, graph)
        keys = graph.get(label, ())
        key = keys[seen[label]] if seen[label] < len(keys) else None
        seen[label] += 1
        yield Joined(kernel, key, level)
        for below in kernel.subgraphs:
            yield from _join(below, level + 1, () if key is None else inside.get(key, ()), inside)
