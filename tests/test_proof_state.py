"""The digest of what a model computes with."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from pytest_hierexport._cases import Example
from pytest_hierexport._proof.state import state_digest


def example() -> Example:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    return Example(model, (torch.ones(3, 2),), {"scale": 2.0})


def test_equal_examples_have_equal_digests() -> None:
    assert state_digest(example()) == state_digest(example())


def other_weight(example: Example) -> None:
    with torch.no_grad():
        next(example.model.parameters())[0, 0] += 1e-6


def other_buffer(example: Example) -> None:
    example.model.get_buffer("1.running_mean").add_(1)


def other_dtype(example: Example) -> None:
    example.model.double()


def other_shape(example: Example) -> None:
    example.args = (example.args[0].reshape(2, 3),)


def other_input(example: Example) -> None:
    example.args = (example.args[0] * 2,)


def other_number(example: Example) -> None:
    example.kwargs["scale"] = 3.0


def other_name(example: Example) -> None:
    example.model = nn.Sequential(example.model)


@pytest.mark.parametrize(
    "change",
    [other_weight, other_buffer, other_dtype, other_shape, other_input, other_number, other_name],
    ids=lambda change: change.__name__,
)
def test_whatever_differs_changes_it(change: Callable[[Example], None]) -> None:
    changed = example()
    change(changed)
    assert state_digest(changed) != state_digest(example())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.complex64, torch.bool])
def test_every_dtype_is_read(dtype: torch.dtype) -> None:
    one, other = (Example(nn.Identity(), (torch.tensor(number).to(dtype),)) for number in (0, 1))
    assert state_digest(one) != state_digest(other)


def test_a_model_without_storage_has_a_digest() -> None:
    assert state_digest(Example(nn.Linear(2, 2, device="meta")))
