"""Pairs the nodes and values of two graphs.

1. By value numbering: nodes with equal expressions over paired inputs are twins, whatever their names. Initializers
   with the same name are paired, whatever their data.
2. By neighbours, where the graphs differ: from paired values to their producers and to their consumers.
3. By name; then the remaining nodes of one operator in one module, in order.

    before               after
    h = Gemm(x, w)       gemm = Gemm(x, w)      twins, the value was renamed
    y = Add(h, b)        r = Relu(gemm)         added
                         y = Add(r, b)          paired by the graph's output; its input 0 changed
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pytest_hierexport._onnx.order import topological_order
from pytest_hierexport._tools.comparing.graphs import FlatGraph, FlatNode, FlatValue
from pytest_hierexport._tools.comparing.tensors import Data

Label = Callable[[FlatNode], object]
"""Returns the module of a node: the same for two modules that are paired."""
_FIRST_OUTPUT = 1 << 40
"""The value numbers of node outputs begin here, those of inputs and initializers at 0."""


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


def pair(before: FlatGraph, after: FlatGraph, label: Label, data: Data) -> Pairs:
    """Pair the nodes and values of two graphs.

    Args:
        before: The graph of the first file.
        after: The graph of the second file.
        label: Returns the module of a node of either graph.
        data: Reads the data of initializers.
    """
    pairs = Pairs()
    _pair_leaves(before, after, pairs, data)
    _pair_by_value(before, after, pairs, label)
    _pair_by_neighbours(before, after, pairs, label)
    for group in (lambda node: (label(node), node.operator, node.key), lambda node: (label(node), node.operator)):
        news = _grouped((node for node in after.nodes if node not in pairs.taken), group)
        for content, olds in _grouped((node for node in before.nodes if node not in pairs.nodes), group).items():
            if len(olds) == len(news.get(content, ())):
                _pair_in_order(olds, news[content], pairs)
    return pairs


def _pair_leaves(before: FlatGraph, after: FlatGraph, pairs: Pairs, data: Data) -> None:
    """Pair inputs and initializers by their keys, then initializers by their data."""
    for leaf, values in before.leaves.items():
        for old, new in zip(values, after.leaves.get(leaf, ()), strict=False):
            pairs.add_values(old, new)
    waiting: dict[object, list[FlatValue]] = defaultdict(list)
    for new in (value for values in after.leaves.values() for value in values if value not in pairs.taken):
        if new.tensor is not None:
            waiting[data.after.content(new.tensor)].append(new)
    for old in (value for values in before.leaves.values() for value in values if value not in pairs.values):
        candidates = waiting.get(data.before.content(old.tensor)) if old.tensor is not None and waiting else None
        if candidates:
            pairs.add_values(old, candidates.pop(0))


def _pair_by_value(before: FlatGraph, after: FlatGraph, pairs: Pairs, label: Label) -> None:
    numbers: dict[FlatValue, int] = {}
    for i, (old, new) in enumerate(pairs.values.items()):
        numbers[old] = numbers[new] = i
    # Several values may have one key: those of subgraphs under equal attribute names. They get one number.
    for values in (*before.leaves.values(), *after.leaves.values()):
        number = next((numbers[value] for value in values if value in numbers), len(numbers))
        for value in values:
            numbers.setdefault(value, number)
    expressions: dict[object, int] = {}
    groups, others = (_by_expression(graph, numbers, expressions) for graph in (before, after))
    for expression, olds in groups.items():
        news = others.get(expression, [])
        for group in (lambda node: node.key, label, lambda _node: None):
            left = _grouped((node for node in news if node not in pairs.taken), group)
            for content, nodes in _grouped((node for node in olds if node not in pairs.nodes), group).items():
                _pair_in_order(nodes, left.get(content, ()), pairs)


def _by_expression(
    graph: FlatGraph, numbers: dict[FlatValue, int], expressions: dict[object, int]
) -> dict[int, list[FlatNode]]:
    """Number the outputs of nodes, and group the nodes by their expressions."""
    groups: dict[int, list[FlatNode]] = defaultdict(list)
    for _, node in topological_order(graph.nodes, lambda node: node.inputs.values(), lambda node: node.outputs):
        # A value on a cycle has no number yet. Its `id` takes the place: it is equal to no other value.
        inputs = tuple((place, numbers.get(value, -id(value))) for place, value in node.inputs.items())
        attributes = tuple(sorted((name, attribute_content(each)) for name, each in node.attributes.items()))
        expression = expressions.setdefault((node.operator, attributes, inputs), len(expressions))
        groups[expression].append(node)
        for value in node.outputs:
            numbers[value] = _FIRST_OUTPUT + expressions.setdefault((expression, value.index), len(expressions))
    return groups


def _pair_by_neighbours(before: FlatGraph, after: FlatGraph, pairs: Pairs, label: Label) -> None:
    """Pair the producers and the consumers of paired values, until there are no more pairs."""
    results = [(value, after.results[place]) for place, value in before.results.items() if place in after.results]
    pending = deque([*results, *pairs.values.items()])
    seen: set[tuple[FlatValue, FlatValue]] = set()
    while pending:
        old, new = pending.popleft()
        if (old, new) in seen:
            continue
        seen.add((old, new))
        for a, b in [*_producers(old, new, label), *_consumers(old, new, pairs, label)]:
            if not pairs.free(a, b):
                continue
            pairs.add(a, b)
            pending += zip(a.outputs, b.outputs, strict=False)
            pending += ((value, b.inputs[place]) for place, value in a.inputs.items() if place in b.inputs)
        if old.producer is None and new.producer is None and old.leaf[-2:-1] == new.leaf[-2:-1]:
            pairs.add_values(old, new)


def _producers(old: FlatValue, new: FlatValue, label: Label) -> Iterator[tuple[FlatNode, FlatNode]]:
    a, b = old.producer, new.producer
    if a is not None and b is not None and (a.operator, old.index) == (b.operator, new.index) and label(a) == label(b):
        yield a, b


def _consumers(old: FlatValue, new: FlatValue, pairs: Pairs, label: Label) -> Iterator[tuple[FlatNode, FlatNode]]:
    """Yield pairs of unpaired consumers with equal module, operator and position, if both values have equally many."""
    if pairs.values.get(old) is not new:
        return

    def unpaired(value: FlatValue, paired: Container[object]) -> dict[object, list[FlatNode]]:
        groups: dict[object, list[FlatNode]] = defaultdict(list)
        for node, place in value.consumers:
            if node not in paired:
                groups[label(node), node.operator, place].append(node)
        return groups

    olds, news = unpaired(old, pairs.nodes), unpaired(new, pairs.taken)
    for content, nodes in olds.items():
        if len(nodes) == len(news.get(content, ())):
            yield from zip(nodes, news[content], strict=True)


def _pair_in_order(olds: Iterable[FlatNode], news: Iterable[FlatNode], pairs: Pairs) -> None:
    for old, new in zip(list(olds), list(news), strict=False):
        if pairs.free(old, new):
            pairs.add(old, new)


def _grouped(nodes: Iterable[FlatNode], group: Callable[[FlatNode], object]) -> dict[object, list[FlatNode]]:
    grouped: dict[object, list[FlatNode]] = defaultdict(list)
    for node in nodes:
        grouped[group(node)].append(node)
    return grouped


def attribute_content(attribute: Any) -> bytes:
    """Return an attribute as bytes, without its doc string and without the name and texts of its tensor."""
    if not attribute.doc_string and not attribute.HasField("t"):
        return bytes(attribute.SerializeToString(deterministic=True))
    copied = type(attribute)()
    copied.CopyFrom(attribute)
    copied.ClearField("doc_string")
    for part in ("name", "doc_string", "metadata_props") if copied.HasField("t") else ():
        copied.t.ClearField(part)
    return bytes(copied.SerializeToString(deterministic=True))
