from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.export import AdditionalInputs, Dim, ShapesCollection

from pytest_hierexport import ExportError, export
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


class Summing(nn.Module):
    def forward(self, x: torch.Tensor, **more: torch.Tensor) -> torch.Tensor:
        return x + more["y"]


def collection(x: torch.Tensor, y: torch.Tensor) -> ShapesCollection:
    shapes = ShapesCollection()
    shapes[x] = shapes[y] = {0: DIM.DYNAMIC}
    return shapes


def inputs(x: torch.Tensor, y: torch.Tensor) -> AdditionalInputs:
    shapes = AdditionalInputs()
    shapes.add((torch.ones(5, 3),), {"y": torch.ones(5, 3)})
    return shapes


@pytest.mark.parametrize(
    "shapes",
    [
        collection,
        inputs,
        lambda *_: {"x": {0: DIM.DYNAMIC}, "more": {"y": {0: DIM.DYNAMIC}}},
        lambda *_: {"x": {0: DIM.DYNAMIC}, "y": {0: DIM.DYNAMIC}},
    ],
    ids=["collection", "inputs", "parameters", "names"],
)
def test_torchscript_takes_all_forms_of_torch(shapes: Any) -> None:
    x, y = torch.ones(2, 3), torch.ones(2, 3)
    stated = shapes(x, y)
    size = len(stated) if isinstance(stated, ShapesCollection) else None
    exported = export(Summing().eval(), (x,), {"y": y}, exporter="torchscript", dynamic_shapes=stated)
    assert [str(value.shape) for value in exported.model.graph.inputs] == ["[x_dim_0,3]", "[y_dim_0,3]"]
    assert size is None or len(stated) == size


def test_shapes_of_what_is_no_input_are_not_ignored() -> None:
    with pytest.raises(ExportError, match="not nested like the inputs"):
        export(Summing().eval(), (A,), {"y": A}, exporter="torchscript", dynamic_shapes={"z": {0: "n"}})
