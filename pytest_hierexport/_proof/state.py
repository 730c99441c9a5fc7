"""Digests the state of a model, so that two processes can tell whether they compute with the same."""

from __future__ import annotations

import hashlib

import torch

from pytest_hierexport._proof.eager import Runnable
from pytest_hierexport._proof.tensors import array_of, has_elements, walk

__all__ = ["state_digest"]


def state_digest(example: Runnable) -> str:
    """Return the SHA-256 of every parameter, buffer and example input: name, dtype, shape and elements."""
    summed = hashlib.sha256()
    inputs = walk((tuple(example.args), dict(example.kwargs)), "input")
    for name, part in (*example.model.named_parameters(), *example.model.named_buffers(), *inputs):
        tensor = part if isinstance(part, torch.Tensor) else torch.tensor(part)
        summed.update(f"{name}\0{tensor.dtype}\0{tuple(tensor.shape)}\0".encode("utf-8", "surrogatepass"))
        summed.update(array_of(tensor).tobytes() if has_elements(tensor) else b"")
    return summed.hexdigest()
