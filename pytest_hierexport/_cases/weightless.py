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

from pytest_hierexport._export.patching import replaced

_BUILDING: ContextVar[bool] = ContextVar("_BUILDING", default=False)


def building_without_weights() -> bool:
    """Whether a model is being built in the context of :func:`without_weights`: its weights need not be loaded."""
    return _BUILDING.get()


@contextmanager
def without_weights() -> Iterator[Callable[[torch.nn.Module], None]]:
    """Register parameters without numbers while the context lasts.

    Gives a function that replaces those parameters of a model that came by another way, as copies do.
    """
    fakes, module = _Fakes(), torch.nn.Module
    register, apply = fakes.registering(module.register_parameter), fakes.applying(module._apply)
    token = _BUILDING.set(True)
    try:
        with (
            replaced(module, "register_parameter", register),
            replaced(module, "_apply", apply),
            replaced(torch.nn.init, "_no_grad_trunc_normal_", _leaving(torch.nn.init._no_grad_trunc_normal_)),
        ):
            yield fakes.strip
    finally:
        _BUILDING.reset(token)


def _leaving(original: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Return a replacement of a function that draws numbers until they fit: those of a fake tensor never do."""

    def draw(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        return tensor if isinstance(tensor, FakeTensor) else original(tensor, *args, **kwargs)

    return draw


class _Fakes:
    """Makes one fake parameter of each parameter, so that tied ones stay tied."""

    def __init__(self) -> None:
        # Real inputs run on such a model, which gives the shapes of its outputs.
        self._mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv())
        self._made: Any = WeakIdKeyDictionary()

    def strip(self, model: torch.nn.Module) -> None:
        for module in model.modules():
            for name, parameter in module._parameters.items():
                module._parameters[name] = self._fake(parameter)

    def registering(self, original: Callable[..., None]) -> Callable[..., None]:
        def register_parameter(module: torch.nn.Module, name: str, param: Any) -> None:
            original(module, name, self._fake(param))

        return register_parameter

    def applying(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return a replacement of the method beneath `half` and `to`, which cannot swap the storage of fakes."""

        def apply(module: torch.nn.Module, fn: Callable[[Any], Any], *args: Any, **kwargs: Any) -> Any:
            held = {name: each for name, each in module._parameters.items() if isinstance(each, FakeTensor)}
            module._parameters.update(dict.fromkeys(held))
            try:
                return original(module, fn, *args, **kwargs)
            finally:
                with torch.no_grad():
                    module._parameters.update({name: self._once(each, fn) for name, each in held.items()})

        return apply

    def _fake(self, parameter: Any) -> Any:
        known = isinstance(parameter, (FakeTensor, torch.nn.UninitializedParameter))
        return parameter if known or parameter is None else self._once(parameter, self._empty_like)

    def _empty_like(self, tensor: torch.Tensor) -> torch.Tensor:
        with self._mode:
            return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype)

    def _once(self, parameter: Any, function: Callable[[Any], Any]) -> Any:
        if parameter not in self._made:
            made = function(parameter)
            self._made[parameter] = torch.nn.Parameter(made, requires_grad=parameter.requires_grad)
        return self._made[parameter]
