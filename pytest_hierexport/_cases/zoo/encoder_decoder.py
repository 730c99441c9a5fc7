"""Builds encoder-decoder models."""

from __future__ import annotations

from transformers import BartConfig, BartModel, T5Config, T5Model

from pytest_hierexport._cases import Example
from pytest_hierexport._cases.zoo._inputs import VOCABULARY, masked, padding, tokens

_TARGET_LENGTH = 7


def t5() -> Example:
    """One class for encoder and decoder, one embedding under three names, one bias table for all layers."""
    config = T5Config(
        vocab_size=VOCABULARY,
        d_model=32,
        d_kv=8,
        d_ff=64,
        num_layers=2,
        num_heads=4,
        decoder_start_token_id=0,
        use_cache=False,
        attn_implementation="eager",  # the fused attention's views cannot be decomposed
    )
    return masked(T5Model(config), decoder_input_ids=tokens(_TARGET_LENGTH, seed=1))


def bart() -> Example:
    """Masks of encoder and decoder that an optimizer merges; attention of one class for self and cross."""
    config = BartConfig(
        vocab_size=VOCABULARY,
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        max_position_embeddings=64,
        use_cache=False,
    )
    targets = {
        "decoder_input_ids": tokens(_TARGET_LENGTH, seed=1),
        "decoder_attention_mask": padding(_TARGET_LENGTH),
    }
    return masked(BartModel(config), **targets)
