"""Makes example inputs: equal at every call, and with generic values."""

from __future__ import annotations

import torch

__all__ = ["LENGTH", "VOCABULARY", "numbers", "padding", "tokens"]

VOCABULARY = 100
"""Size of the embedding table of every text model."""
LENGTH = 12
"""Tokens per row."""
_BATCH = 2


def tokens(length: int = LENGTH, seed: int = 0) -> torch.Tensor:
    """Return token ids, int64 `[2, length]`; without the lowest ids, which have special meanings."""
    return torch.randint(5, VOCABULARY, (_BATCH, length), generator=torch.Generator().manual_seed(seed))


def padding(length: int = LENGTH) -> torch.Tensor:
    """Return an attention mask, int64 `[2, length]`, that hides the end of the second row.

    A mask of ones would hide an error in the mask as well.
    """
    mask = torch.ones(_BATCH, length, dtype=torch.int64)
    mask[1, -length // 3 :] = 0
    return mask


def numbers(*shape: int, seed: int = 0) -> torch.Tensor:
    """Return normally distributed numbers, float32."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))
