"""Builds models whose parameters take no memory: they have a type and a shape, and no numbers.

A parameter becomes a fake tensor of torch when a module registers it, so that no two of them are in memory at once.
Buffers keep their numbers: tables and masks decide what a graph looks like.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils.weak import WeakIdKeyDictionary

from pytest_hierexport._export.state import replaced

__all__ = ["without_weights"]

Strip = Callable[[torch.nn.Module], None]


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

    register = torch.nn.Module.register_parameter

    def register_fake(module: torch.nn.Module, name: str, param: torch.nn.Parameter | None) -> None:
        register(module, name, fake(param))

    with replaced(torch.nn.Module, "register_parameter", register_fake):
        yield strip
