"""The proof of layers that torch computes by fused kernels in eval mode: the calls inside them have verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import pytest
import torch
from torch import nn

from pytest_hierexport import export
from pytest_hierexport._cases import Example
from pytest_hierexport._cases.weights import randomise
from pytest_hierexport._errors import UsageError
from pytest_hierexport._export.result import Export
from pytest_hierexport._proof import Proof, prove
from pytest_hierexport._proof.eager import Mode, run_model

MASK = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])


class Encoder(nn.Module):
    """An encoder as torch makes it by default, with nested tensors for a mask of padding."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2)
        self.out = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        out: torch.Tensor = self.out(self.encoder(x, src_key_padding_mask=mask))
        return out


@cache
def made(*, masked: bool) -> tuple[Example, Export]:
    torch.manual_seed(0)
    model = Encoder().eval()
    randomise(model)
    args = (torch.randn(2, 5, 8), *([MASK] if masked else []))
    return Example(model, args), export(model, args)


def proof_with(names: Mapping[str, str], *, masked: bool = False) -> Proof:
    """Return the proof where the nodes of some calls have the tags of others."""
    example, exported = made(masked=masked)
    nodes = {
        key: tuple(replace(origin, call=names.get(origin.call, origin.call)) for origin in origins)
        for key, origins in exported.attribution.nodes.items()
    }
    return prove(example, exported.model, replace(exported.attribution, nodes=nodes))


@pytest.mark.parametrize("masked", [False, True])
def test_calls_inside_encoder_layer_are_proven(masked: bool) -> None:
    _, exported = made(masked=masked)
    proof = proof_with({}, masked=masked)
    assert not proof.unproven
    # torch computes the projection of an attention without its module.
    uncalled = {f"encoder.layers.{i}.self_attn.out_proj" for i in range(2)}
    assert proof.verdicts.keys() == exported.attribution.hierarchy.keys() - uncalled
    assert {verdict.kind.value for verdict in proof.verdicts.values()} == {"proven", "pass-through"}


@pytest.mark.parametrize("pair", [("linear1", "linear2"), ("self_attn", "norm2")])
def test_swapped_tags_inside_encoder_layer_are_unproven(pair: tuple[str, str]) -> None:
    one, other = (f"encoder.layers.0.{name}" for name in pair)
    assert {one, other} <= proof_with({one: other, other: one}).unproven.keys()


@pytest.mark.parametrize("enabled", [True, False])
def test_proof_leaves_torch_switch_as_it_was(enabled: bool) -> None:
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(enabled)
    try:
        proof_with({})
        assert torch.backends.mha.get_fastpath_enabled() is enabled
        example, exported = made(masked=False)
        with pytest.raises(UsageError):
            prove(Example(example.model, (torch.randn(2, 5, 7),)), exported.model, exported.attribution)
        with pytest.raises(UsageError):
            run_model(Example(example.model, (torch.randn(2, 5, 7),)), Mode.EXPORTING)
        assert torch.backends.mha.get_fastpath_enabled() is enabled
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def test_plain_mode_computes_what_users_get() -> None:
    example, _ = made(masked=True)
    with torch.no_grad():
        wanted = example.model(*example.args)
    assert torch.equal(run_model(example, Mode.PLAIN), wanted)
    assert not torch.allclose(run_model(example, Mode.EXPORTING)[1, 3:], wanted[1, 3:])
