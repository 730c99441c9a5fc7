"""Numbers the values of two graphs by their expressions, and the nodes by their expressions and uses.

bias, bias_1                  two initializers with equal data
a = Add(x, bias)              equal expressions, other uses
b = Add(x, bias_1)
y = Relu(a)
z = Tanh(b)
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from pytest_hierexport._grouping import grouped
from pytest_hierexport._onnx.order import topological_order
from pytest_hierexport._tools.comparing.contents import Data, Store, Tensor, attribute_content
from pytest_hierexport._tools.comparing.graphs import FlatGraph, FlatNode, FlatValue, InputPlace


class Numbering:
    """The numbers of the nodes and values of two graphs; equal expressions have equal numbers in both."""

    def __init__(self, before: FlatGraph, after: FlatGraph, data: Data) -> None:
        """Number the inputs and initializers, then the nodes."""
        self._numbers: dict[object, int] = {}
        self.values: dict[FlatValue, int] = {}
        """By value: the number of its key or data, or of its producer's expression."""
        self.uses: dict[FlatNode, int] = {}
        """By node: the number of its expression with those of all nodes that depend on it, and the outputs."""
        for graph in (before, after):
            for leaf, values in graph.leaves.items():
                self.values.update(dict.fromkeys(values, self._number("leaf", leaf)))
        self._number_data(before, after, data)
        self.expressions = self._by_expression(before, data.before), self._by_expression(after, data.after)
        """For each graph: the nodes by the numbers of their expressions."""
        for graph in (before, after):
            self._number_uses(graph)

    def _number(self, *content: object) -> int:
        return self._numbers.setdefault(content, len(self._numbers))

    def _number_data(self, before: FlatGraph, after: FlatGraph, data: Data) -> None:
        """Number the initializers whose keys do not identify them in both graphs by their data."""
        alone = _alone(before, after), _alone(after, before)
        if not all(alone):
            return  # data is read only where there are initializers on both sides that may be equal
        for initializers, store in zip(alone, (data.before, data.after), strict=True):
            for value, tensor in initializers:
                self.values[value] = self._number("data", store.content(tensor))

    def _by_expression(self, graph: FlatGraph, store: Store) -> dict[int, list[FlatNode]]:
        expressions: dict[int, list[FlatNode]] = defaultdict(list)
        for node in _in_order(graph):
            # A value on a cycle has no number yet. Its `id` takes the place: it is equal to no other value.
            inputs = tuple((place, self.values.get(value, -id(value))) for place, value in node.inputs.items())
            contents = ((name, attribute_content(each, store)) for name, each in node.attributes.items())
            expression = self._number("node", node.operator, node.overload, tuple(sorted(contents)), inputs)
            expressions[expression].append(node)
            for value in node.outputs:
                self.values[value] = self._number("output", expression, value.index)
        return expressions

    def _number_uses(self, graph: FlatGraph) -> None:
        results = grouped(graph.results, lambda place: graph.results[place])
        for node in reversed(_in_order(graph)):
            outputs = [(frozenset(results.get(value, ())), self._consumers(value.consumers)) for value in node.outputs]
            self.uses[node] = self._number("uses", tuple(self.values[value] for value in node.outputs), tuple(outputs))

    def _consumers(self, consumers: Iterable[tuple[FlatNode, InputPlace]]) -> frozenset[object]:
        return frozenset(Counter((self.uses.get(node, -1), place) for node, place in consumers).items())


def _alone(graph: FlatGraph, other: FlatGraph) -> list[tuple[FlatValue, Tensor]]:
    """Return the initializers whose key the other graph lacks, or several subgraphs have."""
    once = {leaf for leaf, values in graph.leaves.items() if len(values) == len(other.leaves.get(leaf, ())) == 1}
    values = (value for leaf, values in graph.leaves.items() if leaf not in once for value in values)
    return [(value, value.tensor) for value in values if value.tensor is not None]


def _in_order(graph: FlatGraph) -> list[FlatNode]:
    ordered = topological_order(graph.nodes, lambda node: node.inputs.values(), lambda node: node.outputs)
    return [node for _, node in ordered]
