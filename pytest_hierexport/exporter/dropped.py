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
from torch.utils._python_dispatch import _disable_current_modes

from pytest_hierexport.exporter.scopes import STACK, Stack

__all__ = ["noting_dropped", "stacks"]

_CUSTOM = "custom"  # the one entry of a node's metadata that torch hands on and leaves to others to fill
_ALSO = "hierexport.also"
_MOST_NUMBERS = 1 << 20
_NEAR = 4  # operations that undo each other stand this close


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
    survivors = {forms[node]: node for node in reversed(graph.nodes) if node in live and node in forms}
    for node in dropped:
        survivor = survivors.get(forms.get(node, -1))
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
    """Number the nodes so that those that are computed alike share a number; those that hand a value on get none."""
    forms: dict[torch.fx.Node, int] = {}
    numbers: dict[torch.fx.Node, int] = {}
    known: dict[Hashable, int] = {}
    for node in graph.nodes:
        form = (node.op, node.target, *_frozen((node.args, node.kwargs), numbers))
        source = next((source for source in _near(node) if _hands_on(source, node)), None)
        if source is not None:
            numbers[node] = numbers[source]
        else:
            numbers[node] = forms[node] = known.setdefault(form if _repeats(node) else node, len(known))
    return forms


def _near(node: torch.fx.Node) -> Iterator[torch.fx.Node]:
    """The ancestors that the node hangs on alone, the nearest first."""
    for _ in range(_NEAR):
        if not _repeats(node) or len(node.all_input_nodes) != 1:
            return
        (node,) = node.all_input_nodes
        yield node


def _hands_on(source: torch.fx.Node, node: torch.fx.Node) -> bool:
    """Whether what lies between changes nothing (a dropout in eval mode, two transposes): tried on random numbers."""
    given, made = source.meta.get("val"), node.meta.get("val")
    if not isinstance(given, torch.Tensor) or not isinstance(made, torch.Tensor):
        return False
    if given.dtype != made.dtype or given.shape != made.shape or not all(type(size) is int for size in given.shape):
        return False
    if not given.is_floating_point() or given.numel() > _MOST_NUMBERS:
        return False
    with torch._C.DisableTorchFunction(), _disable_current_modes(), torch.no_grad():
        numbers = torch.randn(given.shape, generator=torch.Generator().manual_seed(0)).to(given.dtype)
        try:
            return torch.equal(_compute(node, source, numbers.clone()), numbers)
        except Exception:  # noqa: BLE001 what does not run on plain numbers is left alone
            return False


def _compute(node: torch.fx.Node, source: torch.fx.Node, numbers: torch.Tensor) -> Any:
    """Run the operations that lead from one node to another."""
    if node is source:
        return numbers
    given = _compute(node.all_input_nodes[0], source, numbers)
    args, kwargs = torch.fx.map_arg((node.args, dict(node.kwargs)), lambda _: given)
    operator: Any = node.target
    return operator(*args, **kwargs)


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
