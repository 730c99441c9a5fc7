"""Sorts nodes topologically, as ONNX requires. ONNX Runtime does not require it, and some tools write other orders."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

NodeT = TypeVar("NodeT")


def topological_order(
    nodes: Sequence[NodeT],
    inputs: Callable[[NodeT], Iterable[Hashable]],
    outputs: Callable[[NodeT], Iterable[Hashable]],
) -> list[tuple[int, NodeT]]:
    """Return nodes with their positions, each after the producers of its inputs; a sorted list keeps its order.

    Args:
        nodes: The nodes of a graph or function; those on a cycle are kept, in any order.
        inputs: Gives the values that a node takes, those that its subgraphs capture included.
        outputs: Gives the values that a node computes.
    """
    producer = {value: position for position, node in enumerate(nodes) for value in outputs(node)}
    ordered: dict[int, NodeT] = {}
    entered: set[int] = set()
    for position in range(len(nodes)):
        stack = [position]
        while stack:
            at = stack[-1]
            producers = () if at in entered else (producer.get(value) for value in inputs(nodes[at]))
            entered.add(at)
            waiting = [other for other in producers if other is not None and other not in entered]
            stack += waiting
            if not waiting:
                ordered.setdefault(stack.pop(), nodes[at])
    return list(ordered.items())
