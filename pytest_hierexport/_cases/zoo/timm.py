"""Builds models of timm, which is an extra."""

from __future__ import annotations

import timm

from pytest_hierexport._cases import Example
from pytest_hierexport._cases.zoo._inputs import numbers


def timm_vit() -> Example:
    """A class token beside the patches, and many modules without an operator: norms and dropouts that are absent."""
    return _made("test_vit")


def timm_resnet() -> Example:
    """Blocks of two kinds in a row; shortcuts that pool before they project."""
    return _made("test_resnet")


def timm_efficientnet() -> Example:
    """Squeeze and excitation: a gate from the mean of each channel, inside inverted residuals."""
    return _made("test_efficientnet")


def timm_convnext() -> Example:
    """Depthwise convolutions, and norms over channels that are moved to the end and back."""
    return _made("test_convnext")


def _made(name: str) -> Example:
    model = timm.create_model(name, pretrained=False, num_classes=3)
    return Example(model.eval(), (numbers(2, 3, 160, 160),))
