"""Builds models of text and images."""

from __future__ import annotations

from transformers import CLIPConfig, CLIPModel

from pytest_hierexport._cases import Example
from pytest_hierexport._cases.zoo._inputs import VOCABULARY, numbers, padding, tokens


def clip() -> Example:
    """Two towers whose layers share class and number, several inputs and outputs, outputs inside outputs."""
    layers = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    config = CLIPConfig(
        text_config={**layers, "vocab_size": VOCABULARY, "max_position_embeddings": 64, "eos_token_id": 2},
        vision_config={**layers, "image_size": 32, "patch_size": 8},
        projection_dim=16,
    )
    inputs = {"input_ids": tokens(), "pixel_values": numbers(2, 3, 32, 32), "attention_mask": padding()}
    return Example(CLIPModel(config).eval(), kwargs=inputs)
