"""Copies a model and its inputs in another precision, to measure how far rounding moves its values.

    example      Linear in float16, and x in float16
    converted    Linear in float32 with the same numbers, and x in float32

Of the values of both runs, those at the same places are counterparts.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from pytest_hierexport._proof.tensors import walk

if TYPE_CHECKING:
    from pytest_hierexport._proof.eager import Runnable


@dataclass(frozen=True)
class Converted:
    """A model with its inputs, all floating tensors in one dtype."""

    model: torch.nn.Module
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


def tensors_of(example: Runnable) -> list[torch.Tensor]:
    """Return the tensors of a model and its inputs: parameters, buffers, and those in plain attributes."""
    # A module's own dictionary holds those of its parameters and buffers; the modules below it come by themselves.
    holders = [vars(module) for module in example.model.modules()]
    return [part for _, part in walk((*holders, example.args, example.kwargs)) if isinstance(part, torch.Tensor)]


def converted(example: Runnable, dtype: torch.dtype) -> Converted:
    """Return a copy of a model and its inputs with every floating tensor in a dtype."""
    tensors = {id(tensor): _converted(tensor, dtype) for tensor in tensors_of(example)}
    model, args, kwargs = copy.deepcopy((example.model, tuple(example.args), dict(example.kwargs)), tensors)
    return Converted(model, args, kwargs)


def _converted(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    found = tensor.detach().to(dtype) if tensor.is_floating_point() else tensor.detach()
    # A tensor of its own: a forward pass may write to it.
    found = found.clone() if found.data_ptr() == tensor.data_ptr() else found
    is_parameter = isinstance(tensor, torch.nn.Parameter)
    return torch.nn.Parameter(found, requires_grad=False) if is_parameter else found
