"""A model that fails on its own inputs is told apart from a failing export, with the module call that failed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from pytest_hierexport import export
from pytest_hierexport._errors import ExportError


class Stem(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        features: torch.Tensor = self.conv(image)  # takes three channels
        return features


class Shift(nn.Module):
    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return features + torch.ones(7)  # broadcasts with a last dimension of seven


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = Stem()
        self.shift = Shift()

    def forward(self, image: torch.Tensor, again: bool = False) -> torch.Tensor:
        features: torch.Tensor = self.shift(self.stem(image))
        return self.shift(features[..., :5]) if again else features


class Wrapping(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = Net()

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        try:
            features: torch.Tensor = self.net(image)
        except RuntimeError as error:
            raise ValueError("no image") from error
        return features


class Optional(nn.Module):
    """Goes on after a part that failed, and fails itself."""

    def __init__(self) -> None:
        super().__init__()
        self.net = Net()

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        try:
            self.net(image)
        except RuntimeError:
            image = image.flatten()
        return image @ torch.ones(3)


def found(model: nn.Module, *args: Any) -> str:
    with pytest.raises(ExportError) as raised:
        export(model, args)
    assert raised.value.expected == f"{type(model).__name__} to run on its example inputs, before any export"
    return raised.value.found


def line_of(text: str) -> str:
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    (number,) = (number for number, line in enumerate(lines, 1) if line.strip().startswith(text))
    return f"test_model_failure.py, line {number})"


@pytest.mark.parametrize(
    ("model", "args", "where", "line"),
    [
        (Net(), (torch.ones(1, 5, 9, 9),), "stem.conv (Conv2d, tag /Net/Stem)", "features: torch.Tensor = self.conv("),
        (Net(), (torch.ones(1, 3, 8, 8),), "shift (Shift, tag /Net/Shift)", "return features + torch.ones(7)"),
        (Net(), (torch.ones(1, 3, 9, 9), True), "shift@1 (Shift, tag /Net/Shift@1)", "return features + torch.ones(7)"),
        (
            Wrapping(),
            (torch.ones(1, 5, 9, 9),),
            "net.stem.conv (Conv2d, tag /Wrapping/Net/Stem)",
            "features: torch.Tensor = self.conv(",
        ),
        (Optional(), (torch.ones(1, 5, 9, 9),), "the model's own forward", "return image @ torch.ones(3)"),
    ],
    ids=["layer-of-torch", "own-operation", "second-call", "wrapped-error", "after-a-caught-error"],
)
def test_failing_call_and_line_are_named(model: nn.Module, args: tuple[Any, ...], where: str, line: str) -> None:
    message = found(model.eval(), *args)
    assert message.startswith(f"in {where}: RuntimeError: ")
    assert message.endswith(line_of(line))


class Unexportable(nn.Module):
    """Runs by itself alone."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if torch.compiler.is_exporting():
            raise RuntimeError("not under an exporter")
        return x


def test_model_that_runs_is_no_failing_model() -> None:
    x = torch.ones(2)
    with pytest.raises(ExportError) as raised:
        export(Unexportable(), (x,), exporter="dynamo")
    assert raised.value.expected == "Unexportable to be captured as a graph"
    assert "not under an exporter" in raised.value.found


def test_failed_run_leaves_the_inputs_as_they_were() -> None:
    class Writing(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.add_(1) + torch.ones(7)

    x = torch.ones(3)
    assert found(Writing(), x).startswith("in the model's own forward: RuntimeError: The size of tensor a (3)")
    assert x.tolist() == [1, 1, 1]


class Refusing(nn.Module):
    def forward(self, image: torch.Tensor) -> torch.Tensor:
        raise ValueError("no image\nof this size:\ntake 8")


def test_message_of_the_models_own_code_is_told_whole() -> None:
    with pytest.raises(ExportError) as caught:
        export(Refusing(), (torch.ones(1, 3),))
    assert "ValueError: no image of this size: take 8 (" in caught.value.found
