"""Runs nodes of an fx graph on random numbers, to find nodes with equal values.

    x  placeholder            random numbers
    a = aten.linear(x, w)     computed       content of a: (float32, shape, SHA-256 of the elements)
    b = aten.linear(x, w)     computed       content of b: equal to that of a

An operator that fails on random numbers gets random numbers as its value too (a stand-in). They depend on the operator
and its inputs alone, so equal nodes get equal stand-ins.

The nodes run on two draws of random numbers, and the content is the pair. The first has floats of the size that weights
usually have. On it `x.clamp(-100, 100)` equals `x`, and the tables of positions of beit's two layers are equal. The
second has large floats and a few more integers. It has no stand-ins: a node that fails on it, has NaN there, or a size
that depends on elements is known by the first draw alone. Operations that differ on none of these numbers still count
as equal: a clamp to 10,000, `i % 5` and `i`.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

_MOST_ELEMENTS = 1 << 29  # of all values of a trial run together (mask2former: 390 million); a larger run is skipped


@dataclass(frozen=True)
class _Draw:
    """Which random numbers the graph's inputs get."""

    scale: float
    """The standard deviation of floats."""
    keeps_size: bool
    """Whether floats are divided by the root of a row's length, as weights are initialized.

    Behind layers whose values grow, an attention returns its input: the results of two attentions would be equal.
    """
    integers: int
    """How many integers there are, from 0."""
    has_stand_ins: bool


_FIRST = _Draw(scale=1, keeps_size=True, integers=2, has_stand_ins=True)
_SECOND = _Draw(scale=1000, keeps_size=False, integers=5, has_stand_ins=False)


def tensors_of(value: Any) -> tuple[torch.Tensor, ...]:
    """Return the tensors of a tensor or a list of tensors; none for any other value."""
    parts = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    return parts if all(isinstance(part, torch.Tensor) for part in parts) else ()


def contents_of(graph: torch.fx.Graph, nodes: set[torch.fx.Node]) -> Mapping[torch.fx.Node, Hashable]:
    """Return the contents of nodes, and of the nodes that they depend on, on random inputs.

    A node whose value cannot be computed, or says nothing, has no content.
    """
    needed = needed_for(graph, nodes)
    sizes = (size_of(tensor.numel()) for node in needed for tensor in tensors_of(node.meta.get("val")))
    # A size that depends on a tensor's elements is not known yet. It will be small: the random integers are.
    if sum(size or 0 for size in sizes) > _MOST_ELEMENTS:
        return {}
    with contextlib.ExitStack() as stack:
        for context in (torch._C.DisableTorchFunction(), _disable_current_modes(), torch.no_grad(), _memory_filled()):
            stack.enter_context(context)
        stack.enter_context(torch.random.fork_rng(devices=[]))
        ordered = [node for node in graph.nodes if node in needed]
        first, second = [dict(_contents(ordered, draw)) for draw in (_FIRST, _SECOND)]
    return {node: (content, second.get(node)) for node, content in first.items()}


@contextlib.contextmanager
def _memory_filled() -> Iterator[None]:
    """Make torch fill uninitialised memory (`new_empty`), whose contents would differ from run to run."""
    mode = torch.get_deterministic_debug_mode()
    torch.set_deterministic_debug_mode("warn")
    try:
        yield
    finally:
        torch.set_deterministic_debug_mode(mode)


def needed_for(graph: torch.fx.Graph, nodes: set[torch.fx.Node]) -> set[torch.fx.Node]:
    """Return nodes, and all nodes that they depend on."""
    needed = set(nodes)
    for node in reversed(graph.nodes):
        if node in needed:
            needed.update(node.all_input_nodes)
    return needed


def _contents(nodes: Sequence[torch.fx.Node], draw: _Draw) -> Iterator[tuple[torch.fx.Node, Hashable]]:
    """Run nodes in order and yield each with its content; a value is freed when its last consumer has run."""
    random = torch.Generator().manual_seed(0)
    values: dict[torch.fx.Node, Any] = {}
    last = {source: node for node in nodes for source in node.all_input_nodes}
    for node in nodes:
        # A node that fails has no value: a trial run must not make an export fail.
        # Kernels differ by strides: with equal strides, equal tensors give results that are equal to the last bit.
        with contextlib.suppress(Exception):
            value = _value(node, values, random, draw)
            values[node] = pytree.tree_map_only(torch.Tensor, torch.Tensor.contiguous, value)
        tensors = tensors_of(values.get(node))
        if tensors and all(map(_is_distinctive, tensors)):
            yield node, tuple(map(_content, tensors))
        for source in node.all_input_nodes:
            if last[source] is node:
                values.pop(source, None)


class _NoValueError(Exception):
    """A node's value cannot be computed."""


@dataclass(frozen=True)
class _Unknown:
    """The unknown value of a node; equal only to itself."""

    node: str


