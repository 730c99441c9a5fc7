"""Builds vision models."""

from __future__ import annotations

import torch
import transformers

from pytest_hierexport._cases import Example
from pytest_hierexport._cases.zoo._inputs import cast, dynamic, images, tiny


def vit() -> Example:
    """Patches from a convolution, a class token joined to them, attention without a mask."""
    return images(tiny(transformers.ViTModel))


def convnext() -> Example:
    """Channels moved to the end and back around every norm: transposes that an optimizer joins across modules."""
    sizes = {"num_stages": 2, "hidden_sizes": [16, 32], "depths": [2, 2]}
    return images(tiny(transformers.ConvNextForImageClassification, **sizes, patch_size=4))


def resnet() -> Example:
    """Batch norms that are folded into the convolutions before them; shortcuts that return their input."""
    sizes = {"embedding_size": 16, "hidden_sizes": [16, 32], "depths": [2, 2], "layer_type": "basic"}
    return images(tiny(transformers.ResNetModel, **sizes))


def swin() -> Example:
    """Shifted windows: images rolled, cut and put together again, masks made from constants in every other layer."""
    config = transformers.SwinConfig(
        image_size=32,
        patch_size=2,
        embed_dim=16,
        depths=[2, 2],
        num_heads=[2, 4],
        window_size=4,
        mlp_ratio=2.0,
        attn_implementation="eager",  # the fused attention's views cannot be decomposed
    )
    return images(transformers.SwinModel(config))


def vit_dynamic() -> Example:
    """A dynamic batch: the class token is repeated for a size that is known at run time."""
    return dynamic(vit(), batch=None)


def deit() -> Example:
    """Two tokens joined to the patches, and a head on each, which are averaged."""
    return images(tiny(transformers.DeiTForImageClassificationWithTeacher))


def beit() -> Example:
    """A bias by relative place for each layer, and the mean of the patches as the pooled value."""
    places = {"use_relative_position_bias": True, "use_absolute_position_embeddings": False, "out_indices": [1, 2]}
    return images(tiny(transformers.BeitForImageClassification, **places))


def dinov2() -> Example:
    """Layer scales, which an optimizer may move into the weights."""
    return images(tiny(transformers.Dinov2Model, mlp_ratio=2))


def mobilenet_v2() -> Example:
    """Inverted residuals: depthwise convolutions with batch norms that are folded, in seventeen blocks."""
    return images(tiny(transformers.MobileNetV2ForImageClassification, depth_multiplier=0.1, min_depth=4))


def mobilevit() -> Example:
    """Convolutions around attention over unfolded patches, which are folded again."""
    widths = {"hidden_sizes": [16] * 3, "neck_hidden_sizes": [8] * 7, "patch_size": 2}
    return images(tiny(transformers.MobileViTModel, **widths, mlp_ratio=2.0))


def pvt_v2() -> Example:
    """Keys and values from a smaller image; depthwise convolutions inside the network."""
    sizes = {"num_encoder_blocks": 2, "hidden_sizes": [16, 32], "depths": [1, 1], "num_attention_heads": [2, 4]}
    patches = {"sr_ratios": [4, 2], "mlp_ratios": [2, 2], "strides": [4, 2], "patch_sizes": [7, 3], "out_indices": [0]}
    return images(tiny(transformers.PvtV2Model, **sizes, **patches))


def poolformer() -> Example:
    """Pooling in place of attention, less the value itself."""
    sizes = {"num_encoder_blocks": 2, "hidden_sizes": [16, 32], "depths": [1, 1]}
    patches = {"patch_sizes": [7, 3], "strides": [4, 2], "padding": [2, 1]}
    return images(tiny(transformers.PoolFormerForImageClassification, **sizes, **patches))


def vit_float16() -> Example:
    """Convolution, norms and attention in half precision."""
    return cast(vit(), torch.float16)
