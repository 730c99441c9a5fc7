"""Sorts nodes topologically. ONNX requires that order; ONNX Runtime does not, and some tools write other orders."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

NodeT = TypeVar("NodeT")


def topological_order(
    nodes: Sequence[NodeT],
    inputs: Callable[[NodeT], Iterable[Hashable]],
    outputs: Callable[[NodeT], Iterable[Hashable]],
) -> list[tuple[int, NodeT]]:
    """Return nodes in topological order, each with its position in `nodes`; nodes in that order already stay in it.

    Args:
        nodes: The nodes of a graph or function. Nodes on a cycle are returned too, in any order.
        inputs: Returns the values that a node consumes, also in its subgraphs.
        outputs: Returns the values that a node computes.
    """
    producer = {value: position for position, node in enumerate(nodes) for value in outputs(node)}
    ordered: dict[int, NodeT] = {}
    entered: set[int] = set()
    for position in range(len(nodes)):
        stack = [position]
        while stack:
            top = stack[-1]
            producers = () if top in entered else (producer.get(value) for value in inputs(nodes[top]))
            entered.add(top)
            missing = [other for other in producers if other is not None and other not in entered]
            stack += missing
            if not missing:
                ordered.setdefault(stack.pop(), nodes[top])
    return list(ordered.items())
