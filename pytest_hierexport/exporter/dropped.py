"""What torch computes twice and drops once: a call whose result nobody reads is gone before there is an ONNX graph.

Where another call computes the very same, the value is in the graph all the same, and both calls gave it. So the
stacks of what is dropped are noted on what gives the same values and stays: a graph from which something is dropped
is run once on random numbers.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import math
import operator
from collections.abc import Callable, Container, Hashable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from pytest_hierexport.exporter.scopes import STACK, Stack

__all__ = ["noting_dropped", "stacks"]

_CUSTOM = "custom"  # the one entry of a node's metadata that torch hands on and leaves to others to fill
_ALSO = "hierexport.also"
_MOST_NUMBERS = 1 << 28  # in all values of a graph together; a larger one is not run


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
    tensors = {node: kind for node in dropped if (kind := _kind(node)) is not None}
    if not tensors:
        return
    varying = _varying(graph)
    lost = {node: kind for node, kind in tensors.items() if node in varying}
    kinds = set(lost.values())
    alike = [node for node in live & varying if _kind(node) in kinds] if kinds else []
    if not alike:
        return
    asked = {*lost, *alike}
    contents = _contents(graph, asked)
    survivors: dict[Hashable, torch.fx.Node] = {}
    for node in reversed(graph.nodes):
        if node in asked and node in live and node in contents:
            survivors.update(dict.fromkeys(_likenesses(node, contents), node))
    noted: set[tuple[torch.fx.Node, torch.fx.Node]] = set()
    for node in (node for node in lost if node in contents):
        survivor = _survivor(graph, node, contents, survivors)
        if survivor is not None:
            for pair in _pairs(node, survivor, live, contents, noted):
                _hand_over(*pair)


def _survivor(
    graph: torch.fx.Graph,
    node: torch.fx.Node,
    contents: Mapping[torch.fx.Node, Hashable],
    survivors: Mapping[Hashable, torch.fx.Node],
) -> torch.fx.Node | None:
    """Return what stays for a dropped node: of those that have most in common with it the first."""
    likenesses = list(_likenesses(node, contents))
    if survivors.keys().isdisjoint(likenesses):
        return None
    above = _needed(graph, {node}) - {node}
    if any(contents.get(other) == contents[node] for other in above):
        # It hands on what it was given: nothing but its very like does the same.
        likenesses = likenesses[:1]
    survivor = next((survivors[like] for like in likenesses if like in survivors), None)
    return None if survivor in above else survivor


def _pairs(
    node: torch.fx.Node,
    survivor: torch.fx.Node,
    live: Container[torch.fx.Node],
    contents: Mapping[torch.fx.Node, Hashable],
    noted: set[tuple[torch.fx.Node, torch.fx.Node]],
) -> Iterator[tuple[torch.fx.Node, torch.fx.Node]]:
    """Yield a dropped node with what stays for it, then what the two read likewise; no pair that is noted, and note it.

    Of several that give the same, each may have been the nearest to one node; what a call is said to have made has to
    hang together all the same.
    """
    at = [(node, survivor)]
    for lost, kept in at:
        if (lost, kept) in noted:
            continue
        noted.add((lost, kept))
        yield lost, kept
        # Of a list the parts that are taken are compared, and the two that give it are alike.
        taken = lost.target is operator.getitem
        for mine, other in zip(lost.all_input_nodes, kept.all_input_nodes, strict=False):
            alike = taken or (mine in contents and contents[mine] == contents.get(other))
            # What hands on what it was given did not make it.
            same = lost.target == kept.target and mine.target == other.target
            if alike and same and mine not in live and other in live:
                at.append((mine, other))


def _hand_over(node: torch.fx.Node, survivor: torch.fx.Node) -> None:
    custom = dict(survivor.meta.get(_CUSTOM) or {})
    custom[_ALSO] = (*custom.get(_ALSO, ()), *stacks(node))
    survivor.meta[_CUSTOM] = custom


def _likenesses(node: torch.fx.Node, contents: Mapping[torch.fx.Node, Hashable]) -> Iterator[tuple[Hashable, ...]]:
    """Yield what a node has in common with those that give the same, the closest first."""
    read = tuple(contents.get(source) for source in node.all_input_nodes)
    yield contents[node], node.target, read
    yield contents[node], node.target
    yield (contents[node],)


def _varying(graph: torch.fx.Graph) -> set[torch.fx.Node]:
    """The nodes that hang on an input or a parameter."""
    varying: set[torch.fx.Node] = set()
    for node in graph.nodes:
        if node.op == "placeholder" or any(source in varying for source in node.all_input_nodes):
            varying.add(node)
    return varying


def _kind(node: torch.fx.Node) -> Hashable | None:
    """Return what equal results have in common; None for what is no tensors of a call, or a single number."""
    if node.op != "call_function" or not node.meta.get(STACK):
        return None
    tensors = _tensors(node.meta.get("val"))
    shapes = [tuple(map(_number, tensor.shape)) for tensor in tensors]
    if any(None in shape or math.prod(shape) < 2 for shape in shapes):
        return None
    return tuple((tensor.dtype, shape) for tensor, shape in zip(tensors, shapes, strict=True)) or None


def _tensors(value: Any) -> tuple[torch.Tensor, ...]:
    """Return a tensor, or the tensors of a list; nothing for anything else."""
    parts = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    return parts if all(isinstance(part, torch.Tensor) for part in parts) else ()


def _contents(graph: torch.fx.Graph, asked: set[torch.fx.Node]) -> Mapping[torch.fx.Node, Hashable]:
    """Return what nodes give on random inputs: those asked for, and all that they are computed from."""
    needed = _needed(graph, asked)
    sizes = (_number(tensor.numel()) for node in needed for tensor in _tensors(node.meta.get("val")))
    # What hangs on the elements of another tensor has no size yet; of small random numbers it is small.
    if sum(size or 0 for size in sizes) > _MOST_NUMBERS:
        return {}
    contents: dict[torch.fx.Node, Hashable] = {}
    with torch._C.DisableTorchFunction(), _disable_current_modes(), torch.no_grad(), torch.random.fork_rng(devices=[]):
        for node, value in _run([node for node in graph.nodes if node in needed]):
            tensors = _tensors(value)
            if tensors and all(map(_tells, tensors)):
                contents[node] = tuple(map(_content, tensors))
    return contents


def _needed(graph: torch.fx.Graph, asked: set[torch.fx.Node]) -> set[torch.fx.Node]:
    needed = set(asked)
    for node in reversed(graph.nodes):
        if node in needed:
            needed.update(node.all_input_nodes)
    return needed


def _run(nodes: Sequence[torch.fx.Node]) -> Iterator[tuple[torch.fx.Node, Any]]:
    """Run what runs on plain numbers, node by node; a value is kept until its last reader has run."""
    random = torch.Generator().manual_seed(0)
    values: dict[torch.fx.Node, Any] = {}
    last = {source: node for node in nodes for source in node.all_input_nodes}
    for node in nodes:
        # What cannot run, or reads what could not, has no value.
        with contextlib.suppress(Exception):
            values[node] = _value(node, values, random)
            yield node, values[node]
        for source in node.all_input_nodes:
            if last[source] is node:
                values.pop(source, None)


def _value(node: torch.fx.Node, values: Mapping[torch.fx.Node, Any], random: torch.Generator) -> Any:
    if node.op == "placeholder":
        return _random(node.meta["val"], random)
    if node.op == "get_attr":
        return functools.reduce(getattr, str(node.target).split("."), node.graph.owning_module)
    function: Any = node.target
    if node.op != "call_function" or not _leaves_its_arguments(function):
        raise ValueError(f"{node} is no function of its inputs")
    # Laid out alike, equal tensors give equal ones to the last bit.
    args, kwargs = pytree.tree_map_only(
        torch.Tensor, torch.Tensor.contiguous, torch.fx.map_arg((node.args, dict(node.kwargs)), values.__getitem__)
    )
    given = function(*args, **kwargs)
    if _may_draw(function) and not _equal(given, function(*args, **kwargs)):
        raise ValueError(f"{node} draws random numbers")
    if any(tensor.is_floating_point() and tensor.isnan().any() for tensor in _tensors(given)):
        given = pytree.tree_map(functools.partial(_defined, (function, args, kwargs)), given)
    return given


def _defined(made_by: tuple[Any, ...], tensor: torch.Tensor) -> torch.Tensor:
    """Put numbers where an operator was given what it is not defined for: the same where it was given the same.

    Random numbers are no variances: without this a batch norm would leave nothing to compare behind it.
    """
    leaves = pytree.tree_leaves(made_by)
    parts = [_content(leaf) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
    digest = hashlib.sha256(repr(parts).encode()).digest()
    random = torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))
    return torch.where(tensor.isnan(), torch.randn(tensor.shape, generator=random).to(tensor.dtype), tensor)


def _leaves_its_arguments(function: Any) -> bool:
    """Whether an operator is known to leave its arguments as they are."""
    if not isinstance(function, torch._ops.OpOverload):
        return getattr(function, "__module__", None) == "_operator"
    return not function._schema.is_mutable


def _may_draw(function: Any) -> bool:
    """Whether an operator draws random numbers with some arguments; a dropout in eval mode does not."""
    return isinstance(function, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in function.tags


def _equal(one: Any, other: Any) -> bool:
    return list(map(_content, _tensors(one))) == list(map(_content, _tensors(other)))


def _random(like: Any, random: torch.Generator) -> Any:
    """Return random numbers of a tensor's type; small ones where they may count or choose something."""
    if not isinstance(like, torch.Tensor):
        return _number(like)
    shape = [_number(size) for size in like.shape]
    if like.is_floating_point():
        return torch.randn(shape, generator=random).to(like.dtype)
    return torch.randint(0, 2, shape, generator=random).to(like.dtype)


def _number(size: Any) -> Any:
    """Return a size as a number: that of the example where it is a symbol, None where it has none."""
    return size.node.hint if isinstance(size, torch.SymInt) else size


def _tells(value: torch.Tensor) -> bool:
    """Whether the numbers differ, so that equal ones were computed alike."""
    if value.dtype == torch.bool or value.numel() == 0 or value.isnan().any():
        return False
    return bool((value != value.flatten()[0]).any())


def _content(value: torch.Tensor) -> Hashable:
    numbers = value.detach().contiguous().flatten().view(torch.uint8).numpy()
    return value.dtype, tuple(value.shape), hashlib.sha256(numbers.tobytes()).digest()
