"""Choices: random numbers and orders of the graph that the eager run follows."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import torch
from torch import nn

from pytest_hierexport import export
from pytest_hierexport._calls.attribution import Evidence, Origin
from pytest_hierexport._cases import Example
from pytest_hierexport._cases.weights import randomise
from pytest_hierexport._proof import Proof, VerdictKind, choices, prove
from pytest_hierexport._proof.choices import following_choices, has_choices
from pytest_hierexport._proof.session import run_graph
from pytest_hierexport._proof.tolerance import Array

X = torch.randn(6, 40, generator=torch.Generator().manual_seed(0))


class Largest(nn.Module):
    """Chooses the largest in any order."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.topk(2, sorted=False)[1]


class Sorted(nn.Module):
    """Sorts many equal elements in any order."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mul(2).long().flatten().sort(0)[1]


class First(nn.Module):
    """Chooses the largest where most are equal."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.relu().mul(0.5).floor().topk(9)[1]


class Near(nn.Module):
    """Sorts elements that lie nearer to each other than rounding errors."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.flatten().mul(1e-6).add(1).softmax(0).sort(0)[1]


CODES = torch.stack([X[0, torch.randperm(40, generator=torch.Generator().manual_seed(i))] for i in range(64)], 1)
"""Vectors of the same numbers in other orders: sums of them differ by rounding alone."""


class Highest(nn.Module):
    """Chooses the largest of elements that lie nearer to each other than rounding errors."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x.exp().view(240, 1).expand(240, 40) @ CODES).argmax(1)


class Nearest(nn.Module):
    """Chooses the largest and the smallest of such elements, as vector quantization chooses a code."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        near = CODES.T @ x.exp().view(1, 240).expand(40, 240)
        return torch.cat([near.max(0, keepdim=True)[1].flatten(), near.min(0)[1], near.argmin(0)])


class Left(nn.Module):
    """Chooses the largest of what is left of large numbers: rounding moves it by more than the tolerance."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = x.exp().view(1, 240)
        return ((CODES.T @ scale.expand(40, 240)) / (scale * X[0].sum()) - 0.996).max(0)[1]


class Similar(nn.Module):
    """Puts twice in order what lies within the tolerance of each other, in steps of a thousandth."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([(1e4 + sign * x.tanh().flatten()).sort()[1] for sign in (0.4, -0.4)])


class Both(nn.Module):
    """Puts the same equal elements in two orders."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        many = x.mul(0.5).floor().flatten()
        return torch.cat([many.sort()[1][:9], many.sort(descending=True)[1][:7]])


class TwoWays(nn.Module):
    """Sorts the same equal elements along two axes."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        many = x.mul(0.5).floor()
        places = [many.sort(dim, descending=True)[1].flatten() for dim in (1, 0)]
        return torch.cat(places)[:300]


class Drawn(nn.Module):
    """Chooses at random."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.add(torch.rand(40)).argsort()[:, :3]


class DrawnInPlace(nn.Module):
    """Draws into a tensor, and beside it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        noise = torch.randn_like(x)
        return torch.empty_like(x).normal_().add(noise.exp()).add(x).argsort()[0]


class Coarse(nn.Module):
    """Draws numbers that numpy has no type for."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.bfloat16().add(torch.randn_like(x, dtype=torch.bfloat16)).float().argsort()[0]


class Halved(nn.Module):
    """Chooses among what an operation gives two of, as it would give elements and their places."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        left, right = x.mul(2).long().flatten().chunk(2)
        return (left * right + torch.arange(120)).abs().topk(3, sorted=False)[1]


class Conditional(nn.Module):
    """Chooses in a branch that torch captures as an operator."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        chosen: torch.Tensor = torch.cond(x.sum() > -1e9, lambda x: x.exp(), lambda x: x.neg(), (x,))
        return chosen.topk(2, sorted=False)[1]


