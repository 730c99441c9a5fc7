"""Builds models of videos."""

from __future__ import annotations

import transformers

from pytest_hierexport._cases import Example
from pytest_hierexport._cases.zoo._inputs import PATCHES, TEXT, numbers, padding, tiny, tokens


def videomae() -> Example:
    """Patches in space and time from one convolution, and the mean of all as the pooled value."""
    model = tiny(transformers.VideoMAEForVideoClassification, num_frames=4, tubelet_size=2, patch_size=16)
    return Example(model, kwargs={"pixel_values": numbers(2, 4, 3, 32, 32)})


def timesformer() -> Example:
    """Attention over time, then over space: values are reshaped between the two."""
    model = tiny(transformers.TimesformerForVideoClassification, num_frames=2)
    return Example(model, kwargs={"pixel_values": numbers(2, 2, 3, 32, 32)})


def vivit() -> Example:
    """Blocks of frames as tokens, with a class token."""
    model = tiny(transformers.VivitModel, num_frames=4, tubelet_size=[2, 8, 8])
    return Example(model, kwargs={"pixel_values": numbers(2, 4, 3, 32, 32)})


def vjepa2() -> Example:
    """An encoder and a predictor that fills in masked places; rotary places along three axes."""
    frames = {"crop_size": 32, "frames_per_clip": 4, "patch_size": 16, "mlp_ratio": 2.0}
    layers = {"hidden_size": 48, "num_attention_heads": 2, "pred_hidden_size": 24, "pred_num_attention_heads": 4}
    model = tiny(transformers.VJEPA2Model, **frames, **layers, pred_num_hidden_layers=1)
    return Example(model, kwargs={"pixel_values_videos": numbers(2, 4, 3, 32, 32)})


def xclip() -> Example:
    """Frames that exchange a message token; a text prompted by the video."""
    frames = {"num_frames": 2, "mit_hidden_size": 32, "mit_intermediate_size": 64, "mit_num_attention_heads": 4}
    towers = {"text_config": TEXT, "vision_config": {**PATCHES, **frames, "mit_num_hidden_layers": 1}}
    model = tiny(transformers.XCLIPModel, **towers, projection_dim=32, prompt_num_attention_heads=4)
    inputs = {"input_ids": tokens(), "attention_mask": padding(), "pixel_values": numbers(2, 2, 3, 32, 32)}
    return Example(model, kwargs=inputs)
