from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.export import Dim

from pytest_hierexport._export.torchscript.dynamic_axes import dynamic_axes

A, B = torch.ones(2, 3), torch.ones(4)
DIM: Any = Dim


def test_axes_are_named_by_their_dimensions() -> None:
    shapes = {"x": {0: Dim("batch"), 1: "length"}, "y": {0: Dim("batch")}}
    axes = dynamic_axes(shapes, [("x", A), ("y", B)], ["x", "y"])
    assert axes == {"x": {0: "batch", 1: "length"}, "y": {0: "batch"}}


def test_dimensions_without_a_name_are_named_by_their_input() -> None:
    assert dynamic_axes({"x": (DIM.AUTO, DIM.DYNAMIC)}, [("x", A)], ["in"]) == {"in": {0: "in_dim_0", 1: "in_dim_1"}}


@pytest.mark.parametrize("static", [None, (None, 3), {1: DIM.STATIC}, {}])
def test_what_is_static_stays_so(static: Any) -> None:
    assert dynamic_axes({"x": static}, [("x", A)], ["x"]) == {}


def test_shapes_may_be_given_in_order() -> None:
    assert dynamic_axes(({0: "n"}, None), [("x", A), ("y", B)], ["x", "y"]) == {"x": {0: "n"}}
    assert dynamic_axes(({0: "n"},), [("x", A), ("y", B)], ["x", "y"]) == {"x": {0: "n"}}


def test_shapes_are_nested_like_the_inputs() -> None:
    arguments = [("cache", {"keys": [A, 7], "values": (A, B)})]
    shapes = {"cache": {"keys": [{1: "past"}, None], "values": (None, {0: "n"})}}
    names = ["cache.keys.0", "cache.values.0", "cache.values.1"]
    assert dynamic_axes(shapes, arguments, names) == {"cache.keys.0": {1: "past"}, "cache.values.1": {0: "n"}}


def test_those_of_variable_arguments_stand_under_their_parameter() -> None:
    assert dynamic_axes({"xs": ({0: "n"}, None)}, [("xs.0", B), ("xs.1", B)], ["a", "b"]) == {"a": {0: "n"}}
