"""Checks `dynamic_shapes`, as `torch.export` takes them, against the inputs: a mistake is told before any capture."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.export.dynamic_shapes import AdditionalInputs, ShapesCollection

from pytest_hierexport._errors import UsageError

_VARIADIC = frozenset({inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD})


def complete_shapes(shapes: Any, inputs: inspect.BoundArguments | None, of: str) -> Any:
    """Return dynamic shapes with an entry for each input where they are stated by name: torch requires it.

    Args:
        shapes: By parameter or in order: for each tensor a mapping from axes to dimensions, or a list of dimensions.
        inputs: The inputs of the model; None where it cannot be known which parameters they are of.
        of: The model, for messages.

    Raises:
        UsageError: They do not fit the inputs.
    """
    if shapes is None or isinstance(shapes, (AdditionalInputs, ShapesCollection)):
        return shapes
    if not isinstance(shapes, (Mapping, list, tuple)):
        do = 'state them as {"input": {axis: "size"}}, or in the order of the inputs'
        raise UsageError(f"dynamic shapes of {of} by input", found=repr(shapes), do=do)
    if inputs is None or _VARIADIC & {inputs.signature.parameters[name].kind for name in inputs.arguments}:
        return shapes
    given = inputs.arguments
    by_name = shapes if isinstance(shapes, Mapping) else dict(zip(given, shapes, strict=False))
    unknown = ", ".join(str(name) for name in by_name if name not in given)
    if unknown or len(shapes) > len(given):
        raise UsageError(
            f"dynamic shapes of {of} for its inputs: {', '.join(given)}",
            found=unknown or f"{len(shapes)} entries",
            do="name inputs as forward names them" if unknown else "state one for each input, None for a static one",
        )
    tensors = {
        name: axes for name, axes in by_name.items() if axes is not None and isinstance(given[name], torch.Tensor)
    }
    for name, axes in tensors.items():
        _check_axes(axes, list(given[name].shape), f"{name} in {of}", name)
    _check_equal_names(tensors, given, of)
    return {name: shapes.get(name) for name in given} if isinstance(shapes, Mapping) else shapes


def _check_equal_names(shapes: Mapping[str, Any], given: Mapping[str, Any], of: str) -> None:
    """Refuse one name for axes of different sizes: torch would write it on both, as if they were always equal."""
    first: dict[str, tuple[int, str]] = {}
    for name, axes in shapes.items():
        for axis, size in _stated(axes).items():
            if not isinstance(size, str):
                continue
            here = given[name].shape[axis], f"axis {axis} of {name}"
            known = first.setdefault(size, here)
            if known[0] != here[0]:
                raise UsageError(
                    f"axes of one dynamic size of {of} to be equal in its inputs",
                    found=f"{size!r}, which is {known[0]} at {known[1]} and {here[0]} at {here[1]}",
                    do="give sizes that differ names of their own",
                )


def _stated(axes: Any) -> dict[Any, Any]:
    return dict(axes) if isinstance(axes, Mapping) else dict(enumerate(axes))


def _check_axes(axes: Any, sizes: Sequence[int], of: str, name: str) -> None:
    if not isinstance(axes, Mapping) and not (isinstance(axes, (list, tuple)) and len(axes) == len(sizes)):
        do = f'state {{axis: "size"}}, or an entry for each axis; the shape of {name} is {sizes}'
        raise UsageError(f"dynamic axes of {of} among its {len(sizes)}", found=repr(axes), do=do)
    stated = _stated(axes)
    beyond = [axis for axis in stated if not isinstance(axis, int) or not 0 <= axis < len(sizes)]
    if beyond:
        raise UsageError(
            f"dynamic axes of {of} among its {len(sizes)}",
            found=", ".join(map(str, beyond)),
            do=f"count from 0; the shape of {name} is {sizes}",
        )
    other = [
        f"{size} for axis {axis}" for axis, size in stated.items() if isinstance(size, int) and size != sizes[axis]
    ]
    if other:
        do = f'give a dynamic axis a name, as in {{0: "batch"}}; the shape of {name} is {sizes}'
        raise UsageError(f"static axes of {of} to have the sizes of the input", found=", ".join(other), do=do)
