"""Gives views that torch computes anew, after a write in place, to the calls that first took them."""

from __future__ import annotations

import operator
from collections.abc import Container, Iterable, Sequence
from typing import Any

import torch

from pytest_hierexport._export.dynamo.module_stacks import STACK
from pytest_hierexport._export.dynamo.node_stacks import set_taker, stacks
from pytest_hierexport._export.dynamo.paths import Stack
from pytest_hierexport._export.dynamo.trial_run import size_of

_OPERATION = "torch_fn"  # the entry that names the operation of the model, with its number, that a node is part of


def attribute_views(graph: torch.fx.Graph, live: set[torch.fx.Node], computing: Container[Any]) -> None:
    """Give each view that is computed anew the stack of the call that first took the view, whose own node is dropped.

    After a write in place, torch drops the views of the written tensor and computes them where they are used next
    (functionalization):

        z = b(x)                  conv1d
        z[0] = 0                  select_scatter
        c(z.transpose(1, 2))      transpose      # dropped       -> the caller
                                  transpose_1    # in `linear`   -> c, but the caller took it
                                  linear                         -> c

    An operation that takes a view of a view computes the first once more, too: a layer that expands its caller's mask.
    """
    same: dict[torch.fx.Node, torch.fx.Node] = {}
    first: dict[str, torch.fx.Node] = {}
    earlier: dict[torch.fx.Node, list[torch.fx.Node]] = {}
    for node in graph.nodes:
        if not _is_view(node) and node.target is not operator.getitem:
            continue
        inputs = torch.fx.map_arg((node.args, dict(node.kwargs)), lambda source: same.get(source, source))
        same[node] = first.setdefault(repr((node.target, inputs)), node)
        if node in live and not stacks(node)[0]:
            # An output of the model, computed once more behind all calls: the first call that took it has the view.
            set_taker(node, stacks(same[node])[0])
            continue
        operation = node.meta.get(_OPERATION)
        users = [user for user in node.users if user.meta.get(_OPERATION, node) == operation]
        if (users and not _is_taken(node)) or (node in live and operation in computing):
            own = node.meta.get(STACK) or {}  # torch removes dead code twice: not the taker that was found before
            # An operation that takes a part of this view, and writes it back into the view, was given the part alone.
            is_whole = len(set(map(_is_view, users))) < 2
            taker = _taker(own, [each for each in earlier.get(same[node], []) if is_whole or each not in live], live)
            # The caller of a call that wrote may use its own view again.
            if not own.keys() <= taker.keys():
                set_taker(node, taker)
        earlier.setdefault(same[node], []).append(node)


def _taker(own: Stack, earlier: Sequence[torch.fx.Node], live: Container[torch.fx.Node]) -> Stack:
    """Return the stack of the call that took the view that a node of the call `own` computes once more.

    `earlier` are the nodes of the view before it. Each layer of torch's TransformerEncoder takes the same view of a
    mask that was filled in place: a call that took it uses its own view. Otherwise, the nearest caller that has the
    view gave it to the call, and if none has it, the first call whose node is dropped returned it.
    """
    stacks_of = {each: stacks(each)[0] for each in earlier}
    if any(_is_taken(each) and own.keys() <= stack.keys() for each, stack in stacks_of.items()):
        return own
    callers = [stack for stack in stacks_of.values() if stack.keys() < own.keys()]
    returned = (stack for each, stack in stacks_of.items() if each not in live)
    return max(callers, key=len, default=next(returned, {}))


def _is_taken(node: torch.fx.Node) -> bool:
    """Whether a call took a dropped view: no node uses it, since the first that would computes it once more.

    Other dropped views were computed once more for an operation that is dropped, too.
    """
    return all(user.target is operator.getitem and not user.users for user in node.users)


def computed_anew(nodes: Iterable[torch.fx.Node], computing: Container[Any]) -> set[torch.fx.Node]:
    """Return those of the nodes that are views for one of the kept operations.

    An operation that writes into a view does so from what the caller has (functionalization), by views that it computes
    once more. These are no work of the call that writes: vit_pytorch's CCT adds positions in place to a tensor that its
    tokenizer permuted.
    """
    return {node for node in nodes if node.meta.get(_OPERATION) in computing and _is_view(node)}


def passes_on(node: torch.fx.Node) -> bool:
    """Whether a node gives its one input as it is, such as the `detach` between the layers of a DETR decoder."""
    layouts = [_layout(each) for each in (node, *node.all_input_nodes)]
    return len(layouts) == 2 and layouts[0] is not None and layouts[0] == layouts[1] and _is_view(node)


def _layout(node: torch.fx.Node) -> tuple[Any, ...] | None:
    """Return how a node's tensor reads its memory; None where it is no single tensor."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return None
    sizes = (*value.shape, *value.stride(), value.storage_offset())
    return (value.dtype, value.is_conj(), value.is_neg(), *map(size_of, sizes))


def computing_operations(live: set[torch.fx.Node]) -> set[Any]:
    """Return the kept operations of the model that do more than to take a view."""
    nodes = (node for node in live if node.op == "call_function" and node.target is not operator.getitem)
    return {node.meta[_OPERATION] for node in nodes if _OPERATION in node.meta and not _is_view(node)}


def _is_view(node: torch.fx.Node) -> bool:
    """Whether a node gives a view of the memory of an input."""
    schema = getattr(node.target, "_schema", None)
    aliases = [argument.alias_info for argument in schema.arguments if argument.alias_info] if schema else []
    if aliases:
        return not any(alias.is_write for alias in aliases)
    # The last part of a `reshape` is a view of which its schema says nothing (neuralforecast's DilatedRNN).
    value, inputs = node.meta.get("val"), [source.meta.get("val") for source in node.all_input_nodes]
    strided = [each for each in (value, *inputs) if isinstance(each, torch.Tensor) and each.layout is torch.strided]
    is_alias_of: Any = torch._C._is_alias_of  # type: ignore[attr-defined]  # torch's stubs lack it
    return bool(strided) and strided[0] is value and any(is_alias_of(value, source) for source in strided[1:])
