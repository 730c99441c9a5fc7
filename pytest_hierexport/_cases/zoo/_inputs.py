"""Makes small models, and example inputs: equal at every call, and with generic values."""

from __future__ import annotations

from typing import Any

import torch

from pytest_hierexport._cases import Example

VOCABULARY = 100
"""Size of the embedding table of every text model."""
LENGTH = 12
"""Tokens per row."""
# The configurations of the parts of a model with several: any layers, those of a text, and those of an image.
LAYERS: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
}
SIZES: dict[str, Any] = {**LAYERS, "vocab_size": VOCABULARY, "max_position_embeddings": 64}
"""The configuration of a text model, under the names that most models use."""
TEXT: dict[str, Any] = {**SIZES, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
PATCHES: dict[str, Any] = {**LAYERS, "image_size": 32, "patch_size": 8}
ENCODER_DECODER: dict[str, Any] = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
}
"""The configuration of an encoder and a decoder, under the names that most models use."""
_COMMON: dict[str, Any] = {**TEXT, **PATCHES, "num_key_value_heads": 2, "use_cache": False, "num_labels": 3}
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


def tiny(model_class: Any, **sizes: Any) -> Any:
    """Return a model of a transformers class, ready for inference, in the common sizes where none are stated."""
    return model_class(model_class.config_class(**{**_COMMON, **sizes})).eval()


def masked(model: Any, **inputs: torch.Tensor) -> Example:
    """Return a text model with token ids, an attention mask and further inputs."""
    return Example(model.eval(), kwargs={"input_ids": tokens(), "attention_mask": padding(), **inputs})


def images(model: Any, **inputs: torch.Tensor) -> Example:
    """Return a model with square images of three channels and further inputs."""
    size = PATCHES["image_size"]
    return Example(model.eval(), kwargs={"pixel_values": numbers(_BATCH, 3, size, size), **inputs})


def dynamic(example: Example, **most: int | None) -> Example:
    """Return the example with the first axes of all inputs dynamic: their names, and the largest size of each."""
    dimensions = {axis: torch.export.Dim(name, max=size) for axis, (name, size) in enumerate(most.items())}
    example.dynamic_shapes = dict.fromkeys(example.kwargs, dimensions)
    return example


def cast(example: Example, dtype: torch.dtype) -> Example:
    """Return the example with weights and floating inputs of another dtype."""
    example.model.to(dtype)
    example.kwargs = {
        name: value.to(dtype) if value.is_floating_point() else value for name, value in example.kwargs.items()
    }
    return example


def numbers(*shape: int, seed: int = 0) -> torch.Tensor:
    """Return normally distributed numbers, float32."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))
