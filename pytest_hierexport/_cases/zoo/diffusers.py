"""Builds models of diffusers, which is an extra."""

from __future__ import annotations

import torch
from diffusers import AutoencoderKL, DiTTransformer2DModel, UNet2DConditionModel

from pytest_hierexport._cases import Example
from pytest_hierexport._cases.zoo._inputs import numbers


def diffusers_unet() -> Example:
    """A step of denoising: blocks down and up with values that skip, conditioned on a time and a text."""
    model = UNet2DConditionModel(
        sample_size=8,
        block_out_channels=(16, 32),
        layers_per_block=1,
        norm_num_groups=8,
        cross_attention_dim=16,
        attention_head_dim=8,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
    )
    inputs = {
        "sample": numbers(2, 4, 8, 8),
        "timestep": torch.tensor([3, 7]),
        "encoder_hidden_states": numbers(2, 5, 16),
        "return_dict": False,
    }
    return Example(model.eval(), (), inputs)


def diffusers_vae() -> Example:
    """An image through an encoder and a decoder, with attention over places in the middle of each."""
    model = AutoencoderKL(
        block_out_channels=(8, 16),
        norm_num_groups=4,
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
    )
    return Example(model.eval(), (), {"sample": numbers(2, 3, 16, 16), "return_dict": False})


def diffusers_dit() -> Example:
    """Norms whose scale and shift are computed from a time and a class."""
    model = DiTTransformer2DModel(
        num_attention_heads=2,
        attention_head_dim=8,
        in_channels=4,
        num_layers=2,
        sample_size=8,
        num_embeds_ada_norm=10,
        norm_num_groups=4,
    )
    inputs = {
        "hidden_states": numbers(2, 4, 8, 8),
        "timestep": torch.tensor([3, 7]),
        "class_labels": torch.tensor([1, 4]),
        "return_dict": False,
    }
    return Example(model.eval(), (), inputs)
