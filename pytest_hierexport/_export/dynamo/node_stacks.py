"""Reads the module stacks of fx nodes, and writes those of other calls into their metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pytest_hierexport._export.dynamo.module_stacks import STACK

if TYPE_CHECKING:
    import torch

    from pytest_hierexport._export.dynamo.paths import Stack

_CUSTOM = "custom"  # the entry of a node's metadata that is meant for users of torch, and that torch's passes copy
_ALSO = "hierexport.also"  # the stacks of the dropped nodes with an equal value
_TAKER = "hierexport.taken"  # the stack of the call that took a view, in place of the node's own


def stacks(node: torch.fx.Node) -> tuple[Stack, ...]:
    """Return the stack of the call that a node belongs to, then those of dropped nodes with an equal value."""
    own: Stack = _custom(node).get(_TAKER) or node.meta.get(STACK) or {}
    return (own, *_custom(node).get(_ALSO, ()))


def add_stacks_of(removed: torch.fx.Node, kept: torch.fx.Node) -> None:
    """Add the stacks of a dropped node to those of a kept node with an equal value."""
    _write(kept, _ALSO, (*_custom(kept).get(_ALSO, ()), *stacks(removed)))


def set_taker(node: torch.fx.Node, stack: Stack) -> None:
    """Let a node that computes a view once more have the stack of the call that took the view."""
    _write(node, _TAKER, stack)


def _custom(node: torch.fx.Node) -> Mapping[str, Any]:
    return node.meta.get(_CUSTOM) or {}


def _write(node: torch.fx.Node, entry: str, value: Any) -> None:
    # Copies of a node share the mapping.
    node.meta[_CUSTOM] = {**_custom(node), entry: value}
