"""Feeds: the example's inputs under the names that the graph gives them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
import torch
from torch import nn

from pytest_hierexport._cases import Example
from pytest_hierexport._errors import UsageError
from pytest_hierexport._proof.feeds import feeds_of
from pytest_hierexport._proof.tensors import array_of


class Model(nn.Module):
    def forward(self, ids: torch.Tensor, mask: torch.Tensor | None = None, *, past: Any = None, **more: Any) -> None:
        pass


class Cache:
    def __init__(self, *keys: torch.Tensor) -> None:
        self.keys = list(keys)


IDS, MASK, MORE = torch.tensor([1, 2]), torch.tensor([0.5]), torch.tensor([True])


def names(*args: Any, inputs: str, **kwargs: Any) -> dict[str, Any]:
    graph = onnx.parser.parse_graph(f"g ({', '.join(f'float[N] {name}' for name in inputs.split())}) => () {{ }}")
    proto = onnx.ModelProto(graph=graph)
    return {name: array.tolist() for name, array in feeds_of(Example(Model(), args, kwargs), proto).items()}


def test_as_many_tensors_as_inputs_are_matched_in_order() -> None:
    assert names(IDS, MASK, inputs="a b") == {"a": [1, 2], "b": [0.5]}
    assert names(IDS, 2, past=MASK, inputs="a b") == {"a": [1, 2], "b": [0.5]}


def test_keywords_nested_inputs_and_caches_are_flattened_as_exporters_do() -> None:
    found = names(IDS, past=Cache(MASK, MORE), extra={"x": [IDS]}, inputs="a b c d")
    assert found == {"a": [1, 2], "b": [0.5], "c": [True], "d": [1, 2]}


def test_where_the_exporter_dropped_an_input_names_decide() -> None:
    assert names(IDS, MASK, inputs="mask") == {"mask": [0.5]}
    assert names(IDS, MASK, extra=MORE, inputs="extra ids") == {"extra": [True], "ids": [1, 2]}


def test_reordered_inputs_are_matched_by_their_names() -> None:
    assert names(IDS, MASK, inputs="mask ids") == {"mask": [0.5], "ids": [1, 2]}


def test_input_without_tensor_raises_error_with_its_name() -> None:
    with pytest.raises(UsageError, match="none for other"):
        names(IDS, MASK, inputs="other")


def test_initializers_among_the_inputs_need_no_tensor() -> None:
    graph = onnx.parser.parse_graph("g (float[N] x, float[1] w = {1.0}) => () { }")
    assert list(feeds_of(Example(Model(), (MASK,)), onnx.ModelProto(graph=graph))) == ["x"]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64, torch.int8, torch.bool])
def test_every_dtype_keeps_its_elements(dtype: torch.dtype) -> None:
    array = array_of(torch.tensor([0, 1]).to(dtype))
    assert array.dtype.name == str(dtype).removeprefix("torch.")
    assert array.astype(np.float64).tolist() == [0, 1]


def test_a_complex_tensor_has_a_last_dimension_of_two() -> None:
    assert array_of(torch.tensor([1 + 2j]).conj()).tolist() == [[1, -2]]
