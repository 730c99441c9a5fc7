from __future__ import annotations

from copy import deepcopy

import pytest
import torch

from pytest_hierexport._cases.weights import randomise


class Stock(torch.nn.Module):
    """One tensor of each kind that stock initialisation leaves equal, tiny or fragile."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)
        self.norm = torch.nn.BatchNorm1d(8)
        self.zero_table = torch.nn.Parameter(torch.zeros(4, 8))
        self.layer_scale = torch.nn.Parameter(torch.full((8,), 1e-6))
        self.register_buffer("frequencies", 10_000.0 ** -torch.linspace(0, 1, 8))
        self.register_buffer("mask", torch.full((4, 4), -torch.inf).triu(1))
        self.register_buffer("lowest", torch.full((4, 4), torch.finfo().min).triu(1))
        self.register_buffer("expanded", torch.ones(1, 1).expand(3, 5))
        self.register_buffer("ids", torch.arange(8))
        self.register_buffer("flags", torch.ones(8, dtype=torch.bool))


@pytest.fixture
def stock() -> Stock:
    torch.manual_seed(0)
    return Stock()


def state(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def test_no_two_values_of_the_parameters_are_equal(stock: Stock) -> None:
    randomise(stock)
    values = torch.cat([parameter.detach().flatten() for parameter in stock.parameters()])
    assert len(values.unique()) == len(values)


def test_no_parameter_is_negligible_beside_activations_of_order_one(stock: Stock) -> None:
    randomise(stock)
    for name, parameter in stock.named_parameters():
        assert parameter.abs().mean() > 0.01, name


def test_equal_seeds_give_equal_weights_and_others_differ(stock: Stock) -> None:
    again, other = deepcopy(stock), deepcopy(stock)
    randomise(stock, seed=1)
    torch.rand(3)  # another draw in between must not matter
    randomise(again, seed=1)
    randomise(other, seed=2)
    assert all(torch.equal(tensor, again.state_dict()[name]) for name, tensor in stock.state_dict().items())
    assert not torch.equal(stock.linear.weight, other.linear.weight)


def test_a_norm_stays_near_one_and_a_variance_positive(stock: Stock) -> None:
    randomise(stock)
    assert stock.norm.weight.sub(1).abs().max() < 0.2
    assert stock.get_buffer("norm.running_var").min() > 0.5


def test_a_table_of_frequencies_stays_usable(stock: Stock) -> None:
    before = state(stock)["frequencies"]
    randomise(stock)
    after = stock.get_buffer("frequencies")
    assert not torch.equal(after, before)
    assert torch.allclose(after, before, rtol=0.2, atol=0)


@pytest.mark.parametrize("name", ["mask", "lowest"])
def test_a_mask_stays_a_mask(stock: Stock, name: str) -> None:
    before = state(stock)[name]
    randomise(stock)
    after = stock.get_buffer(name)
    assert torch.equal(after == 0, before == 0)
    assert torch.equal(after.isinf(), before.isinf())


@pytest.mark.parametrize("name", ["ids", "flags", "norm.num_batches_tracked"])
def test_integers_and_booleans_are_untouched(stock: Stock, name: str) -> None:
    before = state(stock)[name]
    randomise(stock)
    assert torch.equal(stock.get_buffer(name), before)


def test_an_expanded_buffer_is_changed_through_its_one_element(stock: Stock) -> None:
    randomise(stock)
    expanded = stock.get_buffer("expanded")
    assert len(expanded.unique()) == 1
    assert not torch.equal(expanded, torch.ones(3, 5))


def test_tied_weights_stay_tied_and_are_drawn_once() -> None:
    first, second, alone = (torch.nn.Linear(8, 8, bias=False) for _ in range(3))
    second.weight = first.weight
    alone.load_state_dict(first.state_dict())
    randomise(torch.nn.Sequential(first, second))
    randomise(alone)
    assert second.weight is first.weight
    assert torch.equal(first.weight, alone.weight)


def test_matrix_spread_lies_between_two_bounds_of_its_fan_in() -> None:
    wide = torch.nn.Embedding(500, 16)  # drawn with spread 1
    flat = torch.nn.Parameter(torch.full((500, 16), 0.02).copysign(torch.randn(500, 16)))
    between = torch.nn.Parameter(0.3 * torch.randn(500, 16))
    randomise(torch.nn.ModuleList([wide, torch.nn.ParameterList([flat, between])]))
    assert wide.weight.std().item() == pytest.approx(2**0.5 / 4, rel=0.1)
    assert flat.std().item() == pytest.approx(0.25, rel=0.1)
    assert between.std().item() == pytest.approx(0.3, rel=0.1)


def test_projections_initialised_by_their_fan_out_keep_the_scale() -> None:
    blocks = []
    for _ in range(10):
        wide, narrow = torch.nn.Conv2d(16, 64, 1), torch.nn.Conv2d(64, 16, 1)
        for conv in (wide, narrow):
            torch.nn.init.kaiming_normal_(conv.weight, mode="fan_out")
        blocks += [wide, torch.nn.BatchNorm2d(64), torch.nn.ReLU(), narrow, torch.nn.BatchNorm2d(16)]
    model = torch.nn.Sequential(*blocks).eval()
    randomise(model)
    assert model(torch.randn(2, 16, 8, 8)).std() < 10


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_every_floating_type_keeps_its_type_and_stays_finite(dtype: torch.dtype) -> None:
    linear = torch.nn.Linear(8, 8).to(dtype)
    randomise(linear)
    assert linear.weight.dtype == dtype
    assert linear.weight.isfinite().all()


def test_a_model_without_storage_is_left_alone() -> None:
    model = torch.nn.Linear(8, 8, device="meta")
    randomise(model)
    assert model.weight.is_meta


def test_sparse_buffers_are_left_alone() -> None:
    model = torch.nn.Linear(4, 4)
    model.register_buffer("adjacency", torch.eye(4).to_sparse())
    randomise(model)
    assert torch.equal(model.get_buffer("adjacency").to_dense(), torch.eye(4))


def test_the_mode_of_the_model_and_its_gradients_stay(stock: Stock) -> None:
    stock.linear(torch.ones(1, 8)).sum().backward()
    gradient = stock.linear.bias.grad
    randomise(stock)
    assert stock.training
    assert stock.linear.bias.grad is gradient
    assert stock.linear.weight.requires_grad


@torch.inference_mode()
def made_in_inference_mode() -> torch.nn.Linear:
    return torch.nn.Linear(3, 3)


def test_weights_made_in_inference_mode_are_changed_as_others_are() -> None:
    inference, other = made_in_inference_mode(), torch.nn.Linear(3, 3)
    with torch.inference_mode():
        other.load_state_dict(inference.state_dict())
    for model in (inference, other):
        randomise(model)
    assert torch.equal(inference.weight, other.weight)
    assert not inference.bias.eq(0).any()
