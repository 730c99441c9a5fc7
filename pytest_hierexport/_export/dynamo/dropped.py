"""Notes the calls of fx nodes that dead code elimination (DCE) drops on kept nodes that give the same values.

torch drops a call whose result is unused before there is an ONNX graph. Where another call computes the same, the
value is in the graph, and both calls own it:

    before DCE                       kept                     noted
    a = linear(x)   # first                                   -
    b = linear(x)   # second         b = linear(x)            first, on b
    y = tanh(b)                      y = tanh(b)

Equal values are found by a trial run on random numbers (:mod:`trial_run
<pytest_hierexport._export.dynamo.trial_run>`), not by value numbering: random model trees drop nodes that equal kept
ones only behind dropouts and copies, or on a transposed layout. The trial runs where a kept node has the type, shape
and sources of a dropped one: in 52 of 183 random model trees that drop nodes, 3 of 28 types of transformers and 1 of
19 zoo models.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Container, Hashable, Iterator, Mapping
from functools import reduce
from typing import Any

import torch

from pytest_hierexport._export.dynamo.scopes import STACK, Stack
from pytest_hierexport._export.dynamo.trial_run import contents_of, needed_for, size_of, tensors_of

_CUSTOM = "custom"  # the one entry of a node's metadata that torch copies and leaves to others to fill
_ALSO = "hierexport.also"


def stacks(node: torch.fx.Node) -> tuple[Stack, ...]:
    """Return the module stack of a node, then those of what gave the same and was dropped."""
    own: Stack = node.meta.get(STACK) or {}
    return (own, *(node.meta.get(_CUSTOM) or {}).get(_ALSO, ()))


def noting_dropped(original: Callable[..., bool]) -> Callable[..., bool]:
    """Wrap `torch.fx.Graph.eliminate_dead_code` so that it notes what it drops."""

    @functools.wraps(original)
    def eliminate_dead_code(graph: torch.fx.Graph, *args: Any, **kwargs: Any) -> bool:
        live = _live(graph)
        dropped = [node for node in graph.nodes if node not in live]
        if dropped:
            _note(graph, dropped, live)
        return original(graph, *args, **kwargs)

    return eliminate_dead_code


def _live(graph: torch.fx.Graph) -> set[torch.fx.Node]:
    """The nodes that something kept depends on."""
    live: set[torch.fx.Node] = set()
    for node in reversed(graph.nodes):
        if node.op in {"output", "placeholder"} or any(user in live for user in node.users):
            live.add(node)
    return live


def _note(graph: torch.fx.Graph, dropped: list[torch.fx.Node], live: set[torch.fx.Node]) -> None:
    kinds = {node: kind for node in dropped if (kind := _kind(node)) is not None}
    if not kinds:
        return
    sources = _sources(graph)
    wanted = {(sources[node], kind) for node, kind in kinds.items() if sources[node]}
    rivals = {node: signature for node in live if (signature := (sources[node], _kind(node))) in wanted}
    found = set(rivals.values())
    lost = [node for node, kind in kinds.items() if (sources[node], kind) in found]
    if not lost:
        return
    contents = contents_of(graph, {*lost, *rivals})
    survivors: dict[Hashable, torch.fx.Node] = {}
    for node in reversed(graph.nodes):
        if node in rivals and node in contents:
            survivors.update(dict.fromkeys(_keys(node, contents), node))
    noted: set[tuple[torch.fx.Node, torch.fx.Node]] = set()
    for node in (node for node in lost if node in contents):
        survivor = _survivor(graph, node, contents, survivors)
        if survivor is not None:
            for pair in _pairs(node, survivor, live, contents, noted):
                _copy_stacks(*pair)


def _survivor(
    graph: torch.fx.Graph,
    node: torch.fx.Node,
    contents: Mapping[torch.fx.Node, Hashable],
    survivors: Mapping[Hashable, torch.fx.Node],
) -> torch.fx.Node | None:
    """Return the node that stays for a dropped one: the first of those with the closest key."""
    keys = _keys(node, contents)
    if survivors.keys().isdisjoint(keys):
        return None
    above = needed_for(graph, {node}) - {node}
    if any(contents.get(other) == contents[node] for other in above):
        # A pass-through: only a node with the same operator and inputs does the same.
        keys = keys[:1]
    survivor = next((survivors[key] for key in keys if key in survivors), None)
    return None if survivor in above else survivor


def _pairs(
    node: torch.fx.Node,
    survivor: torch.fx.Node,
    live: Container[torch.fx.Node],
    contents: Mapping[torch.fx.Node, Hashable],
    noted: set[tuple[torch.fx.Node, torch.fx.Node]],
) -> Iterator[tuple[torch.fx.Node, torch.fx.Node]]:
    """Yield a dropped node with the one that stays for it, then the equal inputs of the two; note each pair, once.

    The nodes that a call is said to have computed must be connected: so the pairs follow the inputs.
    """
    at = [(node, survivor)]
    for lost, kept in at:
        if (lost, kept) in noted:
            continue
        noted.add((lost, kept))
        yield lost, kept
        # Two nodes that take equal parts of lists: the nodes that give the lists are equal.
        taken = lost.target is operator.getitem
        for mine, other in zip(lost.all_input_nodes, kept.all_input_nodes, strict=False):
            equal = taken or (mine in contents and contents[mine] == contents.get(other))
            # A pass-through did not compute the value that it gives.
            same = lost.target == kept.target and mine.target == other.target
            if equal and same and mine not in live and other in live:
                at.append((mine, other))


def _copy_stacks(node: torch.fx.Node, survivor: torch.fx.Node) -> None:
    custom = dict(survivor.meta.get(_CUSTOM) or {})
    custom[_ALSO] = (*custom.get(_ALSO, ()), *stacks(node))
    survivor.meta[_CUSTOM] = custom


def _keys(node: torch.fx.Node, contents: Mapping[torch.fx.Node, Hashable]) -> tuple[tuple[Hashable, ...], ...]:
    """Return the keys that equal nodes share with a node: contents, operator and inputs; the contents alone."""
    inputs = tuple(contents.get(source) for source in node.all_input_nodes)
    return (contents[node], node.target, inputs), (contents[node],)


def _sources(graph: torch.fx.Graph) -> Mapping[torch.fx.Node, int]:
    """Return the inputs and parameters that each node depends on, as the bits of a number: equal values share them."""
    sources: dict[torch.fx.Node, int] = {}
    placeholders = 0
    for node in graph.nodes:
        if node.op == "placeholder":
            sources[node] = 1 << placeholders
            placeholders += 1
        else:
            sources[node] = reduce(operator.or_, map(sources.__getitem__, node.all_input_nodes), 0)
    return sources


def _kind(node: torch.fx.Node) -> Hashable | None:
    """Return the types and shapes of a call's tensors; None where equal numbers would prove nothing.

    That is so for Booleans and single numbers.
    """
    if node.op != "call_function" or not node.meta.get(STACK):
        return None
    tensors = tensors_of(node.meta.get("val"))
    shapes = [tuple(map(size_of, tensor.shape)) for tensor in tensors]
    if any(tensor.dtype == torch.bool for tensor in tensors):
        return None
    if any(None in shape or math.prod(shape) < 2 for shape in shapes):
        return None
    return tuple((tensor.dtype, shape) for tensor, shape in zip(tensors, shapes, strict=True)) or None
