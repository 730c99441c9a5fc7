"""Digests the state of a model, so that two processes can tell whether they compute with the same."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import torch

from pytest_hierexport._proof.eager import Runnable
from pytest_hierexport._proof.tensors import walk

__all__ = ["state_digest"]


def state_digest(example: Runnable) -> str:
    """Return the SHA-256 of every parameter, buffer and example input: name, dtype, shape and elements."""
    summed = hashlib.sha256()
    for name, tensor in _tensors(example):
        summed.update(f"{name}\0{tensor.dtype}\0{tuple(tensor.shape)}\0".encode("utf-8", "surrogatepass"))
        summed.update(_elements(tensor))
    return summed.hexdigest()


def _tensors(example: Runnable) -> Iterator[tuple[str, torch.Tensor]]:
    yield from example.model.named_parameters()
    yield from example.model.named_buffers()
    for place, part in walk((tuple(example.args), dict(example.kwargs)), "input"):
        yield place, part if isinstance(part, torch.Tensor) else torch.tensor(part)


def _elements(tensor: torch.Tensor) -> bytes:
    """Return a tensor's elements; nothing where it has no strided elements to read."""
    if tensor.layout is not torch.strided or tensor.is_meta or tensor.is_quantized or tensor.is_nested:
        return b""
    plain = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    return plain.reshape(-1).view(torch.uint8).numpy().tobytes()
