"""Operations that leave the order of their results open: two right answers that differ prove nothing against a tag."""

from __future__ import annotations

import onnx
import pytest
import torch
from torch import nn

from pytest_hierexport.cases import Example
from pytest_hierexport.exporter import export
from pytest_hierexport.proof import Kind, Proof, prove
from pytest_hierexport.proof.order import in_definite_order
from pytest_hierexport.weights import randomise

X = torch.randn(6, 40, generator=torch.Generator().manual_seed(0))


class Largest(nn.Module):
    """Which are the largest, in whatever order they come."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.topk(2, sorted=False)[1]


class Sorted(nn.Module):
    """Sorts what has many equals, in whatever order those come."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mul(2).long().flatten().sort(0)[1]


class First(nn.Module):
    """Which are the largest where most are equal."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.relu().mul(0.5).floor().topk(9)[1]


class Conditional(nn.Module):
    """Chooses in a branch that torch captures as an operator."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        chosen: torch.Tensor = torch.cond(x.sum() > -1e9, lambda x: x.exp(), lambda x: x.neg(), (x,))
        return chosen.topk(2, sorted=False)[1]


class Expert(nn.Module):
    """Reads what it is told to, in whatever order it is told."""

    def forward(self, x: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
        return x.flatten()[chosen].sum()


class Routed(nn.Module):
    """Hands on what a router chose, in the router's order."""

    def __init__(self, router: nn.Module) -> None:
        super().__init__()
        self.proj = nn.Linear(40, 40)
        self.router = router
        self.expert = Expert()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        given: torch.Tensor = self.expert(x, self.router(self.proj(x)))
        return given


def proof(router: nn.Module) -> Proof:
    model = Routed(router).eval()
    randomise(model)
    result = export(model, (X,))
    return prove(Example(model, (X,)), result.model, result.attribution)


@pytest.mark.parametrize("router", [Largest, Sorted, First, Conditional])
def test_a_call_whose_order_is_open_is_proven_in_a_definite_one(router: type[nn.Module]) -> None:
    found = proof(router()).verdicts
    assert (found["router"].kind, found["expert"].kind) == (Kind.PROVEN, Kind.PROVEN)


def test_without_that_the_two_orders_do_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    from pytest_hierexport.proof import order

    monkeypatch.setattr(order, "_ASKS", frozenset())
    order._asking.cache_clear()
    assert "expert" in proof(Largest()).unproven
    assert "expert" in proof(Sorted()).unproven
    order._asking.cache_clear()


def test_a_graph_is_left_as_it_was_also_after_an_error() -> None:
    text = '<ir_version: 10, opset_import: ["": 20]> g (float[4] x, int64[1] k) => (float[2] y, int64[2] i)'
    proto = onnx.parser.parse_model(f"{text} {{ y, i = TopK<sorted = 0>(x, k) }}")
    before = proto.SerializeToString()
    orders = []

    def failing() -> None:
        with in_definite_order(proto):
            orders.append(proto.graph.node[0].attribute[0].i)
            raise KeyError

    with pytest.raises(KeyError):
        failing()
    assert orders == [1]
    assert proto.SerializeToString() == before
