"""Pairs the nodes and values of two graphs.

1. By value numbering: nodes with equal expressions are twins, whatever their names; of several, those with equal uses.
   Initializers with the same name and module are equal, whatever their data; of the others, those with equal data.
2. By neighbours, where the graphs differ: from paired values to their producers and to their consumers.
3. By name; then the remaining nodes of one operator in one module, in order.

The nodes of subgraphs follow those that hold them, depth by depth: a part of a subgraph is paired within the subgraphs
of paired holders. What is left then is paired with nodes outside of subgraphs, or within those of unpaired holders.

    before               after
    h = Gemm(x, w)       gemm = Gemm(x, w)      twins, the value was renamed
    y = Add(h, b)        r = Relu(gemm)         added
                         y = Add(r, b)          paired by the graph's output; its input 0 changed
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from pytest_hierexport._grouping import grouped
from pytest_hierexport._tools.comparing.contents import Data
from pytest_hierexport._tools.comparing.graphs import FlatGraph, FlatNode, FlatValue, InputPlace
from pytest_hierexport._tools.comparing.numbering import Numbering

_PartT = TypeVar("_PartT", FlatNode, FlatValue)


@dataclass(eq=False)
class Pairs:
    """The pairs of nodes and of values, from the graph before to the graph after."""

    nodes: dict[FlatNode, FlatNode] = field(default_factory=dict)
    values: dict[FlatValue, FlatValue] = field(default_factory=dict)
    taken: set[object] = field(default_factory=set)
    """The nodes and values of both graphs that are in a pair."""
    depth: int | None = None
    """The depth of the parts to pair, within paired holders alone; None for parts of any depth and holder."""

    def together(self, old: FlatNode, new: FlatNode) -> bool:
        """Whether two nodes are at the depth to pair, and no holder of theirs has another partner."""
        if self.holder(old) is new.holder:
            return self._has_depth(old) and self._has_depth(new)
        is_loose = None in (old.holder, new.holder) or self.taken.isdisjoint((old.holder, new.holder))
        return self.depth is None and is_loose

    def left(
        self, olds: Iterable[_PartT], news: Iterable[_PartT], group: Callable[[_PartT], object]
    ) -> Iterator[tuple[list[_PartT], list[_PartT]]]:
        """Yield the parts to pair for which `group` returns the same: those before, and those after."""

        def groups(parts: Iterable[_PartT]) -> dict[object, list[_PartT]]:
            free = (part for part in parts if part not in self.taken and self._has_depth(part))
            return grouped(free, lambda part: (self.depth is None or self.holder(part), group(part)))

        others = groups(news)
        for content, parts in groups(olds).items():
            yield parts, others.get(content, [])

    def holder(self, part: FlatNode | FlatValue) -> FlatNode | None:
        """Return the node whose subgraph holds a part; for a part before, the node after in its place."""
        return None if part.holder is None else self.nodes.get(part.holder, part.holder)

    def add_values(self, old: FlatValue, new: FlatValue) -> None:
        """Pair two values, unless one is in a pair already."""
        if self.taken.isdisjoint((old, new)):
            self.values[old] = new
            self.taken |= {old, new}

    def add(self, old: FlatNode, new: FlatNode) -> None:
        """Pair two nodes, their outputs, and the inputs and initializers of their subgraphs."""
        self.nodes[old] = new
        self.taken |= {old, new}
        for a, b in zip(old.outputs, new.outputs, strict=False):
            self.add_values(a, b)
        for leaf, value in old.leaves.items():
            if leaf in new.leaves:
                self.add_values(value, new.leaves[leaf])

    def _has_depth(self, part: FlatNode | FlatValue) -> bool:
        return self.depth is None or self.depth == (0 if part.holder is None else part.holder.depth + 1)


def pair(before: FlatGraph, after: FlatGraph, data: Data) -> Pairs:
    """Pair the nodes and values of two graphs, whose nodes have their modules and owners."""
    pairs = Pairs()
    for leaf, values in before.leaves.items():
        own, others = ([v for v in each if v.holder is None] for each in (values, after.leaves.get(leaf, ())))
        for old, new in zip(own, others, strict=False):
            pairs.add_values(old, new)
    numbering = Numbering(before, after, data)
    deepest = max(before.depth, after.depth)
    for depth in (*range(deepest + 1), None) if deepest else (None,):
        pairs.depth = depth
        _pair_at_depth(before, after, pairs, numbering)
    return pairs


def _pair_at_depth(before: FlatGraph, after: FlatGraph, pairs: Pairs, numbering: Numbering) -> None:
    _pair_by_value(numbering, pairs)
    _pair_initializers(before, after, pairs, numbering)
    _pair_by_neighbours(before, after, pairs)
    for group in (lambda node: (node.module, node.operator, node.key), lambda node: (node.module, node.operator)):
        for olds, news in pairs.left(before.nodes, after.nodes, group):
            if len(olds) == len(news):
                _pair_in_order(olds, news, pairs)


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
        # A single pair leaves nothing to choose; most expressions have one.
        for group in choices if len(olds) + len(news) > 2 else choices[-1:]:
            for left, others_left in pairs.left(olds, news, group):
                _pair_in_order(left, others_left, pairs)


def _pair_initializers(before: FlatGraph, after: FlatGraph, pairs: Pairs, numbering: Numbering) -> None:
    """Pair initializers with equal data: those that paired nodes take, then the others in order."""
    numbers = numbering.values
    for a, b in pairs.nodes.items():
        for place, old in a.inputs.items():
            new = b.inputs.get(place)
            if new is not None and old.tensor is not None and numbers[old] == numbers[new]:
                pairs.add_values(old, new)
    left, others = ([value for values in graph.leaves.values() for value in values] for graph in (before, after))
    for olds, news in pairs.left(left, others, numbers.__getitem__):
        for old, new in zip(olds, news, strict=False):
            pairs.add_values(old, new)


def _pair_by_neighbours(before: FlatGraph, after: FlatGraph, pairs: Pairs) -> None:
    """Pair the producers and the consumers of paired values, until there are no more pairs."""
    results = [(value, after.results[place]) for place, value in before.results.items() if place in after.results]
    nodes = ((a.inputs, b.inputs) for a, b in pairs.nodes.items())
    inside = ((a[place], b[place]) for a, b in nodes for place in a if isinstance(place, tuple) and place in b)
    pending = deque([*results, *pairs.values.items(), *inside])
    seen: set[tuple[FlatValue, FlatValue]] = set()
    while pending:
        old, new = pending.popleft()
        if (old, new) in seen:
            continue
        seen.add((old, new))
        for a, b in [*_producers(old, new), *_consumers(old, new, pairs)]:
            if pairs.taken.isdisjoint((a, b)) and pairs.together(a, b):
                pairs.add(a, b)
                pending += zip(a.outputs, b.outputs, strict=False)
                pending += ((value, b.inputs[place]) for place, value in a.inputs.items() if place in b.inputs)
        # Inputs pair with inputs, and initializers with initializers.
        if old.leaf and new.leaf and old.leaf[-2] == new.leaf[-2]:
            pairs.add_values(old, new)


def _producers(old: FlatValue, new: FlatValue) -> Iterator[tuple[FlatNode, FlatNode]]:
    a, b = old.producer, new.producer
    if a and b and (a.operator, a.module, old.index) == (b.operator, b.module, new.index):
        yield a, b


def _consumers(old: FlatValue, new: FlatValue, pairs: Pairs) -> Iterator[tuple[FlatNode, FlatNode]]:
    """Yield pairs of unpaired consumers with equal module, operator, position and place, if there are equally many."""
    if pairs.values.get(old) is not new:
        return

    def unpaired(value: FlatValue) -> dict[object, list[tuple[FlatNode, InputPlace]]]:
        left = (consumer for consumer in value.consumers if consumer[0] not in pairs.taken)
        return grouped(left, lambda each: (pairs.holder(each[0]), each[0].module, each[0].operator, each[1]))

    news = unpaired(new)
    for content, consumers in unpaired(old).items():
        if len(consumers) == len(news.get(content, ())):
            yield from ((a, b) for (a, _), (b, _) in zip(consumers, news[content], strict=True))


def _pair_in_order(olds: Iterable[FlatNode], news: Iterable[FlatNode], pairs: Pairs) -> None:
    for old, new in zip(olds, news, strict=False):
        if pairs.together(old, new):
            pairs.add(old, new)
