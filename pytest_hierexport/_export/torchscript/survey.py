"""Records the inputs and outputs of the nodes of a torch graph, and finds duplicates and those that a pass merged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

# Not by its module: a conversion replaces it there.
from torch._C import _jit_pass_cse

from pytest_hierexport._export.torchscript.graph import numbers


def number_of(node: Any) -> int:
    """Return the number that identifies a node: torch's number for its first output, which is unique in a graph."""
    number: int = node.outputsAt(0).unique()
    return number


def nodes_of(block: Any) -> Iterator[Any]:
    """Yield every node of a graph or block, each followed by the nodes of its blocks."""
    for node in block.nodes():
        yield node
        for inner in node.blocks():
            yield from nodes_of(inner)


@dataclass
class Survey:
    """The inputs and outputs of a graph's nodes, in graph order; nodes and values by their numbers."""

    inputs: dict[int, list[int]] = field(default_factory=dict)
    outputs: dict[int, list[int]] = field(default_factory=dict)
    results: list[int] = field(default_factory=list)
    """The results of the graph and its blocks, and the inputs of nodes without outputs."""
    silent: list[tuple[int, Any]] = field(default_factory=list)
    """Every node without outputs, with the number of nodes with outputs before it."""

    @classmethod
    def of(cls, graph: Any) -> Survey:
        """Read a graph in one pass: calls into torch take most of the time."""
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
    """Return the pairs (kept node, removed node) of a pass that removed duplicates, in graph order.

        before           after          pairs
        4 = relu(1)      4 = relu(1)    (4, 5): consumers of 5 take 4
        5 = relu(1)
        6 = neg(5)       6 = neg(4)

    The inputs of the two nodes of a pair are paired too: their producers may be duplicates, of which the pass removed
    one.
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


def writes(node: Any) -> bool:
    """Whether an operation writes to one of its inputs."""
    return "!" in node.schema()


def duplicates(graph: Any, consumed: str) -> list[list[int]]:
    """Return the groups of duplicate nodes that torch's pass finds in a copy of a graph.

    Values that nodes of the kind `consumed` take are results of the copy: the pass would keep apart what these nodes,
    of which torch knows nothing, may write to.
    """
    copied = graph.copy()
    original = dict(zip(numbers(copied), numbers(graph), strict=True))
    for node in copied.findAllNodes(consumed, recurse=True):
        for value in node.inputs():
            copied.registerOutput(value)
        node.removeAllInputs()
    before = Survey.of(copied)
    _jit_pass_cse(copied)
    groups: dict[int, list[int]] = {}
    for kept, removed in merged(before, Survey.of(copied)):
        groups.setdefault(kept, [original[kept]]).append(original[removed])
    return list(groups.values())


CONSTANT = "prim::Constant"
