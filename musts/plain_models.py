"""Models for the plain exporter's own process, where nothing of ours can be imported."""

from __future__ import annotations

import os
import sys

import torch
from torch import nn

__all__ = ["alone", "composed", "ending", "in_the_order_of_a_set", "reaching", "second_of_two", "spelled_out"]

X = torch.ones(2, 4)


class Alone(nn.Module):
    """Prints, and refuses to run under a tracer beside any module of ours."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        print("not an answer")  # noqa: T201  # what a model prints must not be taken for an answer
        ours = [name for name, module in sys.modules.items() if module and name.startswith("pytest_hierexport")]
        if ours:
            raise RuntimeError(f"beside {ours}")
        return x + 1


class Reaching(nn.Module):
    """Imports our exporter while it runs."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        from pytest_hierexport._export import pipeline

        return x + len(pipeline.__name__)


class Ending(nn.Module):
    """Ends its process."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        os._exit(7)
        return x


class Composed(nn.Module):
    """Uses an operator that TorchScript cannot translate at opset 17, though it can each of its parts."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.diff()


class SpelledOut(nn.Module):
    """Computes the same from the parts."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, 1:] - x[:, :-1]


def alone() -> object:
    """Return a model that exports where nothing of ours is imported."""
    return Alone(), (X,)


def reaching() -> object:
    """Return a model that exports where our exporter can be imported."""
    return Reaching(), (X,)


def ending() -> object:
    """Return a model that ends its process."""
    return Ending(), (X,)


def composed() -> object:
    """Return a model that TorchScript exports with our help alone."""
    return Composed(), (X,)


def spelled_out() -> object:
    """Return its twin, which TorchScript exports by itself."""
    return SpelledOut(), (X,)


class Scaled(nn.Module):
    """Computes the same in another order in each process, as torch does for `nn.EmbeddingBag`."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        factors = {str(i): i for i in range(2, 11)}
        scaled = {name: x * factors[name] for name in set(factors)}
        return torch.stack([scaled[name] for name in factors])


def in_the_order_of_a_set() -> object:
    """Return a model whose graph depends on the hash seed of its process."""
    return Scaled(), (torch.ones(2),)


class Second(nn.Module):
    """Uses the second of its inputs alone."""

    def forward(self, unused: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x)


def second_of_two() -> object:
    """Return a model whose first input torch drops."""
    return Second(), (X, torch.linspace(-1, 1, 3))


class WithGradients(nn.Module):
    """Turns gradients on for what it returns."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            return x.exp()


def with_gradients() -> object:
    """Return the model with its inputs."""
    return WithGradients().eval(), (torch.rand(3),)


class Failing(nn.Module):
    """Fails with a message that says whether gradients are on."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise ValueError(f"gradients: {torch.is_grad_enabled()}")


class InDefaultPrecision(nn.Module):
    """Computes in the default dtype."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.to(torch.get_default_dtype()).relu()


def in_default_precision() -> object:
    """Return the model with an input of single precision."""
    return InDefaultPrecision().eval(), (torch.linspace(-1, 1, 3, dtype=torch.float32),)
