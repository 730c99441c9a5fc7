"""Builds vision models."""

from __future__ import annotations

from transformers import (
    ConvNextConfig,
    ConvNextForImageClassification,
    ResNetConfig,
    ResNetModel,
    SwinConfig,
    SwinModel,
    ViTConfig,
    ViTModel,
)

from pytest_hierexport._cases import Example
from pytest_hierexport._cases.zoo._inputs import numbers


def vit() -> Example:
    """Patches from a convolution, a class token joined to them, attention without a mask."""
    config = ViTConfig(
        image_size=32,
        patch_size=8,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
    )
    return Example(ViTModel(config).eval(), kwargs={"pixel_values": numbers(2, 3, 32, 32)})


def convnext() -> Example:
    """Channels moved to the end and back around every norm: transposes that an optimizer joins across modules."""
    config = ConvNextConfig(num_stages=2, hidden_sizes=[16, 32], depths=[2, 2], image_size=32, num_labels=3)
    return Example(ConvNextForImageClassification(config).eval(), kwargs={"pixel_values": numbers(2, 3, 32, 32)})


def resnet() -> Example:
    """Batch norms that are folded into the convolutions before them; shortcuts that return their input."""
    config = ResNetConfig(embedding_size=16, hidden_sizes=[16, 32], depths=[2, 2], layer_type="basic")
    return Example(ResNetModel(config).eval(), kwargs={"pixel_values": numbers(2, 3, 32, 32)})


def swin() -> Example:
    """Shifted windows: images rolled, cut and put together again, masks made from constants in every other layer."""
    config = SwinConfig(
        image_size=32,
        patch_size=2,
        embed_dim=16,
        depths=[2, 2],
        num_heads=[2, 4],
        window_size=4,
        mlp_ratio=2.0,
        attn_implementation="eager",  # the fused attention's views cannot be decomposed
    )
    return Example(SwinModel(config).eval(), kwargs={"pixel_values": numbers(2, 3, 32, 32)})
