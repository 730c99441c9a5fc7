"""Tests of what an export leaves of a model's state."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx_ir as ir
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


class Merging(nn.Linear):
    """Adds a second weight to the first one in eval mode, as layers of LoRA do."""

    def __init__(self) -> None:
        super().__init__(4, 4)
        self.more = nn.Parameter(torch.ones(4, 4))
        self.merged = False

    def train(self, mode: bool = True) -> Merging:
        super().train(mode)
        if self.merged == mode:
            self.weight.data += -self.more if mode else self.more
            self.merged = not mode
        return self

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = super().forward(x)
        return y if self.merged else y + x @ self.more.T


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
def test_weights_that_eval_mode_merges_are_apart_again(exporter: str) -> None:
    parts = [Merging(), Merging().eval()]
    model = nn.Sequential(*parts)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    exported = export(model, (X,), exporter=exporter)
    assert not prove(Example(model, (X,)), exported.model, exported.attribution).unproven
    for name, tensor in model.state_dict().items():
        torch.testing.assert_close(tensor, before[name])
    assert [(part.training, part.merged) for part in parts] == [(True, False), (False, True)]


def test_weights_that_no_mode_writes_are_not_copied() -> None:
    class Own(nn.Linear):
        def train(self, mode: bool = True) -> Own:
            return super().train(mode)

    model = Own(4, 4)
    stored = export(model, (X,), exporter="dynamo").model.graph.initializers.values()
    shared = [getattr(value.const_value, "raw", None) for value in stored]
    assert any(tensor is model.bias for tensor in shared)


def test_train_that_freezes_parameters_does_not_change_what_was_found() -> None:
    class Freezing(nn.Linear):
        def train(self, mode: bool = True) -> Freezing:
            super().train(mode)
            self.requires_grad_(not mode)
            return self

    model = Freezing(4, 4)
    export(model, (X,))
    assert model.training
    assert all(parameter.requires_grad for parameter in model.parameters())


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
def test_graph_keeps_the_buffers_that_eval_mode_sets(exporter: str, tmp_path: Path) -> None:
    class Scaling(nn.Module):
        scale: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("scale", torch.ones(4))

        def train(self, mode: bool = True) -> Scaling:
            self.scale.copy_(torch.ones(4) if mode else torch.arange(4.0))
            return super().train(mode)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.scale

    model = Scaling()
    exported = export(nn.Sequential(model), (X,), path=tmp_path / "model.onnx", exporter=exporter)
    assert torch.equal(model.scale, torch.ones(4))
    for graph in (exported.model.graph, ir.load(tmp_path / "model.onnx").graph):
        (scale,) = graph.initializers.values()
        assert scale.const_value is not None
        assert scale.const_value.numpy().tolist() == [0, 1, 2, 3]


class Noisy(nn.Module):
    """Draws random numbers."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.rand_like(x)


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
def test_random_numbers_go_on_as_if_nothing_ran(exporter: str) -> None:
    model = Noisy().eval()
    state = torch.get_rng_state()
    exported = export(model, (X,), exporter=exporter)
    prove(Example(model, (X,)), exported.model, exported.attribution)
    assert torch.equal(torch.get_rng_state(), state)
