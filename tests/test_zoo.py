from __future__ import annotations

import importlib
import subprocess
import sys

import pytest
import torch
from torch.utils import _pytree as pytree

from pytest_hierexport._cases import Example
from pytest_hierexport._cases.weights import randomise
from pytest_hierexport._cases.zoo import ZOO, Entry


@pytest.fixture(params=ZOO.values(), ids=list(ZOO))
def entry(request: pytest.FixtureRequest) -> Entry:
    value: Entry = request.param
    return value


def build(entry: Entry) -> Example:
    module, _, function = entry.factory.partition(":")
    torch.manual_seed(0)
    example: Example = getattr(importlib.import_module(module), function)()
    randomise(example.model)
    return example


def outputs(example: Example) -> list[torch.Tensor]:
    with torch.no_grad():
        result = example.model(*example.args, **example.kwargs)
    return [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]


def test_every_model_runs_with_finite_varying_outputs(entry: Entry) -> None:
    values = outputs(build(entry))
    assert values
    for value in values:
        assert value.isfinite().all()
        assert value.std() > 0


def test_every_model_is_ready_for_inference(entry: Entry) -> None:
    assert not build(entry).model.training


def test_every_model_is_the_same_when_it_is_built_again(entry: Entry) -> None:
    for first, again in zip(outputs(build(entry)), outputs(build(entry)), strict=True):
        assert torch.equal(first, again)


def test_text_inputs_mask_tokens_in_one_row_only(entry: Entry) -> None:
    mask = build(entry).kwargs.get("attention_mask")
    if mask is not None:
        assert mask[0].all()
        assert 0 < mask[1].sum() < mask.shape[1]


def test_the_table_is_read_without_torch_or_transformers() -> None:
    heavy = "{'torch', 'transformers'} & set(sys.modules)"
    code = f"import sys; from pytest_hierexport._cases.zoo import ZOO; print(len(ZOO), {heavy})"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == f"{len(ZOO)} set()\n"
