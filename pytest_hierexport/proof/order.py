"""Results whose order an operation leaves open, in a definite one.

Some operations promise no order among equal elements, or none at all, unless they are asked to: PyTorch's by an
argument, ONNX's by an attribute, `sorted` or `stable`. Left open, PyTorch and ONNX Runtime give different orders, both
of them right. Asked for, the order is the same. Which of several equals are among the first `k` PyTorch leaves open
even then; ONNX says that the earlier are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import onnx
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from pytest_hierexport.graph import walk_proto

__all__ = ["in_definite_order"]

_ASKS = frozenset({"sorted", "stable"})
"""What an argument or an attribute that asks for a definite order is called."""
_FIRST_OF_AN_ORDER = frozenset({"dim", "largest", "sorted"})
"""The arguments, behind the elements and how many, of an operation that gives the first of an order, and where."""


@contextmanager
def in_definite_order(proto: onnx.ModelProto) -> Iterator[None]:
    """Ask for a definite order in a graph, and of every operation that PyTorch runs, while the context lasts."""
    open_ones = [
        attribute
        for _, node in walk_proto(proto)
        for attribute in node.attribute
        if attribute.name in _ASKS and attribute.type == onnx.AttributeProto.INT and not attribute.i
    ]
    for attribute in open_ones:
        attribute.i = 1
    try:
        with _Asking():  # type: ignore[no-untyped-call]  # torch does not annotate its modes
            yield
    finally:
        for attribute in open_ones:
            attribute.i = 0


class _Asking(TorchDispatchMode):
    supports_higher_order_operators = True

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = dict(kwargs or {})
        asking = _asking(func) if isinstance(func, torch._ops.OpOverload) else None
        if asking is None:
            return func(*args, **given)
        named = dict(zip((argument.name for argument in func._schema.arguments), args, strict=False))
        overload, asks = asking
        stated = {**_defaults(overload), **named, **given, **dict.fromkeys(asks, True)}
        if stated.keys() > _FIRST_OF_AN_ORDER:
            elements, count = (stated[argument.name] for argument in overload._schema.arguments[:2])
            return _first(elements, count, stated["dim"], largest=stated["largest"])
        return overload(**stated)


def _first(elements: torch.Tensor, count: int, dim: int, *, largest: bool) -> tuple[torch.Tensor, ...]:
    """Return the first elements of an order with their places, of equals the earlier."""
    if not elements.dim():
        return elements.clone(), torch.zeros_like(elements, dtype=torch.int64)
    ordered = elements.sort(dim=dim, descending=largest, stable=True)
    return tuple(part.narrow(dim, 0, count) for part in ordered)


@cache
def _defaults(overload: torch._ops.OpOverload) -> Mapping[str, Any]:
    stated = overload._schema.arguments
    return {argument.name: argument.default_value for argument in stated if argument.has_default_value()}


@cache
def _asking(overload: torch._ops.OpOverload) -> tuple[torch._ops.OpOverload, frozenset[str]] | None:
    """Return the overload of an operation that can be asked for a definite order, with the arguments that ask.

    It takes the same arguments otherwise. None where there is no such.
    """
    taken = {argument.name for argument in overload._schema.arguments}
    packet = overload.overloadpacket
    for other in (overload, *(getattr(packet, name) for name in packet.overloads())):
        names = {argument.name for argument in other._schema.arguments}
        if names & _ASKS and names - _ASKS == taken - _ASKS:
            return other, frozenset(names & _ASKS)
    return None
