"""Leaving a model exactly as it was found."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

__all__ = ["WAS_TRAINING", "as_found", "in_eval_mode", "replaced", "weights_as_found"]


WAS_TRAINING = "the model was in training mode; it was exported in eval mode"
"""What the user is told of a model for which :func:`in_eval_mode` gives true."""


@contextmanager
def as_found(model: torch.nn.Module) -> Iterator[None]:
    """Put every attribute of every module instance back when the context ends, also after an error.

    A forward pass may store what it computes on its modules; under a tracer that would be a tensor without
    storage, left in the user's model.
    """
    found = [(vars(module), _shallow(vars(module))) for module in model.modules()]
    try:
        yield
    finally:
        for attributes, before in found:
            _restore(attributes, before)


@contextmanager
def weights_as_found(model: torch.nn.Module) -> Iterator[None]:
    """Put every parameter back, and whether it wants a gradient; elements written in place stay as they are."""
    found = [(parameter, parameter.data, parameter.requires_grad) for parameter in model.parameters()]
    try:
        yield
    finally:
        for parameter, data, wants_gradient in found:
            parameter.data = data
            parameter.requires_grad_(wants_gradient)


def _shallow(attributes: dict[str, Any]) -> dict[str, Any]:
    """Copy an attribute dictionary and the containers in it, one level deep: parameters, buffers, hooks, caches."""
    return {
        name: (value, type(value)(value) if type(value) in _CONTAINERS else None) for name, value in attributes.items()
    }


_CONTAINERS: tuple[type, ...] = (dict, list, set, type(torch.nn.Module()._modules))


def _restore(attributes: dict[str, Any], before: dict[str, Any]) -> None:
    for name in attributes.keys() - before.keys():
        del attributes[name]
    for name, (value, content) in before.items():
        if attributes.get(name) is not value:
            attributes[name] = value
        if content is not None and not _same(value, content):
            value.clear()
            value.extend(content) if isinstance(value, list) else value.update(content)


def _same(value: Any, content: Any) -> bool:
    """Whether a container holds the very objects that it held; tensors have no plain equality."""
    if len(value) != len(content):
        return False
    if isinstance(value, dict):
        return all(a is b and value[a] is content[b] for a, b in zip(value, content, strict=True))
    return all(a is b for a, b in zip(value, content, strict=True))


@contextmanager
def in_eval_mode(model: torch.nn.Module) -> Iterator[bool]:
    """Run in eval mode; gives whether any module was in training mode. :func:`as_found` puts the flags back."""
    training = any(module.training for module in model.modules())
    if training:
        model.eval()
    yield training


@contextmanager
def replaced(holder: Any, name: str, value: Any) -> Iterator[None]:
    """Set an attribute while the context lasts."""
    original = getattr(holder, name)
    setattr(holder, name, value)
    try:
        yield
    finally:
        setattr(holder, name, original)
