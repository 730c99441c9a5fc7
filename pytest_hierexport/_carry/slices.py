"""Slices of a graph: the nodes that a value is computed by, and those that compute with it (Weiser, 1981)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pytest_hierexport._carry.flat import Flat, Node, Value
from pytest_hierexport._carry.numbering import Numbering


def backward_slice(flat: Flat, start: Iterable[Value], stop: Callable[[Value], bool]) -> list[Node]:
    """Return the nodes that compute the elements of the values, up to other values at which to stop."""
    found: dict[Node, None] = {}
    begin = list(start)
    always, pending = set(begin), list(begin)
    while pending:
        value = pending.pop()
        producer = flat.producer.get(value)
        if producer is None or producer in found or (value not in always and stop(value)):
            continue
        found[producer] = None
        pending.extend(producer.data_operands)
    return list(found)


def forward_slice(numbers: set[int], before: Flat, numbering: Numbering, nodes: Iterable[Node]) -> list[Node]:
    """Return those of the nodes that compute with the elements of a value that has one of the numbers, in order."""
    reached: set[Value] = set()
    found: list[Node] = []
    for node in sorted(nodes, key=before.order.__getitem__):
        if any(value in reached or numbering.old[value] in numbers for value in node.data_operands):
            found.append(node)
            reached.update(node.outputs)
    return found


def consumers_through(before: Flat, start: Node, passes: Callable[[Value, Node], bool]) -> list[Node]:
    """Return the consumers of a node; where one passes on the value that it takes, its own consumers instead."""
    found: dict[Node, None] = {}
    pending, reached = [start], {start}
    for node in pending:
        for value in node.outputs:
            for consumer in before.consumers.get(value, ()):
                if not passes(value, consumer):
                    found[consumer] = None
                elif consumer not in reached:
                    reached.add(consumer)
                    pending.append(consumer)
    return list(found)


def between(source: Value, value: Value, before: Flat, numbering: Numbering) -> list[Node]:
    """Return the nodes on the paths to `value` from `source`, or from a value of its number, in order."""
    number = numbering.old[source]
    behind = backward_slice(before, [value], lambda at: numbering.old[at] == number)
    return forward_slice({number}, before, numbering, behind)
