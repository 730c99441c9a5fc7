"""Builds text decoders, without caches."""

from __future__ import annotations

import torch
import transformers

from pytest_hierexport._cases import Example
from pytest_hierexport._cases.zoo._inputs import SIZES, cast, dynamic, masked, tiny


def gpt2() -> Example:
    """A joint projection that is split at once into query, key and value; a head tied to the embedding."""
    return masked(tiny(transformers.GPT2LMHeadModel, n_embd=32, n_layer=2, n_head=4, n_positions=64))


def llama() -> Example:
    """Rotary tables computed under a disabled autocast and passed to every layer; grouped heads."""
    return masked(tiny(transformers.LlamaForCausalLM))


def qwen3() -> Example:
    """Norms inside the attention, heads wider than the hidden size implies; no head on top."""
    return masked(tiny(transformers.Qwen3Model, head_dim=16))


def gemma3() -> Example:
    """Attention in a sliding window, with its own mask; a scaled embedding."""
    # One kind alone: with several, the model's forward iterates over a set, whose order differs by process.
    kinds = ["sliding_attention"] * 3
    sizes = {"num_hidden_layers": len(kinds), "head_dim": 8, "sliding_window": 6}
    return masked(tiny(transformers.Gemma3ForCausalLM, **sizes, layer_types=kinds))


def llama_dynamic() -> Example:
    """Dynamic shapes in a decoder: a causal mask and rotary tables of a length that is known at run time."""
    return dynamic(llama(), batch=None, length=SIZES["max_position_embeddings"])


def llama_bfloat16() -> Example:
    """Weights in bfloat16, norms and rotary tables in float32: casts at each border."""
    return cast(llama(), torch.bfloat16)


def llama_classifier() -> Example:
    """A head on the last token that is not padding: a place computed from the token ids."""
    return masked(tiny(transformers.LlamaForSequenceClassification))


def qwen2() -> Example:
    """Biases in the projections of the attention, and a head for each token."""
    return masked(tiny(transformers.Qwen2ForTokenClassification))


def gemma2() -> Example:
    """Scores and logits capped by a tanh; four norms in a layer."""
    return masked(tiny(transformers.Gemma2ForCausalLM, head_dim=8, layer_types=["full_attention"] * 2))


def olmo2() -> Example:
    """Norms after attention and network, and over all heads together."""
    return masked(tiny(transformers.Olmo2ForCausalLM))


def gpt_neox() -> Example:
    """Attention and network side by side on one input; rotary positions on a part of each head."""
    return masked(tiny(transformers.GPTNeoXForCausalLM))


def phi() -> Example:
    """One norm that serves attention and network both."""
    return masked(tiny(transformers.PhiForCausalLM))


def cohere() -> Example:
    """Interleaved rotary positions, and logits scaled at the end."""
    return masked(tiny(transformers.CohereForCausalLM))


def falcon() -> Example:
    """One key and value for all heads, from a joint projection."""
    return masked(tiny(transformers.FalconForCausalLM))


def bloom() -> Example:
    """Linear biases by distance, computed from the mask; a norm on the embedding."""
    return masked(tiny(transformers.BloomForCausalLM))


def opt() -> Example:
    """Positions counted from the mask, with an offset; projections around the narrower embedding."""
    return masked(tiny(transformers.OPTForCausalLM, ffn_dim=64, word_embed_proj_dim=16))
