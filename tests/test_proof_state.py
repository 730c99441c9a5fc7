"""The digest of what a model computes with."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from pytest_hierexport._cases import Example
from pytest_hierexport._proof.state import call_digests, state_digests


def example() -> Example:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    return Example(model, (torch.ones(3, 2),), {"scale": 2.0})


def test_equal_examples_have_equal_digests() -> None:
    assert state_digests(example()) == state_digests(example())


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


def other_class(example: Example) -> None:
    example.model.register_module("1", nn.SyncBatchNorm(2))


def test_one_changed_tensor_has_another_digest_under_its_name() -> None:
    changed, same = example(), state_digests(example())
    other_weight(changed)
    found = state_digests(changed)
    assert [name for name in same if same[name] != found[name]] == ["parameter 0.weight"]
    assert {"buffer 1.running_mean", "input[0][0]", "input[1]['scale']"} <= set(same), list(same)


@pytest.mark.parametrize(
    "change",
    [other_class, other_weight, other_buffer, other_dtype, other_shape, other_input, other_number, other_name],
    ids=lambda change: change.__name__,
)
def test_whatever_differs_changes_it(change: Callable[[Example], None]) -> None:
    changed = example()
    change(changed)
    assert state_digests(changed) != state_digests(example())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.complex64, torch.bool])
def test_every_dtype_is_read(dtype: torch.dtype) -> None:
    one, other = (Example(nn.Identity(), (torch.tensor(number).to(dtype),)) for number in (0, 1))
    assert state_digests(one) != state_digests(other)


def test_a_model_without_storage_has_a_digest() -> None:
    assert state_digests(Example(nn.Linear(2, 2, device="meta")))


def test_calls_are_digested_in_their_order() -> None:
    assert [name for name, _ in call_digests(example_that_runs())] == ["0", "1", ""]
    assert call_digests(example_that_runs()) == call_digests(example_that_runs())


def test_another_value_changes_the_calls_after_it() -> None:
    changed = example_that_runs()
    other_buffer(changed)
    pairs = zip(call_digests(example_that_runs()), call_digests(changed), strict=True)
    assert [one == other for one, other in pairs] == [True, False, False]


def test_model_that_does_not_run_has_no_calls() -> None:
    assert call_digests(Example(nn.Linear(2, 2), (torch.ones(3),))) == []


def example_that_runs() -> Example:
    return Example(example().model, example().args)
