"""Tensors and numbers, wherever a module call may hold them."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from pytest_hierexport._proof.tensors import fingerprint_of, fingerprints_of_number, returned_arrays, version_of, walk

Pair = namedtuple("Pair", ["left", "right"])  # noqa: PYI024  # models return the untyped kind
ONE, TWO = torch.tensor([1.0, 2.0]), torch.tensor([3.0])


@dataclass
class Output:
    hidden: torch.Tensor
    more: Any = None


class Slotted:
    __slots__ = ("keys",)

    def __init__(self, keys: torch.Tensor) -> None:
        self.keys = keys


class Cache:
    def __init__(self, *layers: Any) -> None:
        self.layers = list(layers)
        self.length = 7


@pytest.mark.parametrize(
    ("holder", "places"),
    [
        (ONE, [""]),
        ([ONE, (TWO, None)], ["[0]", "[1][0]"]),
        ({"a": {"b": ONE}}, ["['a']['b']"]),
        ({TWO}, ["{}"]),
        (Pair(ONE, TWO), [".left", ".right"]),
        (Output(ONE, {"k": TWO}), [".hidden", ".more['k']"]),
        (Cache(Slotted(ONE), Slotted(TWO)), [".layers[0].keys", ".layers[1].keys"]),
        ([1, 2.5, True], ["[0]", "[1]", "[2]"]),
        ("text", []),
        (torch.nn.Linear(2, 2), []),
    ],
)
def test_each_is_named_by_the_place_where_it_was_found(holder: Any, places: list[str]) -> None:
    assert [place for place, _ in walk(holder)] == places


def test_settings_among_an_objects_attributes_are_no_values() -> None:
    assert [part for _, part in walk(Cache(ONE))] == [ONE]


def test_an_object_that_holds_itself_is_looked_into_once() -> None:
    cache = Cache(ONE)
    cache.layers.append(cache)
    assert [place for place, _ in walk(cache)] == [".layers[0]"]


def test_a_complex_tensor_is_shown_as_onnx_holds_it() -> None:
    shown = fingerprint_of(torch.tensor([1 + 2j]))
    assert shown is not None
    assert (shown.dtype, shown.shape) == ("float32", (1, 2))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn, torch.float16, torch.int8, torch.bool])
def test_every_dtype_keeps_its_name(dtype: torch.dtype) -> None:
    shown = fingerprint_of(torch.ones(2).to(dtype))
    assert shown is not None
    assert f"torch.{shown.dtype}" == str(dtype)


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.empty(2, device="meta"),
        lambda: torch.eye(2).to_sparse(),
        lambda: torch.nested.as_nested_tensor([torch.ones(1), torch.ones(2)]),
        lambda: FakeTensorMode().from_tensor(torch.ones(2)),
    ],
)
@pytest.mark.filterwarnings("ignore:.*prototype stage")
def test_tensor_without_elements_to_read_is_not_shown(make: Callable[[], torch.Tensor]) -> None:
    assert fingerprint_of(make()) is None


def test_tensor_under_vmap_is_not_shown() -> None:
    found: list[object] = []

    def note(x: torch.Tensor) -> torch.Tensor:
        found.append(fingerprint_of(x))
        return x

    torch.vmap(note)(torch.ones(2, 3))
    assert found == [None]


@torch.inference_mode()
def test_version_of_a_tensor_without_elements_is_unknown() -> None:
    assert version_of(torch.eye(2).to_sparse()) is None


@torch.inference_mode()
def test_write_in_inference_mode_changes_the_version() -> None:
    tensor = torch.ones(2)
    before = version_of(tensor)
    assert version_of(tensor.clone()) == before
    assert version_of(tensor.add_(1)) != before


def test_a_python_number_may_be_any_scalar_that_it_fits() -> None:
    assert {shown.dtype for shown in fingerprints_of_number(True)} == {"bool"}
    assert {shown.dtype for shown in fingerprints_of_number(2)} == {"int64", "float32", "float64"}
    assert {shown.dtype for shown in fingerprints_of_number(0.5)} == {"float32", "float64"}
    assert {shown.dtype for shown in fingerprints_of_number(2**70)} == {"float32", "float64"}


def test_numbers_of_numpy_are_those_of_the_tensor() -> None:
    shown = fingerprint_of(torch.tensor([1.5, -2.0]))
    assert shown is not None
    assert shown.numbers is not None
    assert np.array_equal(shown.numbers, [1.5, -2.0])


@pytest.mark.filterwarnings("ignore:(?s).*quantized tensor creation functions")
def test_quantized_tensor_has_the_values_of_its_integers() -> None:
    quantized = torch.quantize_per_tensor(torch.tensor([-1.0, 0.5, 2.0]), 0.5, 10, torch.quint8)
    found, integers = fingerprint_of(quantized), fingerprint_of(torch.tensor([8, 11, 14], dtype=torch.uint8))
    assert found is not None
    assert integers is not None
    assert (found.key, found.quantized, integers.quantized) == (integers.key, True, False)


def test_returned_tensors_do_not_go_to_the_default_device() -> None:
    returned = (torch.ones(2), 3)
    with torch.device("meta"):
        found = returned_arrays(returned, 2)
    assert [array.tolist() for array in found.values()] == [[1.0, 1.0], 3]
