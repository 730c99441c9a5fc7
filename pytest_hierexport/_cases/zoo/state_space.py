"""Builds state space models, models with linear attention, and hybrids of these with attention."""

from __future__ import annotations

from typing import Any

import transformers

from pytest_hierexport._cases import Example
from pytest_hierexport._cases.zoo._inputs import masked, tiny, tokens


def _short(model_class: Any, **sizes: Any) -> Example:
    """Return a model with a few tokens: a scan is unrolled over them."""
    return Example(tiny(model_class, **sizes), kwargs={"input_ids": tokens(length=6)})


def mamba() -> Example:
    """A scan unrolled over the sequence: hundreds of similar operations in one module."""
    return _short(transformers.MambaModel, state_size=4)


def mamba2() -> Example:
    """A scan in chunks: a sum over segments in place of a loop over tokens."""
    sizes = {"state_size": 4, "num_heads": 4, "head_dim": 16, "n_groups": 1, "chunk_size": 4}
    return _short(transformers.Mamba2Model, **sizes)


def falcon_mamba() -> Example:
    """Norms without weights inside the scan's parameters."""
    return _short(transformers.FalconMambaModel, state_size=4)


def rwkv() -> Example:
    """Linear attention with a decay, token by token; each token mixed with the one before."""
    return _short(transformers.RwkvModel, attention_hidden_size=32, context_length=64)


def recurrent_gemma() -> Example:
    """Linear recurrences, two before each local attention."""
    sizes = {"lru_width": 32, "attention_window_size": 6, "num_hidden_layers": 3, "head_dim": 8}
    return masked(tiny(transformers.RecurrentGemmaModel, **sizes))


def lfm2() -> Example:
    """A gated short convolution in one layer, attention in the other."""
    return masked(tiny(transformers.Lfm2Model, layer_types=["conv", "full_attention"]))


def jamba() -> Example:
    """A scan, attention and experts in one model."""
    layers = {"attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2, "expert_layer_offset": 1}
    experts = {"num_experts": 4, "experts_implementation": "batched_mm"}
    return _short(transformers.JambaModel, **layers, **experts, mamba_d_state=4, mamba_dt_rank=4)