def _value(node: torch.fx.Node, values: Mapping[torch.fx.Node, Any], random: torch.Generator, draw: _Draw) -> Any:
    """Return the value of a node, or stand-ins for it.

    Raises:
        _NoValueError: It has neither.
    """
    if node.op == "placeholder":
        return _random(node.meta["val"], random, draw)
    if node.op == "get_attr":
        return reduce(getattr, str(node.target).split("."), node.graph.owning_module)
    function: Any = node.target
    # The value of an operator of torch or Python depends on its arguments alone.
    is_operator = isinstance(function, torch._ops.OpOverload) or getattr(function, "__module__", None) == "_operator"
    if node.op != "call_function" or not is_operator:
        raise _NoValueError
    if not draw.has_stand_ins and not _are_known_sizes(node.meta.get("val")):
        raise _NoValueError
    args, kwargs = torch.fx.map_arg(
        (node.args, dict(node.kwargs)), lambda source: values.get(source, _Unknown(source.name))
    )
    try:
        value = _computed(function, args, kwargs)
    except _NoValueError:
        raise
    except Exception:  # noqa: BLE001 a random number may be no valid index or size: any operator may refuse it
        return _stand_ins((function, args, kwargs), node.meta.get("val"), draw)
    if draw.has_stand_ins and any(tensor.is_floating_point() and tensor.isnan().any() for tensor in tensors_of(value)):
        value = pytree.tree_map(partial(_without_nan, (function, args, kwargs)), value)
    return value


def _are_known_sizes(like: Any) -> bool:
    """Whether no size of a node's fake tensors depends on elements."""
    return all(size_of(size) is not None for tensor in tensors_of(like) for size in tensor.shape)


def _computed(function: Any, args: Any, kwargs: Any) -> Any:
    if not isinstance(function, torch._ops.OpOverload):
        return function(*args, **kwargs)
    if function._schema.is_mutable:
        return _computed_on_copies(function, args, kwargs)
    value = function(*args, **kwargs)
    # Two runs: a dropout has this tag also in eval mode, where it is deterministic.
    if torch.Tag.nondeterministic_seeded in function.tags and not _equal(value, function(*args, **kwargs)):
        raise _NoValueError
    return value


def _computed_on_copies(function: Any, args: Any, kwargs: Any) -> Any:
    """Return the value of an operator that may write to its arguments.

    Raises:
        _NoValueError: It did write to one: the graph's later nodes would need the new elements.
    """
    copied = pytree.tree_map_only(torch.Tensor, torch.Tensor.clone, (args, kwargs))
    value = function(*copied[0], **copied[1])
    pairs = zip(pytree.tree_leaves((args, kwargs)), pytree.tree_leaves(copied), strict=True)
    if not all(_equal(before, after) for before, after in pairs):
        raise _NoValueError
    return value


def _without_nan(operation: tuple[Any, ...], tensor: torch.Tensor) -> torch.Tensor:
    """Replace NaN by random numbers.

    A batch norm gives NaN for a random, negative variance; without this, no value after it could be compared.
    """
    numbers = torch.randn(tensor.shape, generator=_seeded(operation)).to(tensor.dtype)
    return torch.where(tensor.isnan(), numbers, tensor)


def _stand_ins(operation: tuple[Any, ...], like: Any, draw: _Draw) -> Any:
    """Return random tensors with the types and shapes of a node's fake tensors."""
    if not (draw.has_stand_ins and tensors_of(like) and _are_known_sizes(like)):
        raise _NoValueError
    return pytree.tree_map(partial(_random, random=_seeded(operation), draw=draw), like)


def _seeded(operation: tuple[Any, ...]) -> torch.Generator:
    """Return a generator whose seed depends only on an operator and its inputs."""
    leaves = pytree.tree_leaves(operation)
    parts = [_content(leaf) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
    digest = hashlib.sha256(repr(parts).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))


def _equal(one: Any, other: Any) -> bool:
    return list(map(_content, tensors_of(one))) == list(map(_content, tensors_of(other)))


def _random(like: Any, random: torch.Generator, draw: _Draw) -> Any:
    """Return random numbers of a tensor's type and shape; integers are small, since they may be indices or sizes."""
    if not isinstance(like, torch.Tensor):
        return size_of(like)
    shape = [size_of(size) for size in like.shape]
    if like.is_floating_point():
        row = math.prod(shape[1:]) if draw.keeps_size else 1
        return torch.randn(shape, generator=random).mul_(draw.scale / math.sqrt(max(row, 1))).to(like.dtype)
    return torch.randint(0, draw.integers, shape, generator=random).to(like.dtype)


def size_of(size: Any) -> Any:
    """Return a size as a number; for a symbolic size its value in the example, None if that is unknown."""
    return size.node.hint if isinstance(size, torch.SymInt) else size


def _is_distinctive(value: torch.Tensor) -> bool:
    """Whether the elements differ from each other, so that two tensors are not equal by accident."""
    if value.dtype == torch.bool or value.numel() == 0 or value.isnan().any():
        return False
    elements = value.flatten()
    # Mostly the first few differ.
    return any(bool((part != elements[0]).any()) for part in (elements[:100], elements))


def _content(value: torch.Tensor) -> Hashable:
    # The bytes of a conjugate or negative view are those of its base (neuralforecast's Autoformer).
    numbers = value.detach().resolve_conj().resolve_neg().contiguous().flatten().view(torch.uint8).numpy()
    return value.dtype, tuple(value.shape), hashlib.sha256(numbers.data).digest()
