"""Builds encoder-decoder models."""

from __future__ import annotations

from typing import Any

import transformers

from pytest_hierexport._cases import Example
from pytest_hierexport._cases.zoo._inputs import ENCODER_DECODER, VOCABULARY, masked, padding, tiny, tokens

_TARGET_LENGTH = 7


def t5() -> Example:
    """One class for encoder and decoder, one embedding under three names, one bias table for all layers."""
    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "decoder_start_token_id": 0}
    # The fused attention's views cannot be decomposed.
    model = tiny(transformers.T5Model, **sizes, attn_implementation="eager")
    return masked(model, decoder_input_ids=tokens(_TARGET_LENGTH, seed=1))


def bart() -> Example:
    """Masks of encoder and decoder that an optimizer merges; attention of one class for self and cross."""
    sizes = {**ENCODER_DECODER, "vocab_size": VOCABULARY, "max_position_embeddings": 64}
    targets = {
        "decoder_input_ids": tokens(_TARGET_LENGTH, seed=1),
        "decoder_attention_mask": padding(_TARGET_LENGTH),
    }
    return masked(transformers.BartModel(transformers.BartConfig(**sizes, use_cache=False)), **targets)


def _translating(model_class: Any, **sizes: Any) -> Example:
    model = tiny(model_class, **{**ENCODER_DECODER, **sizes}, decoder_start_token_id=2)
    return masked(model, decoder_input_ids=tokens(_TARGET_LENGTH, seed=1))


def umt5() -> Example:
    """A bias table for each layer, where t5 shares one."""
    return _translating(transformers.UMT5ForConditionalGeneration, d_kv=8, d_ff=64, num_layers=2, num_heads=4)


def longt5() -> Example:
    """Attention in blocks beside their neighbours, which are cut from padded values."""
    return _translating(transformers.LongT5Model, d_kv=8, d_ff=64, num_layers=2, num_heads=4, local_radius=3)


def marian() -> Example:
    """Sinusoidal positions that fold into constants, and a bias on the logits."""
    return _translating(transformers.MarianMTModel)


def m2m_100() -> Example:
    """Positions counted from the token ids in encoder and decoder both."""
    return _translating(transformers.M2M100ForConditionalGeneration)


def pegasus() -> Example:
    """Norms before attention and network, and one after each stack."""
    return _translating(transformers.PegasusForConditionalGeneration)
