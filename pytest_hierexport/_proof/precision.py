"""Measures how far rounding moves the values of a model, by a run in another precision.

Tools compute half precision in single precision between casts, and move these casts: the values of model and graph are
then equal up to rounding errors, which grow with the depth. So the model runs twice, as it is and in the other
precision. An equal value of the graph lies about as far from the model's as the second run does:

    model in float16    h = a(x)     y = b(h)
    in float32          h + 0.001    y + 0.02
    bounds              0.01 (float16's own)    0.08

A model in float32 whose rounding is multiplied runs in float64 (pe_audio, rt_detr).

A bound that is wide may hold values of other calls as well. Which of them a value of the graph is, is then not known:
the verdict on a call that depends on it is `ambiguous`.

In goes a run of the model; out comes a bound for each of its values, by :func:`rounding_bounds`. What the model
returns in float64 is given by :func:`run_in_float64`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import onnx
import torch

from pytest_hierexport._calls.hierarchy import Hierarchy
from pytest_hierexport._export.modules import distinct_modules
from pytest_hierexport._onnx.graph import inventory_proto
from pytest_hierexport._proof.call_values import EagerCall
from pytest_hierexport._proof.eager import Mode, Runnable, run_eager, run_model
from pytest_hierexport._proof.tensors import walk
from pytest_hierexport._proof.values import Values

FACTOR = 4.0
"""How many times as far as the other run a value of the graph may lie: a tool rounds at other places."""
CAP = 0.5
"""The largest bound, relative to magnitude: within more, nearly all values would be equal."""
_HALF = {"bfloat16": torch.bfloat16, "float16": torch.float16}
"""The dtypes of half precision, the coarser first."""


@dataclass(frozen=True)
class Converted:
    """A model with its inputs, all floating tensors in one dtype."""

    model: torch.nn.Module
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


def half_precision(example: Runnable, proto: onnx.ModelProto) -> str:
    """Return the coarsest dtype of half precision in a model or its graph; empty where there is none."""
    held = {str(tensor.dtype).removeprefix("torch.") for tensor in tensors_of(example)}
    stored = {tensor.data_type for tensor in proto.graph.initializer}
    cast = {
        attribute.i
        for _, node in inventory_proto(proto).nodes
        for attribute in node.attribute
        if attribute.name == "to"
    }
    given = {value.type.tensor_type.elem_type for value in (*proto.graph.input, *proto.graph.value_info)}
    codes = stored | cast | given
    code_of = onnx.TensorProto.DataType.Value
    return next((name for name in _HALF if name in held or code_of(name.upper()) in codes), "")


def _other_precision(example: Runnable, precision: str) -> torch.dtype:
    """Return the dtype in which a model runs once more: that of half precision or, if it has that, the next finer."""
    if not precision:
        return torch.float64
    half = _HALF[precision]
    return torch.float32 if any(tensor.dtype is half for tensor in tensors_of(example)) else half


def rounding_bounds(
    example: Runnable, hierarchy: Hierarchy, mode: Mode, values: Values, calls: Sequence[EagerCall]
) -> dict[int, float]:
    """Return how far an equal value may lie from each value of a run that rounding moves; none where it is unknown.

    Args:
        example: The model with its inputs.
        hierarchy: The calls of the graph.
        mode: The way in which the model ran.
        values: The values of the run.
        calls: The calls of the run.
    """
    moved = Values(precision=values.precision or "float32")
    try:
        seen = run_eager(converted(example, _other_precision(example, values.precision)), hierarchy, moved, mode)
    except Exception:  # noqa: BLE001  # a model's own code raises what it pleases
        # What cannot be copied, or does not run in the other precision, keeps the tolerance of its dtype.
        return {}
    bounds: dict[int, float] = {}
    counterparts = {each.call.name: each for each in seen}
    for call in (call for call in calls if call.call.name in counterparts):
        other_call = counterparts[call.call.name]
        for places in ((call.inputs, other_call.inputs), (call.returned, other_call.returned)):
            for own, number in _counterparts(values, moved, *places):
                found = min(FACTOR * values.distance(moved[number], [own]), CAP)
                bounds[own] = max(bounds.get(own, 0.0), found)
    return bounds


def run_in_float64(example: Runnable, mode: Mode) -> Any:
    """Return what a model returns in float64; None where it cannot be copied, or does not run so."""
    with suppress(Exception):  # a model's own code raises what it pleases
        return run_model(converted(example, torch.float64), mode)
    return None


def _counterparts(
    values: Values, moved: Values, places: Mapping[int, str], other: Mapping[int, str]
) -> Iterator[tuple[int, int]]:
    """Yield the number of each floating tensor in one run and that of the tensor at its place in the other."""
    # Several tensors may have one place: submodules that keep a `state` each, of which one is a mask.
    floating = ((number, place) for number, place in other.items() if moved[number].numbers is not None)
    numbers = {(place, moved[number].shape): number for number, place in floating}
    for own, place in places.items():
        key = (place, values[own].shape)
        if values[own].numbers is not None and key in numbers:
            yield own, numbers[key]


def tensors_of(example: Runnable) -> list[torch.Tensor]:
    """Return the tensors of a model and its inputs: parameters, buffers, and those in plain attributes."""
    # A module's own dictionary holds those of its parameters and buffers; the modules below it come by themselves.
    holders = [vars(module) for module in distinct_modules(example.model)]
    return [part for _, part in walk((*holders, example.args, example.kwargs)) if isinstance(part, torch.Tensor)]


def converted(example: Runnable, dtype: torch.dtype) -> Converted:
    """Return a copy of a model and its inputs with the same numbers, every floating tensor in a dtype."""
    tensors = {id(tensor): _converted(tensor, dtype) for tensor in tensors_of(example)}
    model, args, kwargs = copy.deepcopy((example.model, tuple(example.args), dict(example.kwargs)), tensors)
    return Converted(model, args, kwargs)


def _converted(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    found = tensor.detach().to(dtype) if tensor.is_floating_point() else tensor.detach()
    # A tensor of its own: a forward pass may write to it.
    found = found.clone() if found.data_ptr() == tensor.data_ptr() else found
    is_parameter = isinstance(tensor, torch.nn.Parameter)
    return torch.nn.Parameter(found, requires_grad=False) if is_parameter else found
