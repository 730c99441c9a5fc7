"""Gives a model other inputs of the same types and shapes, on which equal inputs become different."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from pytest_hierexport._cases import Example

if TYPE_CHECKING:
    import torch

    from pytest_hierexport._proof.eager import Runnable


def on_other_inputs(example: Runnable) -> Example:
    """Return the model of an example with other inputs, the same ones in each run.

    To floating numbers, a random number between 0 and 1 is added. The elements of other tensors are rotated: any
    integer may be an index, so it stays within the range of the tensor. One tensor in several places stays one, since
    torch may have captured it as one.
    """
    import torch

    from pytest_hierexport._proof.tensors import walk

    inputs = (tuple(example.args), dict(example.kwargs))
    tensors = {id(part): part for _, part in walk(inputs) if isinstance(part, torch.Tensor)}
    random = torch.Generator().manual_seed(0)
    others = {key: _changed(tensor, i, random) for i, (key, tensor) in enumerate(tensors.items(), start=1)}
    args, kwargs = copy.deepcopy(inputs, others)
    return Example(example.model, args, kwargs)


def _changed(tensor: torch.Tensor, steps: int, random: torch.Generator) -> torch.Tensor:
    import torch

    from pytest_hierexport._proof.tensors import has_elements

    tensor = tensor.detach()
    if not has_elements(tensor) or tensor.is_quantized:
        return tensor.clone()
    if not tensor.is_floating_point():
        return tensor.flatten().roll(steps).reshape(tensor.shape)
    added = torch.rand(tensor.shape, generator=random)
    return (tensor.cpu().double() + added).to(tensor.device, tensor.dtype)
