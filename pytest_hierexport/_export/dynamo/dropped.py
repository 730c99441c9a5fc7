"""Keeps the calls of fx nodes that dead code elimination (DCE) drops: copies them to kept nodes with equal values.

torch drops unused nodes before it builds the ONNX graph. If a kept node of another call has the value that a dropped
call returned, the value is in the graph, and both calls own it:

    before DCE                       after DCE                calls of the kept node
    a = linear(x)   # first
    b = linear(x)   # second         b = linear(x)            second, first
    y = tanh(b)                      y = tanh(b)

Equal values are found by a trial run on random numbers (:mod:`trial_run
<pytest_hierexport._export.dynamo.trial_run>`). Value numbering does not find them: in random model trees, a dropped
node and its equal have dropouts or copies between them and their common inputs, or a transposed layout. The trial run
takes place only if a kept node has the type, shape and sources of a dropped result: in at most 52 of 183 random model
trees that drop nodes, 3 of 28 types of transformers and 1 of 19 zoo models.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping
from typing import Any

import torch

from pytest_hierexport._export.dynamo.node_stacks import add_stacks_of, stacks
from pytest_hierexport._export.dynamo.trial_run import contents_of, needed_for, size_of, tensors_of
from pytest_hierexport._export.dynamo.views import attribute_views, computed_anew, computing_operations, passes_on


def noting_dropped(original: Callable[..., bool]) -> Callable[..., bool]:
    """Wrap `torch.fx.Graph.eliminate_dead_code` so that kept nodes get the stacks of equal dropped nodes."""

    @functools.wraps(original)
    def eliminate_dead_code(graph: torch.fx.Graph, *args: Any, **kwargs: Any) -> bool:
        # A graph that torch still traces belongs to no module, which would hold its constants. torch asks once more.
        if graph.owning_module is not None:
            _note_dropped(graph)
        return original(graph, *args, **kwargs)

    return eliminate_dead_code


def _note_dropped(graph: torch.fx.Graph) -> None:
    live = _live(graph)
    dropped = [node for node in graph.nodes if node not in live]
    if dropped:
        computing = computing_operations(live)
        attribute_views(graph, live, computing)
        anew = computed_anew(dropped, computing)
        results = (node for node in dropped if _is_result(node) and node not in anew and not passes_on(node))
        _note(graph, results, live)


def _live(graph: torch.fx.Graph) -> set[torch.fx.Node]:
    """Return the graph's inputs and outputs, and the nodes that an output depends on."""
    live: set[torch.fx.Node] = set()
    for node in reversed(graph.nodes):
        if node.op in {"output", "placeholder"} or any(user in live for user in node.users):
            live.add(node)
    return live


def _note(graph: torch.fx.Graph, dropped: Iterable[torch.fx.Node], live: set[torch.fx.Node]) -> None:
    types_of = {node: types for node in dropped if (types := _types(node)) is not None}
    if not types_of:
        return
    sources = _sources(graph)
    wanted = {(sources[node], types) for node, types in types_of.items()}
    candidates = {node: signature for node in live if (signature := (sources[node], _types(node))) in wanted}
    common = set(candidates.values())
    lost = [node for node, types in types_of.items() if (sources[node], types) in common]
    if not lost:
        return
    contents = contents_of(graph, {*lost, *candidates})
    survivors: dict[Hashable, torch.fx.Node] = {}
    for node in reversed(graph.nodes):
        if node in candidates and node in contents:
            survivors.update(dict.fromkeys(_keys(node, contents), node))
    noted: set[tuple[torch.fx.Node, torch.fx.Node]] = set()
    for node in (node for node in lost if node in contents):
        survivor = _survivor(graph, node, contents, survivors, sources)
        if survivor is not None:
            for removed, kept in _pairs(node, survivor, live, contents, noted):
                add_stacks_of(removed, kept)


def _is_result(node: torch.fx.Node) -> bool:
    """Whether a node's value leaves its call: no node uses it, or one outside the call.

    Other values of a call matter only as what a result was computed from (:func:`_pairs`). Alone they may equal those
    of a call on the same input that has other weights.
    """
    own = stacks(node)[0].keys()
    return not node.users or any(not own <= stacks(user)[0].keys() for user in node.users)


