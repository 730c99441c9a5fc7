"""What torch computes twice and drops once: a call whose result nobody reads is gone before there is an ONNX graph.

Where another call computes the very same, the value is in the graph all the same, and both calls gave it. So the
stacks of what is dropped are noted on what is computed alike and stays, found by value numbering as in
:mod:`pytest_hierexport.carry.numbering`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

import torch

from pytest_hierexport.exporter.scopes import STACK, Stack

__all__ = ["noting_dropped", "stacks"]

_CUSTOM = "custom"  # the one entry of a node's metadata that torch hands on and leaves to others to fill
_ALSO = "hierexport.also"


def stacks(node: torch.fx.Node) -> tuple[Stack, ...]:
    """Return the module stack of a node, then those of what was computed alike and dropped."""
    own: Stack = node.meta.get(STACK) or {}
    return (own, *(node.meta.get(_CUSTOM) or {}).get(_ALSO, ()))


def noting_dropped(original: Callable[..., bool]) -> Callable[..., bool]:
    """Wrap `torch.fx.Graph.eliminate_dead_code` so that it notes what it drops."""

    @functools.wraps(original)
    def eliminate_dead_code(graph: torch.fx.Graph, *args: Any, **kwargs: Any) -> bool:
        _note(graph)
        return original(graph, *args, **kwargs)

    return eliminate_dead_code


def _note(graph: torch.fx.Graph) -> None:
    live = _live(graph)
    dropped = [node for node in graph.nodes if node not in live and node.meta.get(STACK)]
    if not dropped:
        return
    forms = _forms(graph)
    survivors = {forms[node]: node for node in reversed(graph.nodes) if node in live}
    for node in dropped:
        survivor = survivors.get(forms[node])
        if survivor is not None and survivor.meta.get(STACK):
            custom = dict(survivor.meta.get(_CUSTOM) or {})
            custom[_ALSO] = (*custom.get(_ALSO, ()), *stacks(node))
            survivor.meta[_CUSTOM] = custom


def _live(graph: torch.fx.Graph) -> set[torch.fx.Node]:
    """The nodes that something read or kept depends on."""
    live: set[torch.fx.Node] = set()
    for node in reversed(graph.nodes):
        if node.op in {"output", "placeholder"} or any(user in live for user in node.users):
            live.add(node)
    return live


def _forms(graph: torch.fx.Graph) -> dict[torch.fx.Node, int]:
    """Number the nodes so that those that are computed alike share a number."""
    numbers: dict[torch.fx.Node, int] = {}
    known: dict[Hashable, int] = {}
    for node in graph.nodes:
        form = (node.op, node.target, *_frozen((node.args, node.kwargs), numbers))
        numbers[node] = known.setdefault(form if _repeats(node) else node, len(known))
    return numbers


def _repeats(node: torch.fx.Node) -> bool:
    """Whether what the node computes hangs on its operator and arguments alone."""
    if node.op == "get_attr":
        return True
    if node.op != "call_function":
        return False
    tags = getattr(node.target, "tags", ())
    return torch.Tag.nondeterministic_seeded not in tags and not node.is_impure()


def _frozen(value: Any, numbers: dict[torch.fx.Node, int]) -> Iterator[Hashable]:
    """Yield an argument's parts: a node by its number, a constant with its type (`1` is neither `True` nor `1.0`)."""
    if isinstance(value, torch.fx.Node):
        yield ("node", numbers[value])
    elif isinstance(value, (tuple, list)):
        yield from _enclosed(value, numbers)
    elif isinstance(value, dict):
        yield from _enclosed([part for item in value.items() for part in item], numbers)
    elif isinstance(value, slice):
        yield from _enclosed((value.start, value.stop, value.step), numbers)
    else:
        yield (type(value), value if isinstance(value, Hashable) else id(value))


def _enclosed(values: Iterable[Any], numbers: dict[torch.fx.Node, int]) -> Iterator[Hashable]:
    yield "("
    for value in values:
        yield from _frozen(value, numbers)
    yield ")"
