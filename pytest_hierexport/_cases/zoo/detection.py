"""Builds models for detection, segmentation and depth."""

from __future__ import annotations

from typing import Any

import transformers

from pytest_hierexport._cases import Example
from pytest_hierexport._cases.zoo._inputs import ENCODER_DECODER, images, tiny

_STAGES = {"num_encoder_blocks": 2, "hidden_sizes": [16, 32], "depths": [1, 1], "num_attention_heads": [2, 4]}
_REDUCED = {"sr_ratios": [4, 2], "mlp_ratios": [2, 2], "strides": [4, 2], "patch_sizes": [7, 3]}


def detr() -> Example:
    """Learned queries that read the features of a backbone; boxes and classes for each."""
    sizes: dict[str, Any] = {"embedding_size": 16, "hidden_sizes": [16, 32], "depths": [1, 1], "layer_type": "basic"}
    backbone = transformers.ResNetConfig(**sizes, out_features=["stage1", "stage2"])
    # transformers 4.57 names a backbone of its own unless it is told that there is none.
    only: dict[str, Any] = {"backbone_config": backbone, "backbone": None, "use_timm_backbone": False}
    return images(tiny(transformers.DetrForObjectDetection, **ENCODER_DECODER, **only, num_queries=5))


def yolos() -> Example:
    """Detection tokens beside the patches of a plain transformer."""
    return images(tiny(transformers.YolosForObjectDetection, image_size=[32, 32], num_detection_tokens=5))


def segformer() -> Example:
    """Features of all stages, brought to one size and joined."""
    return images(tiny(transformers.SegformerForSemanticSegmentation, **_STAGES, **_REDUCED, decoder_hidden_size=16))


def upernet() -> Example:
    """A pyramid of pooled features, added from the smallest up, on another model's backbone."""
    sizes: dict[str, Any] = {"num_stages": 2, "hidden_sizes": [16, 32], "depths": [1, 1]}
    backbone = transformers.ConvNextConfig(**sizes, out_features=["stage1", "stage2"])
    head = {"hidden_size": 16, "pool_scales": [1, 2], "use_auxiliary_head": False}
    return images(tiny(transformers.UperNetForSemanticSegmentation, **head, backbone_config=backbone))


def glpn() -> Example:
    """Depth from features that are fused by computed attention maps."""
    return images(tiny(transformers.GLPNForDepthEstimation, **_STAGES, **_REDUCED, decoder_hidden_size=16))


def sam_vision() -> Example:
    """Attention in windows and over the whole image, with relative places that are decomposed by axis."""
    sizes = {"mlp_dim": 64, "output_channels": 16, "window_size": 2, "global_attn_indexes": [1]}
    return images(tiny(transformers.SamVisionModel, **sizes))
