"""Builds mixtures of experts."""

from __future__ import annotations

import transformers

from pytest_hierexport._cases import Example
from pytest_hierexport._cases.zoo._inputs import masked, tiny

# The other implementations loop over the routed experts, or need a kernel that ONNX lacks.
_EXPERTS = {
    "num_local_experts": 4,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "experts_implementation": "batched_mm",
}


def mixtral() -> Example:
    """A mixture of experts: tokens routed by value, weights of all experts in one tensor."""
    return masked(tiny(transformers.MixtralForCausalLM, **_EXPERTS))


def qwen3_moe() -> Example:
    """Experts in all layers, and norms inside the attention."""
    return masked(tiny(transformers.Qwen3MoeForCausalLM, **_EXPERTS, head_dim=8))


def olmoe() -> Example:
    """Weights of the chosen experts that are not normalised again."""
    return masked(tiny(transformers.OlmoeForCausalLM, **_EXPERTS))


def granitemoe() -> Example:
    """Scaled embeddings, residuals and logits around the experts."""
    return masked(tiny(transformers.GraniteMoeForCausalLM, **_EXPERTS))


def deepseek_v3() -> Example:
    """Queries and keys through low ranks; experts in groups, one shared by all tokens; a first layer without."""
    sizes = {"n_routed_experts": 4, "n_group": 2, "topk_group": 1, "first_k_dense_replace": 1, "num_key_value_heads": 4}
    heads = {"q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8}
    return masked(tiny(transformers.DeepseekV3ForCausalLM, **_EXPERTS, **sizes, **heads))


def gpt_oss() -> Example:
    """Attention sinks: a learned score that is joined to the others and dropped after the softmax."""
    rotary = {"rope_type": "default", "rope_theta": 10000.0}
    kinds = ["full_attention"] * 2
    return masked(
        tiny(transformers.GptOssForCausalLM, **_EXPERTS, head_dim=8, layer_types=kinds, rope_parameters=rotary)
    )


def ernie4_5_moe() -> Example:
    """Experts chosen by a corrected score, beside a shared expert."""
    sizes = {"moe_num_experts": 4, "moe_k": 2, "moe_num_shared_experts": 1, "moe_layer_start_index": 1}
    return masked(tiny(transformers.Ernie4_5_MoeForCausalLM, **_EXPERTS, **sizes))
