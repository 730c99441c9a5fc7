"""Builds text decoders, without caches."""

from __future__ import annotations

from typing import Any

from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
    Qwen3Config,
    Qwen3Model,
)

from pytest_hierexport._cases import Example
from pytest_hierexport._cases.zoo._inputs import SIZES, VOCABULARY, masked

_SPECIAL_TOKENS: dict[str, Any] = {"bos_token_id": 1, "eos_token_id": 2, "use_cache": False}
_SIZES: dict[str, Any] = {**SIZES, **_SPECIAL_TOKENS, "num_key_value_heads": 2, "pad_token_id": 0}


def gpt2() -> Example:
    """A joint projection that is split at once into query, key and value; a head tied to the embedding."""
    config = GPT2Config(vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=4, n_positions=64, **_SPECIAL_TOKENS)
    return masked(GPT2LMHeadModel(config))


def llama() -> Example:
    """Rotary tables computed under a disabled autocast and passed to every layer; grouped heads."""
    return masked(LlamaForCausalLM(LlamaConfig(**_SIZES)))


def qwen3() -> Example:
    """Norms inside the attention, heads wider than the hidden size implies; no head on top."""
    return masked(Qwen3Model(Qwen3Config(**_SIZES, head_dim=16)))


def gemma3() -> Example:
    """Attention in a sliding window, with its own mask; a scaled embedding."""
    # One kind alone: with several, the model's forward iterates over a set, whose order differs by process.
    kinds = ["sliding_attention"] * 3
    sizes = {**_SIZES, "num_hidden_layers": len(kinds)}
    config = Gemma3TextConfig(**sizes, head_dim=8, sliding_window=6, layer_types=kinds)
    return masked(Gemma3ForCausalLM(config))


def mixtral() -> Example:
    """A mixture of experts: tokens routed by value, weights of all experts in one tensor."""
    # The other implementations loop over the routed experts, or need a kernel that ONNX lacks.
    config = MixtralConfig(**_SIZES, num_local_experts=4, num_experts_per_tok=2, experts_implementation="batched_mm")
    return masked(MixtralForCausalLM(config))