class Expert(nn.Module):
    """Reads the chosen elements in the chosen order."""

    def forward(self, x: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
        return x.flatten()[chosen].sum()


class Routed(nn.Module):
    """Passes the choice of a router to an expert."""

    def __init__(self, router: nn.Module) -> None:
        super().__init__()
        self.proj = nn.Linear(40, 40)
        self.router = router
        self.expert = Expert()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        given: torch.Tensor = self.expert(x, self.router(self.proj(x)))
        return given


def proof(router: nn.Module, exporter: str = "auto") -> Proof:
    model = Routed(router).eval()
    randomise(model)
    result = export(model, (X,), exporter=exporter)
    return prove(Example(model, (X,)), result.model, result.attribution)


@pytest.mark.parametrize(
    "router",
    [
        *(Largest, Sorted, First, Near, Highest, Nearest, Left, Similar, Both, TwoWays),
        *(Drawn, DrawnInPlace, Coarse, Halved, Conditional),
    ],
)
def test_call_with_choices_is_proven_by_following_the_graph(router: type[nn.Module]) -> None:
    found = proof(router()).verdicts
    assert (found["router"].kind, found["expert"].kind) == (VerdictKind.PROVEN, VerdictKind.PROVEN)


@pytest.mark.parametrize(
    "router",
    [Largest, Sorted, First, Near, Highest, Nearest, Left, Similar, Both, TwoWays, Drawn, DrawnInPlace, Coarse],
)
def test_two_runs_differ_without_following(router: type[nn.Module], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[prove.__module__], "following_choices", lambda *_: nullcontext())
    found = proof(router()).verdicts
    assert (found["router"].kind, found["expert"].kind) != (VerdictKind.PROVEN, VerdictKind.PROVEN)


def test_no_choice_is_followed_when_every_call_is_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    def following_nothing(*_: object) -> None:
        raise AssertionError("the graph ran once more")

    monkeypatch.setattr(sys.modules[prove.__module__], "following_choices", following_nothing)
    assert not proof(Descending()).unproven


def test_coarser_retry_follows_choices_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []

    class Counting(choices._ChoiceFollower):
        def __init__(self, rankings: Iterable[Any], draws: Iterable[Array], tolerance: Callable[[str], float]) -> None:
            kept = list(draws)
            drawn.append(len(kept))
            super().__init__(rankings, kept, tolerance)

    monkeypatch.setattr(choices, "_ChoiceFollower", Counting)
    model = Routed(Drawn()).eval()
    exported = export(model, (X,))
    other = Routed(Drawn()).eval()
    assert prove(Example(other, (X,)), exported.model, exported.attribution).unproven
    assert drawn == [1, 1]


def test_order_of_torchscript_graph_is_followed() -> None:
    found = proof(Sorted(), "torchscript").verdicts
    assert (found["router"].kind, found["expert"].kind) == (VerdictKind.PROVEN, VerdictKind.PROVEN)


class Other(nn.Module):
    """Draws from a distribution that the test changes in the graph."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.add(torch.randn_like(x)).argsort()[0]


def test_numbers_of_another_distribution_are_not_followed() -> None:
    model = Routed(Other()).eval()
    randomise(model)
    result = export(model, (X,))
    (node,) = (node for node in result.model.graph if node.outputs[0].name == "randn_like")
    node.attributes["scale"] = ir.AttrFloat32("scale", 1000.0)
    assert "expert" in prove(Example(model, (X,)), result.model, result.attribution).unproven


@pytest.mark.parametrize("key", ["randn_like", "add"])
def test_wrong_tag_beside_random_numbers_is_named(key: str) -> None:
    model = Routed(Other()).eval()
    randomise(model)
    result = export(model, (X,))
    nodes = {**result.attribution.nodes, key: (Origin("expert", Evidence.TRACED),)}
    found = prove(Example(model, (X,)), result.model, replace(result.attribution, nodes=nodes)).unproven
    assert found["router"].value == key


class Descending(nn.Module):
    """Sorts."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.flatten().sort(descending=True)[1]


def test_reversed_order_is_not_followed() -> None:
    model = Routed(Descending()).eval()
    randomise(model)
    result = export(model, (X,))
    (node,) = (node for node in result.model.graph if "largest" in node.attributes)
    node.attributes["largest"] = ir.AttrInt64("largest", 0)
    assert "expert" in prove(Example(model, (X,)), result.model, result.attribution).unproven


HEAD = '<ir_version: 10, opset_import: ["": 20]> g (float[4] x, int64[1] k) => (float[2] y, int64[2] i, float[4] z)'


@pytest.mark.parametrize(
    ("node", "found"),
    [
        ("z = RandomNormalLike(x)", True),
        ("z = Bernoulli(x)", False),  # its numbers depend on elements: following would hide a wrong input
        ("z = Constant<value_float = 1.0>()", False),
        ("y, i = TopK(x, k)", True),
        ("y, i = other.TopK(x, k)", False),
        ("i = ArgMin(x)", True),
        ("y, i = Split<num_outputs = 2>(x)", False),
    ],
)
def test_only_draws_and_orders_are_choices(node: str, found: bool) -> None:
    assert has_choices(onnx.parser.parse_model(f"{HEAD} {{ {node} }}")) is found


@pytest.mark.parametrize("places", [[""], []])
def test_order_without_places_is_no_choice(places: list[str]) -> None:
    proto = onnx.parser.parse_model(f"{HEAD} {{ y, i = TopK(x, k) }}")
    proto.graph.node[0].output[1:] = places
    assert not has_choices(proto)


@contextmanager
def following(text: str) -> Iterator[onnx.ModelProto]:
    """Let torch's operations choose as a graph does."""
    proto = onnx.parser.parse_model(text)
    arrays: dict[str, Array] = {"x": np.array([1, 2, 3, 4], np.float32), "k": np.array([2], np.int64)}
    with following_choices(proto, partial(run_graph, proto, arrays)):
        yield proto


DRAWING = f"{HEAD} {{ z = RandomNormalLike(x) }}"


def drawn(proto: onnx.ModelProto) -> list[float]:
    """Return the numbers that a graph draws, which it holds."""
    found: list[float] = onnx.numpy_helper.to_array(proto.graph.node[0].attribute[0].t).tolist()
    return found


def test_numbers_of_a_generator_are_followed() -> None:
    with following(DRAWING) as proto:
        assert torch.randn(4, generator=torch.Generator()).tolist() == drawn(proto)


@pytest.mark.parametrize(
    "compute",
    [
        lambda: torch.rrelu(torch.tensor([1.0, 0.5, -0.5, -1.0])),  # draws while training alone
        lambda: torch.native_dropout(torch.ones(4), 0.5, train=True)[0],  # one tensor of several is random
        lambda: torch.randn(3),
    ],
)
def test_operation_without_equal_draws_keeps_its_result(compute: Callable[[], torch.Tensor]) -> None:
    with following(DRAWING) as proto:
        assert compute().tolist() != drawn(proto)


def test_draws_beyond_those_of_the_graph_are_not_replaced() -> None:
    with following(DRAWING) as proto:
        first, second = torch.randn(4), torch.randn(4)
        assert first.tolist() == drawn(proto) != second.tolist()


def test_large_draws_are_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choices, "_MOST_BYTES", 15)
    with following(DRAWING) as proto:
        assert proto.graph.node[0].op_type == "RandomNormalLike"


