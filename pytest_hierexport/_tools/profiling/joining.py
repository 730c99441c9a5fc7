"""Finds the node of each kernel run, by name and operator, in the graph that ONNX Runtime ran.

Nodes of different graphs may have the same name, and a profile names a node without a name by its operator and index.
So nodes and kernels are compared graph by graph: the kernels of a subgraph with the subgraphs of the node that ran it.
Nodes of one graph with equal names and operators are paired with the kernels in order.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_hierexport._onnx.graph import node_key, subgraphs_proto, walk
from pytest_hierexport._text import numbered
from pytest_hierexport._tools.profiling.events import Kernel

if TYPE_CHECKING:
    import onnx

_Label = tuple[str, str]


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
    main = [_Level(model.graph, "")]
    return [tuple(_join(kernels, main)) for kernels in runs]


class _Level:
    """The nodes of one graph by name and operator, which identify them in a profile."""

    def __init__(self, graph: Any, prefix: str) -> None:
        self.nodes: dict[str, onnx.NodeProto] = {}
        self.keys: dict[_Label, list[str]] = defaultdict(list)
        self._inside: dict[str, list[_Level]] = {}
        for position, node in enumerate(graph.node):
            key = prefix + node_key(node.output, position)
            self.nodes[key] = node
            self.keys[node.name, node.op_type].append(key)

    def label(self, kernel: Kernel) -> _Label:
        """Return the name and the operator of a kernel's node; its name may be empty."""
        has_no_name = kernel.name == f"{kernel.op_type}_{kernel.index}"
        label = (kernel.name, kernel.op_type)
        return ("", kernel.op_type) if has_no_name and label not in self.keys else label

    def fit(self, kernels: Sequence[Kernel]) -> int:
        """Return the number of kernels with a node in this graph minus the number of those without."""
        counts = Counter(map(self.label, kernels))
        return sum(min(count, len(self.keys.get(label, ()))) for label, count in counts.items()) * 2 - counts.total()

    def inside(self, key: str) -> list[_Level]:
        """Return the subgraphs of a node."""
        if key not in self._inside:
            graphs = subgraphs_proto(self.nodes[key])
            self._inside[key] = [_Level(graph, f"{key}/{place}/") for place, graph in graphs]
        return self._inside[key]


def _join(kernels: Sequence[Kernel], levels: Sequence[_Level]) -> Iterator[Joined]:
    best = max((level.fit(kernels) for level in levels), default=0)
    fitting = [level for level in levels if level.fit(kernels) == best]
    level = fitting[0] if len(fitting) == 1 else None
    seen: Counter[_Label] = Counter()
    for kernel in kernels:
        key = None
        if level is not None:
            label = level.label(kernel)
            keys = level.keys.get(label, [])
            key = keys[seen[label]] if seen[label] < len(keys) else None
            seen[label] += 1
        yield Joined(kernel, key)
        inside = level.inside(key) if level is not None and key is not None else []
        for graph in kernel.subgraphs:
            yield from _join(graph, inside)
