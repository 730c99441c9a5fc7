"""The proof of tensors that go from call to call by other ways than arguments and results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
from torch import nn
from torch.func import functional_call

from pytest_hierexport import export
from pytest_hierexport._calls.attribution import Evidence, Origin
from pytest_hierexport._calls.hierarchy import Hierarchy
from pytest_hierexport._cases import Example
from pytest_hierexport._cases.weights import randomise
from pytest_hierexport._export.result import Export
from pytest_hierexport._proof import Proof, prove
from pytest_hierexport._proof.call_values import EagerCall
from pytest_hierexport._proof.eager import Mode, run_eager
from pytest_hierexport._proof.tensors import fingerprint_of
from pytest_hierexport._proof.values import Values

X = torch.linspace(-1, 1, 24).reshape(3, 8)


class Backbone(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.second(torch.tanh(self.first(x))) * 2
        return out + x


class Hooked(nn.Module):
    """Multiplies by a feature map that a hook keeps, as DPT and perceptual losses do."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone, self.head = Backbone(), nn.Linear(8, 8)
        self.maps: dict[str, torch.Tensor] = {}
        self.backbone.first.register_forward_hook(self.keep)

    def keep(self, module: nn.Module, args: Any, output: torch.Tensor) -> None:
        self.maps["first"] = output

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.backbone(x)
        scaled: torch.Tensor = self.head(out * self.maps["first"])
        return scaled


class Computing(Hooked):
    """Keeps what its hook computes, which no call returns."""

    def keep(self, module: nn.Module, args: Any, output: torch.Tensor) -> None:
        self.maps["first"] = output.detach()[:, :1].add(1, alpha=0.5).sigmoid()


class Hypernetwork(nn.Module):
    """Computes the weight of a module."""

    def __init__(self) -> None:
        super().__init__()
        self.hyper, self.linear = nn.Linear(8, 64), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = self.hyper(x.mean(0)).view(8, 8)
        out: torch.Tensor = functional_call(self.linear, {"weight": weight}, (x,))
        return out


class Noting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.noted: torch.Tensor = self.linear(x).sin()
        return torch.mul(self.noted, 2.5)


class Referring(nn.Module):
    def __init__(self, noting: Noting) -> None:
        super().__init__()
        self.others, self.linear = [noting], nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.linear(x) + self.others[0].noted
        return out


class Siblings(nn.Module):
    """One module takes a tensor from another one, which is not registered below it."""

    def __init__(self) -> None:
        super().__init__()
        self.noting = Noting()
        self.referring = Referring(self.noting)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.referring(self.noting(x))
        return out


class Fetching(Referring):
    def forward(self, x: torch.Tensor) -> Any:
        return self.linear(x), self.others[0].noted


class Fetched(Siblings):
    """One module returns a tensor of another one as it is, beside its own."""

    def __init__(self) -> None:
        super().__init__()
        self.referring = Fetching(self.noting)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out, noted = self.referring(self.noting(x))
        return torch.mul(out, noted)


class Leaving(Noting):
    def forward(self, x: torch.Tensor, kept: list[torch.Tensor] | None = None) -> torch.Tensor:
        out: torch.Tensor = self.linear(x)
        assert kept is not None
        kept.append(out.exp())
        self.noted = out.sin()
        return out


class Left(nn.Module):
    """Takes what its modules left in a list and in an attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Leaving(), Leaving()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept: list[torch.Tensor] = []
        out = self.second(self.first(x, kept), kept)
        return torch.cat([out, *kept, self.second.noted])


class Transposing(nn.Module):
    """Gives a module a view of a tensor that no call has."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.linear(torch.tanh(x).transpose(0, 1))
        return out


MODELS = (Hooked, Computing, Hypernetwork, Siblings, Fetched, Left)


@cache
def made(cls: Callable[[], nn.Module]) -> tuple[Example, Export]:
    model = cls().eval()
    randomise(model)
    return Example(model, (X,)), export(model, (X,))


def proof_with(cls: Callable[[], nn.Module], **calls: str) -> Proof:
    """Return the proof where some nodes have the tag of another call, by node key."""
    example, exported = made(cls)
    wrong = {key: (Origin(call, Evidence.TRACED),) for key, call in calls.items()}
    nodes = {**exported.attribution.nodes, **wrong}
    return prove(example, exported.model, replace(exported.attribution, nodes=nodes))


def ran(cls: Callable[[], nn.Module]) -> tuple[dict[str, EagerCall], Values]:
    values = Values()
    calls = run_eager(made(cls)[0], Hierarchy([]), values, Mode.EXPORTING, by_operation=True)
    return {seen.call.name: seen for seen in calls}, values


@pytest.mark.parametrize("cls", MODELS)
def test_every_call_is_proven(cls: Callable[[], nn.Module]) -> None:
    proof = proof_with(cls)
    assert {verdict.kind.value for verdict in proof.verdicts.values()} == {"proven"}


@pytest.mark.parametrize("cls", MODELS)
def test_tag_of_any_other_call_is_found(cls: Callable[[], nn.Module]) -> None:
    attribution = made(cls)[1].attribution
    for key, (origin, *_) in attribution.nodes.items():
        for call in attribution.hierarchy.keys() - {origin.call}:
            proof = proof_with(cls, **{key: call})
            assert proof.unproven or proof.contaminated, (key, call)


def test_operations_of_hook_moved_to_caller_are_found() -> None:
    _, exported = made(Computing)
    owned = (key for key, origins in exported.attribution.nodes.items() if origins[0].call == "backbone.first")
    _, *computed_by_hook = owned
    assert len(computed_by_hook) == 3
    assert proof_with(Computing, **dict.fromkeys(computed_by_hook, "backbone")).unproven


def test_value_that_no_operation_outside_took_is_not_given() -> None:
    calls, values = ran(Hooked)
    model: Any = made(Hooked)[0].model
    with torch.no_grad():
        kept = model.backbone.first(X)
        inner = torch.tanh(kept)
    numbers = [values.add(found) for found in map(fingerprint_of, (kept, inner)) if found is not None]
    assert [number in calls["backbone"].available for number in numbers] == [True, False]


def test_call_is_given_what_its_operations_take_alone() -> None:
    calls, _ = ran(Siblings)
    assert list(calls["referring"].inputs.values()) == ["[0][0]", "taken by an operation"]
    assert list(calls["referring.linear"].inputs.values()) == ["[0][0]"]
    calls, _ = ran(Hypernetwork)
    assert list(calls["linear"].inputs.values()) == ["[0][0]", "taken by an operation"]


def test_recording_a_view_does_not_take_its_base() -> None:
    calls, _ = ran(Transposing)
    assert list(calls["linear"].inputs.values()) == ["[0][0]"]
