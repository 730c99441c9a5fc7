"""Builds models whose parameters take no memory: they have a type and a shape, and no numbers.

A parameter becomes a fake tensor of torch when a module registers it, so that no two of them are in memory at once.
Buffers keep their numbers: tables and masks decide what a graph looks like.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils.weak import WeakIdKeyDictionary

from pytest_hierexport._export.state import replaced

__all__ = ["building_without_weights", "without_weights"]

_BUILDING: ContextVar[bool] = ContextVar("_BUILDING", default=False)

Strip = Callable[[torch.nn.Module], None]


def building_without_weights() -> bool:
    """Whether a model is being built in the context of :func:`without_weights`: its weights need not be loaded."""
    return _BUILDING.get()


@contextmanager
def without_weights() -> Iterator[Strip]:
    """Register parameters without numbers while the context lasts.

    Gives a function that replaces those parameters of a model that came by another way, as copies do.
    """
    # Real inputs run on such a model, which gives the shapes of its outputs.
    mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv())
    made: Any = WeakIdKeyDictionary()

    def fake(parameter: Any) -> Any:
        known = isinstance(parameter, (FakeTensor, torch.nn.UninitializedParameter))
        if known or not isinstance(parameter, torch.nn.Parameter):
            return parameter
        if parameter not in made:
            with mode:
                empty = torch.empty_strided(parameter.size(), parameter.stride(), dtype=parameter.dtype)
            made[parameter] = torch.nn.Parameter(empty, requires_grad=parameter.requires_grad)
        return made[parameter]

    def strip(model: torch.nn.Module) -> None:
        for module in model.modules():
            for name, parameter in module._parameters.items():
                module._parameters[name] = fake(parameter)

    def converted(parameter: Any, function: Callable[[Any], Any]) -> Any:
        if parameter not in made:
            made[parameter] = torch.nn.Parameter(function(parameter), requires_grad=parameter.requires_grad)
        return made[parameter]

    register, apply = torch.nn.Module.register_parameter, torch.nn.Module._apply

    def register_fake(module: torch.nn.Module, name: str, param: torch.nn.Parameter | None) -> None:
        register(module, name, fake(param))

    def apply_fake(module: torch.nn.Module, fn: Callable[[Any], Any], recurse: bool = True) -> torch.nn.Module:
        """Convert a module (`half`, `to`): torch would swap the storage of each parameter, and cannot for fake ones."""
        fakes = {name: each for name, each in module._parameters.items() if isinstance(each, FakeTensor)}
        module._parameters.update(dict.fromkeys(fakes))
        try:
            return apply(module, fn, recurse)
        finally:
            with torch.no_grad():
                module._parameters.update({name: converted(each, fn) for name, each in fakes.items()})

    token = _BUILDING.set(True)
    try:
        with (
            replaced(torch.nn.Module, "register_parameter", register_fake),
            replaced(torch.nn.Module, "_apply", apply_fake),
        ):
            yield strip
    finally:
        _BUILDING.reset(token)