def test_order_of_stored_elements_is_followed() -> None:
    with following(f"{HEAD} <float[4] w = {{1, 1, 1, 1}}> {{ y, i = TopK<largest = 0>(w, k) }}") as proto:
        places = torch.ones(4).topk(2, largest=False)[1]
        assert (places.tolist(), len(proto.graph.node)) == ([0, 1], 1)


def test_order_of_no_elements_raises_no_error() -> None:
    text = """<ir_version: 10, opset_import: ["": 20]> g (float[N,3] x) => (float[N,3] v, int64[N,3] places) {
      k = Constant<value_ints = [3]>() v, places = TopK(x, k)
    }"""
    proto = onnx.parser.parse_model(text)
    feeds: dict[str, Array] = {"x": np.ones((0, 3), np.float32)}
    with following_choices(proto, partial(run_graph, proto, feeds)):
        assert torch.ones(0, 3).topk(3)[1].shape == (0, 3)


def test_only_element_of_a_scalar_stays_the_largest() -> None:
    with following(f"{HEAD} {{ i = ArgMax(x) }}"):
        assert (torch.tensor(3.0).argmax(0).item(), torch.ones(2, 2).argmax().item()) == (0, 0)


def test_order_along_another_axis_is_not_followed() -> None:
    text = """<ir_version: 10, opset_import: ["": 20]> g (float[3,3] x) => (float[3,3] v, int64[3,3] places) {
      k = Constant<value_ints = [3]>() v, places = TopK<axis = 0>(x, k)
    }"""
    proto = onnx.parser.parse_model(text)
    feeds: dict[str, Array] = {"x": np.ones((3, 3), np.float32)}
    with following_choices(proto, partial(run_graph, proto, feeds)):
        _, places = torch.ones(3, 3).sort(1)
    assert places.sort(1)[0].tolist() == [[0, 1, 2]] * 3


def test_graph_holds_its_draws_and_is_restored_after_error() -> None:
    proto = onnx.parser.parse_model(f"{HEAD} {{ y, i = TopK<sorted = 0>(x, k) z = RandomNormalLike(x) }}")
    before = proto.SerializeToString()
    feeds: dict[str, Array] = {"x": np.array([1, 2, 3, 4], np.float32), "k": np.array([2], np.int64)}
    held: list[list[str]] = []

    def failing() -> None:
        with following_choices(proto, partial(run_graph, proto, feeds)):
            held.extend(list(node.input) for node in proto.graph.node)
            raise KeyError

    with pytest.raises(KeyError):
        failing()
    assert held == [["x", "k"], []]
    assert proto.SerializeToString() == before