def _survivor(
    graph: torch.fx.Graph,
    node: torch.fx.Node,
    contents: Mapping[torch.fx.Node, Hashable],
    survivors: Mapping[Hashable, torch.fx.Node],
    sources: Mapping[torch.fx.Node, int],
) -> torch.fx.Node | None:
    """Return the kept node that equals a dropped one; None if there is none.

    These have the value of the dropped node, and are preferred in this order: same operator, equal inputs and same call
    (the call lost nothing); same operator and the very inputs (another call may have been given equal ones); same
    operator and equal inputs; same operator; equal inputs. Of several, the first in the graph is taken. A constant,
    which depends on no input of the graph, needs the same operator and inputs: the random inputs of the trial run
    cannot tell two constants apart that are equal by chance. mask2former's position embedding is called for nothing,
    and its values are computed again elsewhere.
    """
    keys = _keys(node, contents)
    if survivors.keys().isdisjoint(keys):
        return None
    above = needed_for(graph, {node}) - {node}
    is_constant = sources[node] == 0
    if is_constant or any(contents.get(other) == contents[node] for other in above):
        # The node is a pass-through of a value above it: only a node with the same operator and inputs equals it.
        keys = keys[:3]
    survivor = next((survivors[key] for key in keys if key in survivors), None)
    if survivor is None or survivor in above:
        return None
    # What a caller takes anew behind its write is its own: the call that returned it first never read what was written.
    inputs = [[contents.get(source) for source in each.all_input_nodes] for each in (node, survivor)]
    is_own = inputs[0] == inputs[1] or stacks(node)[0].keys() <= stacks(survivor)[0].keys()
    return survivor if is_own else None


def _pairs(
    node: torch.fx.Node,
    survivor: torch.fx.Node,
    live: Container[torch.fx.Node],
    contents: Mapping[torch.fx.Node, Hashable],
    noted: set[tuple[torch.fx.Node, torch.fx.Node]],
) -> Iterator[tuple[torch.fx.Node, torch.fx.Node]]:
    """Yield a dropped node with its survivor, then their producers in pairs, as far as these are equal.

    So the nodes that the dropped node's call owns are connected. `noted` holds the pairs that were yielded before,
    which are not yielded again.
    """
    pairs = [(node, survivor)]
    for lost, kept in pairs:
        if (lost, kept) in noted:
            continue
        noted.add((lost, kept))
        yield lost, kept
        # Equal elements of two lists: the producers of the lists are equal.
        is_element = lost.target is operator.getitem
        for lost_input, kept_input in zip(lost.all_input_nodes, kept.all_input_nodes, strict=False):
            equal = is_element or (lost_input in contents and contents[lost_input] == contents.get(kept_input))
            # With other operators, one of the two may be a pass-through, which did not compute the value.
            same = lost.target == kept.target and lost_input.target == kept_input.target
            if equal and same and lost_input not in live and kept_input in live:
                pairs.append((lost_input, kept_input))


def _keys(node: torch.fx.Node, contents: Mapping[torch.fx.Node, Hashable]) -> tuple[tuple[Hashable, ...], ...]:
    """Return keys of a node's value, the strictest first: with operator, inputs and call, then with fewer of them.

    With another operator and other inputs, equal values are a chance: a pooling that nemotron3_5_transcribe_audio drops
    has the values of a mean in its caller.
    """
    inputs = tuple(contents.get(source) for source in node.all_input_nodes)
    content, very = contents[node], tuple(node.all_input_nodes)
    same = content, node.target, inputs
    return (*same, tuple(stacks(node)[0])), (content, node.target, very), same, same[:2], (content, inputs)


def _sources(graph: torch.fx.Graph) -> Mapping[torch.fx.Node, int]:
    """Return the graph inputs (parameters are inputs, too) that each node depends on, as the bits of a number.

    Equal values depend on the same inputs.
    """
    sources: dict[torch.fx.Node, int] = {}
    placeholders = 0
    for node in graph.nodes:
        if node.op == "placeholder":
            sources[node] = 1 << placeholders
            placeholders += 1
        else:
            sources[node] = functools.reduce(operator.or_, map(sources.__getitem__, node.all_input_nodes), 0)
    return sources


def _types(node: torch.fx.Node) -> Hashable | None:
    """Return the element types and shapes of a node's tensors.

    None for Booleans and single numbers, which may be equal by accident, and for nodes without a stack or a tensor.
    """
    if node.op != "call_function" or not stacks(node)[0]:
        return None
    tensors = tensors_of(node.meta.get("val"))
    shapes = [tuple(map(size_of, tensor.shape)) for tensor in tensors]
    if any(tensor.dtype == torch.bool for tensor in tensors):
        return None
    if any(None in shape or math.prod(shape) < 2 for shape in shapes):
        return None
    return tuple((tensor.dtype, shape) for tensor, shape in zip(tensors, shapes, strict=True)) or None
