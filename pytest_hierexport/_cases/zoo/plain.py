"""Builds models without a library, as users write them."""

from __future__ import annotations

import torch
from torch import nn

from pytest_hierexport._cases import Example
from pytest_hierexport._cases.zoo._inputs import numbers


class Gate(nn.Module):
    """Scales its input by a value between zero and one, computed from the input."""

    def __init__(self, width: int, activation: nn.Module) -> None:
        """Take the activation as an argument: all gates share one object."""
        super().__init__()
        self.score = nn.Linear(width, width)
        self.activation = activation

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Return values of the input's shape."""
        return values * torch.sigmoid(self.score(self.activation(values)))


class Block(nn.Module):
    """Two branches by name, in a dict, and a residual around them."""

    def __init__(self, width: int, activation: nn.Module) -> None:
        """Make the branches; one of them is a torch.nn.Sequential that holds a custom module."""
        super().__init__()
        self.branches = nn.ModuleDict(
            {
                "left": Gate(width, activation),
                "right": nn.Sequential(nn.LayerNorm(width), Gate(width, activation), nn.Linear(width, width)),
            }
        )

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Return values of the input's shape."""
        for branch in self.branches.values():
            values = values + branch(values)
        return values


class Nested(nn.Module):
    """Lists in a list, a block in two of their places, a module with three calls and one without."""

    def __init__(self, width: int) -> None:
        """Make stages of two blocks; the second stage ends with the first one's first block."""
        super().__init__()
        activation = nn.GELU()
        first = Block(width, activation)
        self.stages = nn.ModuleList(
            [
                nn.ModuleList([first, Block(width, activation)]),
                nn.ModuleList([Block(width, activation), first]),
            ]
        )
        self.refine = Gate(width, activation)
        self.unused = nn.Linear(width, width)
        self.heads = nn.ModuleDict({"mean": nn.Linear(width, 2), "spread": nn.Linear(width, 2)})

    def forward(self, values: torch.Tensor, context: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return `mean` and `spread`, `[..., 2]`, of values and context, `[..., width]`."""
        for stage in self.stages:
            for block in stage.children():
                values = block(values)
            values = self.refine(values) + context
        values = self.refine(values)
        return {"mean": self.heads["mean"](values), "spread": self.heads["spread"](values).exp()}


def nested() -> Example:
    """Containers in containers, instances with two names, repeated calls, siblings of one class."""
    return Example(Nested(16).eval(), (numbers(2, 5, 16),), {"context": numbers(2, 5, 16, seed=1)})


def sequential() -> Example:
    """A root of a torch.nn class without custom modules, so that every tag is `/`."""
    convolution = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
    model = nn.Sequential(convolution, nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8 * 4 * 4, 10), nn.Softmax(dim=-1))
    return Example(model.eval(), (numbers(2, 3, 8, 8),))
