"""Models that TorchScript exports with branches of scripted functions, as torchvision's detectors have them."""

from __future__ import annotations

import torch
from torch import nn

from pytest_hierexport import Example, export, prove
from pytest_hierexport._export.torchscript.before import _consumed_instead
from pytest_hierexport._export.torchscript.graph import Block, Operation


@torch.jit.script_if_tracing  # type: ignore[untyped-decorator]
def first(rows: torch.Tensor, count: int) -> torch.Tensor:
    if rows.numel() == 0:
        return torch.zeros([0])
    return rows[0:count] * 2


class Positive(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = first(x[x[:, 0] > 0], 2)
        return found


class AllButLast(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, : x.shape[1] - 1]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.last = Positive(), Positive(), AllButLast()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.last(self.one(x) + self.two(x * 2))
        return found


class Bags(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bag, self.other = nn.EmbeddingBag(10, 4), nn.EmbeddingBag(10, 4)

    def forward(self, rows: torch.Tensor, starts: torch.Tensor) -> torch.Tensor:
        first, again = self.bag(rows, starts), self.bag(rows, starts)
        result: torch.Tensor = first + torch.tanh(again) * self.other(rows, starts)
        return result


def test_branches_of_two_calls_are_proven() -> None:
    # torch states the shape of the branch that is not taken, and folds in the main graph what both branches compute.
    example = Example(Net(), (torch.rand(4, 3),))
    made = export(example.model, example.args, exporter="torchscript")
    inside = {key: {o.call for o in found} for key, found in made.attribution.nodes.items() if "_branch/" in key}
    assert set(map(frozenset, inside.values())) == {frozenset(["one"]), frozenset(["two"])}
    assert prove(example, made.model, made.attribution).counts()["proven"] == 4


def test_loop_that_torch_computes_once_belongs_to_both_calls() -> None:
    example = Example(Bags().eval(), (torch.randint(0, 10, (6,)), torch.tensor([0, 2])))
    made = export(example.model, example.args, exporter="torchscript")
    calls = {frozenset(o.call for o in found) for key, found in made.attribution.nodes.items() if "/body/" in key}
    assert {frozenset(["bag", "bag@1"]), frozenset(["other"])} <= calls
    assert prove(example, made.model, made.attribution).counts()["proven"] == 4


def test_long_chain_of_fused_pairs_is_followed() -> None:
    def chain(start: int, kinds: list[str]) -> Block:
        operations = [Operation(kind, (), (i,), (i + 1,)) for i, kind in enumerate(kinds, start)]
        return Block((start,), tuple(operations), (start + len(kinds),))

    before, after = chain(0, ["onnx::Conv", "onnx::BatchNormalization"] * 1_000), chain(9_999, ["onnx::Conv"] * 1_000)
    assert len(list(_consumed_instead(before, after))) == 1_001
