"""Builds models without a library, as users write them."""

from __future__ import annotations

import torch
from torch import nn
from torch._higher_order_ops.scan import scan as scan_over

from pytest_hierexport._cases import Example
from pytest_hierexport._cases.zoo._inputs import VOCABULARY, numbers, tokens


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


def nested_dynamic() -> Example:
    """The same with a dynamic batch and length."""
    example = nested()
    dimensions = {0: torch.export.Dim("batch"), 1: torch.export.Dim("length")}
    example.dynamic_shapes = {"values": dimensions, "context": dimensions}
    return example


class Switch(nn.Module):
    """Runs one of two modules, which the values decide."""

    def __init__(self, width: int) -> None:
        """Make a branch of one module and a branch of two."""
        super().__init__()
        self.positive = Gate(width, nn.GELU())
        self.negative = nn.Sequential(nn.Linear(width, width), Gate(width, nn.ReLU()))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Return values of the input's shape."""
        chosen: torch.Tensor = torch.cond(values.sum() > 0, self.positive, self.negative, (values,))
        return chosen


def conditional() -> Example:
    """Modules inside the branches of a condition, which are subgraphs; two such conditions in a row."""
    return Example(nn.Sequential(Switch(8), nn.Linear(8, 8), Switch(8)).eval(), (numbers(2, 8),))


class Recurrence(nn.Module):
    """Carries a state along the first axis."""

    def __init__(self, width: int) -> None:
        """Make the parts outside the loop; the step inside it has parameters of its own."""
        super().__init__()
        self.into = nn.Linear(width, width)
        self.decay = nn.Parameter(torch.ones(width))
        self.out = Gate(width, nn.Tanh())

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Return the states at all places, `[length, batch, width]`, as the input."""

        def step(state: torch.Tensor, value: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            state = torch.tanh(state * self.decay + value)
            return state, state.clone()

        _, states = scan_over(step, torch.zeros_like(values[0]), self.into(values))
        return torch.as_tensor(self.out(states))


def scan() -> Example:
    """A loop over time as one node with a body."""
    return Example(Recurrence(8).eval(), (numbers(5, 2, 8),))


class Tied(nn.Module):
    """Predicts tokens with the weights that embed them, in several rounds of one block."""

    def __init__(self, width: int, rounds: int) -> None:
        """Share the embedding's weight with the head."""
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.block = Block(width, nn.GELU())
        self.rounds = rounds
        self.head = nn.Linear(width, VOCABULARY, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Return logits, `[batch, length, vocabulary]`."""
        values = self.embedding(ids)
        for _ in range(self.rounds):
            values = self.block(values)
        logits: torch.Tensor = self.head(values)
        return logits


def tied() -> Example:
    """A weight with two owners, and a block that runs three times: modules inside it have three calls each."""
    return Example(Tied(16, rounds=3).eval(), (tokens(),))


class Steps(nn.Module):
    """Runs cells over time, in Python, and torch's own recurrent layer after them."""

    def __init__(self, width: int) -> None:
        """Make a cell for each direction."""
        super().__init__()
        self.cells = nn.ModuleList(nn.GRUCell(width, width) for _ in range(2))
        self.lstm = nn.LSTM(2 * width, width, batch_first=True)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Return the last layer's values, `[batch, length, width]`."""
        directions = []
        for cell, order in zip(self.cells, (1, -1), strict=True):
            state, states = torch.zeros_like(values[:, 0]), []
            for value in values.unbind(1)[::order]:
                state = cell(value, state)
                states.append(state)
            directions.append(torch.stack(states[::order], dim=1))
        outputs: torch.Tensor = self.lstm(torch.cat(directions, dim=-1))[0]
        return outputs


def recurrent() -> Example:
    """A cell that runs once for each step, and a recurrent layer that is one operator."""
    return Example(Steps(8).eval(), (numbers(2, 4, 8),))
