"""Converts `dynamic_shapes`, as `torch.export` takes them, to `dynamic_axes` of the TorchScript exporter.

arguments       [("x", tensor), ("cache", [tensor, tensor])]
dynamic_shapes  {"x": {0: "batch"}, "cache": [{1: Dim("length")}, None]}
names           ["x", "cache.0", "cache.1"]
dynamic_axes    {"x": {0: "batch"}, "cache.0": {1: "length"}}
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any

import torch
from torch.export.dynamic_shapes import AdditionalInputs, ShapesCollection
from torch.utils import _pytree as pytree


def by_argument(dynamic_shapes: Any, model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Return dynamic shapes of any form that torch takes, stated by the names of the inputs or in their order.

    Those of `**kwargs`, which torch takes under the name of that parameter, are stated under the names of the inputs.

    Raises:
        ValueError: A collection has a tensor that is no input.
    """
    if isinstance(dynamic_shapes, (AdditionalInputs, ShapesCollection)):
        collected: Any = dynamic_shapes
        dynamic_shapes = collected.dynamic_shapes(model, args, dict(kwargs))
    if not isinstance(dynamic_shapes, Mapping):
        return dynamic_shapes
    stated = dict(dynamic_shapes)
    for name, parameter in inspect.signature(model.forward).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD and name not in kwargs:
            stated |= stated.pop(name, None) or {}
    return stated


def dynamic_axes(
    dynamic_shapes: Any, arguments: Sequence[tuple[str, Any]], names: Sequence[str]
) -> dict[str, dict[int, str]]:
    """Return the name of every dynamic axis, by input and axis.

    Args:
        dynamic_shapes: By parameter name or in order, nested like the inputs: for each tensor a mapping from axes to
            dimensions, or a sequence of dimensions. A dimension is a `Dim`, a name, or one of torch's hints. None, a
            number and the hint `STATIC` stand for a static axis.
        arguments: The inputs with their parameter names, in order.
        names: The name of every tensor among them, in order.

    Raises:
        LookupError: An entry is of none of the arguments.
    """
    given = {name.partition(".")[0] for name, _ in arguments}
    if isinstance(dynamic_shapes, Mapping) and any(spec and name not in given for name, spec in dynamic_shapes.items()):
        raise LookupError
    axes: dict[str, dict[int, str]] = {}
    specs = (
        spec for i, (name, value) in enumerate(arguments) for spec in _specs(_given(dynamic_shapes, name, i), value)
    )
    for name, spec in zip(names, specs, strict=True):
        dims = spec.items() if isinstance(spec, Mapping) else enumerate(spec or ())
        labels = {axis: label for axis, dim in dims if (label := _label(dim, f"{name}_dim_{axis}")) is not None}
        if labels:
            axes[name] = labels
    return axes


def _given(dynamic_shapes: Any, name: str, position: int) -> Any:
    """Return the entry for one argument; `xs.1` is the second argument of the parameter `*xs`."""
    if isinstance(dynamic_shapes, Mapping):
        base, _, index = name.partition(".")
        given = dynamic_shapes.get(base)
        return given[int(index)] if index and given else given
    return dynamic_shapes[position] if position < len(dynamic_shapes) else None


def _specs(spec: Any, value: Any) -> Iterator[Any]:
    """Yield the entry for each tensor in a value."""
    if isinstance(value, torch.Tensor):
        yield spec
        return
    children, _ = pytree.tree_flatten(value, is_leaf=lambda part: part is not value)
    keys = list(value) if isinstance(value, Mapping) else range(len(children))
    for key, child in zip(keys, children, strict=True):
        if child is not value:
            yield from _specs(spec[key] if spec else None, child)


def _label(dim: Any, otherwise: str) -> str | None:
    if dim is None or isinstance(dim, int):
        return None
    if isinstance(dim, str):
        return dim
    kind = getattr(dim, "type", None)
    if isinstance(kind, Enum):
        return None if kind.name == "STATIC" else otherwise
    return str(dim.__name__)
