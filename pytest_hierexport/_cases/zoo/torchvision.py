"""Builds models of torchvision, which is an extra."""

from __future__ import annotations

from torchvision.models.resnet import BasicBlock, ResNet
from torchvision.models.shufflenetv2 import ShuffleNetV2
from torchvision.models.swin_transformer import SwinTransformer
from torchvision.models.vision_transformer import VisionTransformer

from pytest_hierexport._cases import Example
from pytest_hierexport._cases.zoo._inputs import numbers


def torchvision_resnet() -> Example:
    """One activation module that runs twice in a block, on values of different modules."""
    return Example(ResNet(BasicBlock, [1, 1, 1, 1], num_classes=3).eval(), (numbers(2, 3, 32, 32),))


def torchvision_vit() -> Example:
    """Attention of torch.nn inside modules of a library; a class token joined to the patches."""
    model = VisionTransformer(
        image_size=32, patch_size=8, num_layers=2, num_heads=4, hidden_dim=32, mlp_dim=64, num_classes=3
    )
    return Example(model.eval(), (numbers(2, 3, 32, 32),))


def torchvision_swin() -> Example:
    """Shifted windows as a function beside the modules, and a module that permutes axes."""
    model = SwinTransformer(
        patch_size=[2, 2], embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=[4, 4], num_classes=3
    )
    return Example(model.eval(), (numbers(2, 3, 32, 32),))


def torchvision_shufflenet() -> Example:
    """Channels split in two, of which one passes through, and shuffled."""
    model = ShuffleNetV2([1, 1, 1], [8, 16, 32, 64, 128], num_classes=3)
    return Example(model.eval(), (numbers(2, 3, 64, 64),))
