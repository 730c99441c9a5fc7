"""Pairs nodes whose names are gone and that have no expression: loops and branches by their bodies, random numbers.

Example. A tool renamed all values of a loop. Nodes without a name before are compared by operator, attributes, the
numbers of their inputs, and what is computed in their bodies; the inputs of the bodies are paired then, in order:

    before                                call    after                                 origins
    y = Scan(x) <s, v => {s1, o}>                 t3 = Scan(x) <t0, t1 => {t5, t6}>     as before
        s1 = Add(s, v)                    a           t5 = Add(t0, t1)                  a traced
        o  = Tanh(s1)                     b           t6 = Tanh(t5)                     b traced

Nodes are paired whose :meth:`Bodies.form` is equal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping

from pytest_hierexport._carry.flat import Flat, Node, Value
from pytest_hierexport._grouping import by_key


class Bodies:
    """The nodes of two graphs without an expression: which names of them stayed, and how the others compute."""

    def __init__(self, before: Flat, after: Flat) -> None:
        """Find the nodes that kept a name."""
        self.named = _named(before, after)
        """Nodes after that are known by their name, each with its node before."""
        self._kept = {*self.named.values()}
        # In the bodies of each node, those in bodies of these included.
        nodes = (*before.nodes, *after.nodes)
        self._inside = by_key((holder, node) for node in nodes for holder in node.around)
        self._ids: dict[Hashable, int] = {}

    def is_unnamed(self, node: Node) -> bool:
        """Whether no node after has the name or the keys of a node before."""
        return node not in self._kept

    def form(self, node: Node, numbers: Mapping[Value, int]) -> Hashable:
        """Return what a node computes, given the numbers of what it takes: the same for nodes that compute the same."""
        inside = self._inside.get(node, [])
        held = [value for each in (node, *inside) for value in each.body_inputs]
        ids: dict[Value, Hashable] = {value: ("input of a body", i) for i, value in enumerate(held)}

        def taken(value: Value | None) -> Hashable:
            return None if value is None else ids.get(value, numbers.get(value))

        computed: Counter[Hashable] = Counter()
        for each in inside:
            expression = (each.operator, each.attributes, tuple(map(taken, each.inputs)), each.arity)
            number = self._ids.setdefault(expression, len(self._ids))
            computed[number] += 1
            ids.update({output: ("computed in a body", number, i) for i, output in enumerate(each.outputs)})
        inputs = tuple(map(taken, node.inputs))
        given = tuple(map(taken, node.body_outputs))
        return (node.operator, node.attributes, inputs, node.arity, frozenset(computed.items()), given)


def _named(before: Flat, after: Flat) -> dict[Node, Node]:
    """Map the nodes after to those before that have their name, or their key."""
    # Any other node has an expression.
    impure = ((node, before.namesake(node)) for node in after.nodes if not node.pure)
    return {node: namesake for node, namesake in impure if namesake is not None}
