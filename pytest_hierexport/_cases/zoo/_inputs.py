"""Makes example inputs: equal at every call, and with generic values; gives the sizes that models share."""

from __future__ import annotations

from typing import Any

import torch

from pytest_hierexport._cases import Example

__all__ = ["LENGTH", "SIZES", "VOCABULARY", "masked", "numbers", "padding", "tokens"]

VOCABULARY = 100
"""Size of the embedding table of every text model."""
LENGTH = 12
"""Tokens per row."""
SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
}
"""The configuration of a text model, under the names that most models use."""
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


def masked(model: Any, **inputs: torch.Tensor) -> Example:
    """Return a text model with token ids, an attention mask and further inputs."""
    return Example(model.eval(), kwargs={"input_ids": tokens(), "attention_mask": padding(), **inputs})


def numbers(*shape: int, seed: int = 0) -> torch.Tensor:
    """Return normally distributed numbers, float32."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))
