"""Pairs the nodes and values of two graphs.

1. By value numbering: nodes with equal expressions are twins, whatever their names; of several, those with equal uses.
   Initializers with the same name are equal, whatever their data; of the others, those with equal data.
2. By neighbours, where the graphs differ: from paired values to their producers and to their consumers.
3. By name; then the remaining nodes of one operator in one module, in order.

    before               after
    h = Gemm(x, w)       gemm = Gemm(x, w)      twins, the value was renamed
    y = Add(h, b)        r = Relu(gemm)         added
                         y = Add(r, b)          paired by the graph's output; its input 0 changed
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, field

from pytest_hierexport._tools.comparing.graphs import FlatGraph, FlatNode, FlatValue
from pytest_hierexport._tools.comparing.numbering import Numbering
from pytest_hierexport._tools.comparing.tensors import Data
from pytest_hierexport._tools.grouping import grouped


@dataclass(eq=False)
class Pairs:
    """The pairs of nodes and of values, from the graph before to the graph after."""

    nodes: dict[FlatNode, FlatNode] = field(default_factory=dict)
    values: dict[FlatValue, FlatValue] = field(default_factory=dict)
    taken: set[FlatNode | FlatValue] = field(default_factory=set)
    """The nodes and values of the graph after that are in a pair."""

    def free(self, old: FlatNode | FlatValue, new: FlatNode | FlatValue) -> bool:
        """Whether neither is in a pair."""
        return old not in self.nodes and old not in self.values and new not in self.taken

    def add_values(self, old: FlatValue, new: FlatValue) -> bool:
        """Pair two values; return False if one is in a pair already."""
        if not self.free(old, new):
            return False
        self.values[old] = new
        self.taken.add(new)
        return True

    def add(self, old: FlatNode, new: FlatNode) -> None:
        """Pair two nodes and their outputs."""
        self.nodes[old] = new
        self.taken.add(new)
        for a, b in zip(old.outputs, new.outputs, strict=False):
            self.add_values(a, b)


def pair(before: FlatGraph, after: FlatGraph, data: Data) -> Pairs:
    """Pair the nodes and values of two graphs, whose nodes have their modules and owners."""
    pairs = Pairs()
    for leaf, values in before.leaves.items():
        for old, new in zip(values, after.leaves.get(leaf, ()), strict=False):
            pairs.add_values(old, new)
    numbering = Numbering(before, after, data)
    _pair_by_value(numbering, pairs)
    _pair_initializers(before, after, pairs, numbering)
    _pair_by_neighbours(before, after, pairs)
    for group in (lambda node: (node.module, node.operator, node.key), lambda node: (node.module, node.operator)):
        news = grouped((node for node in after.nodes if node not in pairs.taken), group)
        for content, olds in grouped((node for node in before.nodes if node not in pairs.nodes), group).items():
            if len(olds) == len(news.get(content, ())):
                _pair_in_order(olds, news[content], pairs)
    return pairs


def _pair_by_value(numbering: Numbering, pairs: Pairs) -> None:
    """Pair nodes with equal expressions; of several, those with equal uses and calls."""
    uses = numbering.uses
    choices: tuple[Callable[[FlatNode], object], ...] = (
        lambda node: (uses[node], node.owners[:1], node.key),
        lambda node: (uses[node], node.owners[:1]),
        lambda node: node.key,
        lambda node: node.owners[:1],
        lambda node: node.module,
        lambda _node: None,
    )
    groups, others = numbering.expressions
    for expression, olds in groups.items():
        news = others.get(expression, [])
        for group in choices if len(olds) + len(news) > 2 else choices[-1:]:
            left = grouped((node for node in news if node not in pairs.taken), group)
            for content, nodes in grouped((node for node in olds if node not in pairs.nodes), group).items():
                _pair_in_order(nodes, left.get(content, ()), pairs)


def _pair_initializers(before: FlatGraph, after: FlatGraph, pairs: Pairs, numbering: Numbering) -> None:
    """Pair initializers with equal data: those that paired nodes take, then the others in order."""
    numbers = numbering.values
    for a, b in pairs.nodes.items():
        for place, old in a.inputs.items():
            new = b.inputs.get(place)
            if new is not None and old.tensor is not None and numbers[old] == numbers[new]:
                pairs.add_values(old, new)
    left, others = (
        grouped((v for each in graph.leaves.values() for v in each if v not in done), numbers.__getitem__)
        for graph, done in ((before, pairs.values), (after, pairs.taken))
    )
    for number, values in left.items():
        for old, new in zip(values, others.get(number, ()), strict=False):
            pairs.add_values(old, new)


def _pair_by_neighbours(before: FlatGraph, after: FlatGraph, pairs: Pairs) -> None:
    """Pair the producers and the consumers of paired values, until there are no more pairs."""
    results = [(value, after.results[place]) for place, value in before.results.items() if place in after.results]
    pending = deque([*results, *pairs.values.items()])
    seen: set[tuple[FlatValue, FlatValue]] = set()
    while pending:
        old, new = pending.popleft()
        if (old, new) in seen:
            continue
        seen.add((old, new))
        for a, b in [*_producers(old, new), *_consumers(old, new, pairs)]:
            if not pairs.free(a, b):
                continue
            pairs.add(a, b)
            pending += zip(a.outputs, b.outputs, strict=False)
            pending += ((value, b.inputs[place]) for place, value in a.inputs.items() if place in b.inputs)
        if old.producer is None and new.producer is None and old.leaf[-2:-1] == new.leaf[-2:-1]:
            pairs.add_values(old, new)


def _producers(old: FlatValue, new: FlatValue) -> Iterator[tuple[FlatNode, FlatNode]]:
    a, b = old.producer, new.producer
    if a and b and (a.operator, a.module, old.index) == (b.operator, b.module, new.index):
        yield a, b


def _consumers(old: FlatValue, new: FlatValue, pairs: Pairs) -> Iterator[tuple[FlatNode, FlatNode]]:
    """Yield pairs of unpaired consumers with equal module, operator and position, if both values have equally many."""
    if pairs.values.get(old) is not new:
        return

    def unpaired(value: FlatValue, paired: Container[object]) -> dict[object, list[tuple[FlatNode, object]]]:
        left = (consumer for consumer in value.consumers if consumer[0] not in paired)
        return grouped(left, lambda consumer: (consumer[0].module, consumer[0].operator, consumer[1]))

    olds, news = unpaired(old, pairs.nodes), unpaired(new, pairs.taken)
    for content, consumers in olds.items():
        if len(consumers) == len(news.get(content, ())):
            yield from ((a, b) for (a, _), (b, _) in zip(consumers, news[content], strict=True))


def _pair_in_order(olds: Iterable[FlatNode], news: Iterable[FlatNode], pairs: Pairs) -> None:
    for old, new in zip(olds, news, strict=False):
        if pairs.free(old, new):
            pairs.add(old, new)
