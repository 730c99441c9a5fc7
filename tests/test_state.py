"""Tests of what an export leaves of a model's state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from pytest_hierexport import Example, export, prove

X = torch.arange(8.0).reshape(2, 4)


class Buffered(nn.Module):
    """Changes a buffer in its forward."""

    count: torch.Tensor

    def __init__(self, change: Callable[[torch.Tensor], object]) -> None:
        super().__init__()
        self.change = change
        self.register_buffer("count", torch.ones(2, 4))

    def forward(self, x: torch.Tensor) -> Any:
        self.change(self.count)
        return x + self.count[:2]


def put_data(tensor: torch.Tensor) -> None:
    """Give a tensor the memory of another one."""
    tensor.data = tensor + 1


CHANGES: dict[str, Callable[[torch.Tensor], object]] = {
    "written through its data": lambda tensor: tensor.data.add_(1),
    "memory of another": put_data,
    "resized": lambda tensor: tensor.resize_(3, 4).fill_(2),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_a_changed_buffer_has_its_shape_and_elements_again(change: Callable[[torch.Tensor], object]) -> None:
    model = Buffered(change).eval()
    exported = export(model, (X,), exporter="torchscript")
    assert torch.equal(model.count, torch.ones(2, 4))
    prove(Example(model, (X,)), exported.model, exported.attribution)
    assert torch.equal(model.count, torch.ones(2, 4))


def test_an_unchanged_buffer_is_not_written_to() -> None:
    model = Buffered(lambda tensor: tensor + 1).eval()
    export(model, (X,), exporter="torchscript")
    assert model.count._version == 0
