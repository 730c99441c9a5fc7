"""Records the inputs and outputs of the nodes of a torch graph, and finds those that a pass merged."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch


def number_of(node: Any) -> int:
    """Return the number by which a node is known: that of its first output, which torch gives once in a graph."""
    number: int = node.outputsAt(0).unique()
    return number


def nodes_of(block: Any) -> Iterator[Any]:
    """Yield every node of a graph or block, those of its blocks after the one that holds them."""
    for node in block.nodes():
        yield node
        for inner in node.blocks():
            yield from nodes_of(inner)


@dataclass
class Survey:
    """The inputs and outputs of a graph's nodes, in their order."""

    inputs: dict[int, list[int]] = field(default_factory=dict)
    outputs: dict[int, list[int]] = field(default_factory=dict)
    results: list[int] = field(default_factory=list)
    """The results of the graph and its blocks, and the inputs of nodes without outputs."""
    silent: list[tuple[int, Any]] = field(default_factory=list)
    """Every node without outputs, behind the count of the others before it."""

    @classmethod
    def of(cls, graph: Any) -> Survey:
        """Go through a graph once: asking torch is what takes time."""
        survey = cls()
        survey._visit(graph)
        return survey

    def _visit(self, block: Any) -> None:
        for node in block.nodes():
            outputs = [value.unique() for value in node.outputs()]
            if outputs:
                self.outputs[outputs[0]] = outputs
                self.inputs[outputs[0]] = [value.unique() for value in node.inputs()]
                for inner in node.blocks():
                    self._visit(inner)
            else:
                self.silent.append((len(self.outputs), node))
                self.results += [value.unique() for value in node.inputs()]
        self.results += [value.unique() for value in block.outputs()]


def merged(before: Survey, after: Survey) -> list[tuple[int, int]]:
    """Return each node that a pass dropped for an equal one, after that one, in graph order.

    The consumers of the dropped node take the other node's value now; the inputs of the two are equal in the same way.
    """
    now = {old: new for old, new in zip(before.results, after.results, strict=True) if old != new}
    for number, inputs in after.inputs.items():
        now.update((old, new) for old, new in zip(before.inputs[number], inputs, strict=True) if old != new)
    producers = {value: number for number, outputs in after.outputs.items() for value in outputs}
    pairs: list[tuple[int, int]] = []
    for number, outputs in reversed(before.outputs.items()):
        survivor = next((producers[now[value]] for value in outputs if now.get(value) in producers), None)
        if number not in after.outputs and survivor is not None:
            pairs.append((survivor, number))
            same = zip(before.inputs[number], after.inputs[survivor], strict=True)
            now.update((old, new) for old, new in same if old != new)
    return pairs[::-1]


def duplicates(graph: Any) -> list[list[int]]:
    """Return the groups of nodes that compute the same, in order; none where an operation may change a value."""
    values: dict[int, int] = {}
    found: dict[Hashable, list[Any]] = {}
    for node in nodes_of(graph):
        kind = node.kind()
        if kind.endswith("_") and not kind.endswith("__"):
            return []
        if not node.outputsSize():
            continue
        form: Hashable = (kind, _constant(node), tuple(values.get(v.unique(), v.unique()) for v in node.inputs()))
        if node.isNondeterministic() or any(True for _ in node.blocks()):
            form = number_of(node)
        same = found.setdefault(form, [])
        same.append(node)
        outputs = zip(node.outputs(), same[0].outputs(), strict=True)
        values.update((value.unique(), first.unique()) for value, first in outputs)
    return [[number_of(node) for node in nodes] for nodes in found.values() if len(nodes) > 1]


def _constant(node: Any) -> Hashable:
    """Return what a node holds: a small tensor by its content, a large one by its identity."""
    if node.kind() != CONSTANT:
        return tuple((name, str(getattr(node, node.kindOf(name))(name))) for name in node.attributeNames())
    value = node.output().toIValue()
    if not isinstance(value, torch.Tensor):
        return type(value), repr(value)
    content = value.data_ptr() if value.numel() > _SMALL else str(value.tolist())
    return str(value.dtype), tuple(value.shape), content


CONSTANT = "prim::Constant"
_SMALL = 64
