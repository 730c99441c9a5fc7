"""Runs nodes of an fx graph on random numbers, to find those that give equal values."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

_MOST_NUMBERS = 1 << 28  # in all values of a graph together; a larger one is not run


def tensors_of(value: Any) -> tuple[torch.Tensor, ...]:
    """Return a tensor, or the tensors of a list; nothing for anything else."""
    parts = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    return parts if all(isinstance(part, torch.Tensor) for part in parts) else ()


def contents_of(graph: torch.fx.Graph, asked: set[torch.fx.Node]) -> Mapping[torch.fx.Node, Hashable]:
    """Return what nodes give on random inputs: those asked for, and all that they are computed from."""
    needed = needed_for(graph, asked)
    sizes = (size_of(tensor.numel()) for node in needed for tensor in tensors_of(node.meta.get("val")))
    # A size that depends on the elements of another tensor is unknown yet; for small random numbers it is small.
    if sum(size or 0 for size in sizes) > _MOST_NUMBERS:
        return {}
    contents: dict[torch.fx.Node, Hashable] = {}
    with contextlib.ExitStack() as stack:
        for context in (torch._C.DisableTorchFunction(), _disable_current_modes(), torch.no_grad(), _memory_filled()):
            stack.enter_context(context)
        stack.enter_context(torch.random.fork_rng(devices=[]))
        for node, value in _run([node for node in graph.nodes if node in needed]):
            tensors = tensors_of(value)
            if tensors and all(map(_tells, tensors)):
                contents[node] = tuple(map(_content, tensors))
    return contents


@contextlib.contextmanager
def _memory_filled() -> Iterator[None]:
    """Have torch fill memory that an operator leaves as it is (`new_empty`): else each run finds other contents."""
    mode = torch.get_deterministic_debug_mode()
    torch.set_deterministic_debug_mode("warn")
    try:
        yield
    finally:
        torch.set_deterministic_debug_mode(mode)


def needed_for(graph: torch.fx.Graph, asked: set[torch.fx.Node]) -> set[torch.fx.Node]:
    """Return nodes with all that they are computed from."""
    needed = set(asked)
    for node in reversed(graph.nodes):
        if node in needed:
            needed.update(node.all_input_nodes)
    return needed


def _run(nodes: Sequence[torch.fx.Node]) -> Iterator[tuple[torch.fx.Node, Any]]:
    """Run nodes on plain numbers, one by one; a value is kept until its last consumer has run."""
    random = torch.Generator().manual_seed(0)
    values: dict[torch.fx.Node, Any] = {}
    last = {source: node for node in nodes for source in node.all_input_nodes}
    for node in nodes:
        # What cannot be tried has no value: an export never fails for it.
        with contextlib.suppress(Exception):
            values[node] = _value(node, values, random)
            yield node, values[node]
        for source in node.all_input_nodes:
            if last[source] is node:
                values.pop(source, None)


class _NoValueError(Exception):
    """Nothing is known of what a node gives."""


@dataclass(frozen=True)
class _Unknown:
    """What a node gives of which nothing is known: it equals itself alone."""

    node: str


def _value(node: torch.fx.Node, values: Mapping[torch.fx.Node, Any], random: torch.Generator) -> Any:
    """Return the value of a node, or stand-ins: the same ones for the same operation on the same values."""
    if node.op == "placeholder":
        return _random(node.meta["val"], random)
    if node.op == "get_attr":
        return _attribute(node)
    function: Any = node.target
    if node.op != "call_function" or not _is_operator(function):
        raise _NoValueError
    args, kwargs = torch.fx.map_arg(
        (node.args, dict(node.kwargs)), lambda source: values.get(source, _Unknown(source.name))
    )
    try:
        given = _computed(function, args, kwargs)
    except _NoValueError:
        raise
    except Exception:  # noqa: BLE001 random numbers are no sizes, and what comes of them may fit nothing
        return _stand_ins((function, args, kwargs), node.meta.get("val"))
    if any(tensor.is_floating_point() and tensor.isnan().any() for tensor in tensors_of(given)):
        given = pytree.tree_map(partial(_defined, (function, args, kwargs)), given)
    return given


def _attribute(node: torch.fx.Node) -> Any:
    """Return a constant of the graph; where torch holds it elsewhere by now, what stands for it."""
    try:
        return reduce(getattr, str(node.target).split("."), node.graph.owning_module)
    except AttributeError:
        return _stand_ins((node.target,), node.meta.get("val"))


def _computed(function: Any, args: Any, kwargs: Any) -> Any:
    # With the same strides, equal tensors give results that are equal to the last bit.
    args, kwargs = pytree.tree_map_only(torch.Tensor, torch.Tensor.contiguous, (args, kwargs))
    if not isinstance(function, torch._ops.OpOverload):
        return function(*args, **kwargs)
    if function._schema.is_mutable:
        return _changing_nothing(function, args, kwargs)
    given = function(*args, **kwargs)
    # A dropout in eval mode draws nothing.
    if torch.Tag.nondeterministic_seeded in function.tags and not _equal(given, function(*args, **kwargs)):
        raise _NoValueError
    return given


def _changing_nothing(function: Any, args: Any, kwargs: Any) -> Any:
    """Return what an operator gives that may change its arguments, and leaves them as they are."""
    copied = pytree.tree_map_only(torch.Tensor, torch.Tensor.clone, (args, kwargs))
    given = function(*copied[0], **copied[1])
    pairs = zip(pytree.tree_leaves((args, kwargs)), pytree.tree_leaves(copied), strict=True)
    if not all(_equal(before, after) for before, after in pairs):
        raise _NoValueError
    return given


def _is_operator(function: Any) -> bool:
    """Whether it is one of torch's operators or of Python's, of which the arguments say all."""
    return isinstance(function, torch._ops.OpOverload) or getattr(function, "__module__", None) == "_operator"


def _defined(made_by: tuple[Any, ...], tensor: torch.Tensor) -> torch.Tensor:
    """Put numbers where an operator was given what it is not defined for.

    Random numbers are no variances: without this a batch norm would leave nothing to compare behind it.
    """
    numbers = torch.randn(tensor.shape, generator=_seeded(made_by)).to(tensor.dtype)
    return torch.where(tensor.isnan(), numbers, tensor)


def _stand_ins(made_by: tuple[Any, ...], like: Any) -> Any:
    """Return random tensors of the types that a node gives."""
    tensors = tensors_of(like)
    if not tensors or any(size_of(size) is None for tensor in tensors for size in tensor.shape):
        raise _NoValueError
    return pytree.tree_map(partial(_random, random=_seeded(made_by)), like)


def _seeded(made_by: tuple[Any, ...]) -> torch.Generator:
    """Return a generator that depends only on the operation and the inputs of a value."""
    leaves = pytree.tree_leaves(made_by)
    parts = [_content(leaf) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
    digest = hashlib.sha256(repr(parts).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))


def _equal(one: Any, other: Any) -> bool:
    return list(map(_content, tensors_of(one))) == list(map(_content, tensors_of(other)))


def _random(like: Any, random: torch.Generator) -> Any:
    """Return random numbers of a tensor's type; small ones where they may count or choose something."""
    if not isinstance(like, torch.Tensor):
        return size_of(like)
    shape = [size_of(size) for size in like.shape]
    if like.is_floating_point():
        return torch.randn(shape, generator=random).to(like.dtype)
    return torch.randint(0, 2, shape, generator=random).to(like.dtype)


def size_of(size: Any) -> Any:
    """Return a size as a number: that of the example where it is a symbol, None where it has none."""
    return size.node.hint if isinstance(size, torch.SymInt) else size


def _tells(value: torch.Tensor) -> bool:
    """Whether the numbers differ among each other, so that equal tensors are no accident."""
    if value.dtype == torch.bool or value.numel() == 0 or value.isnan().any():
        return False
    return bool((value != value.flatten()[0]).any())


def _content(value: torch.Tensor) -> Hashable:
    numbers = value.detach().contiguous().flatten().view(torch.uint8).numpy()
    return value.dtype, tuple(value.shape), hashlib.sha256(numbers.tobytes()).digest()
