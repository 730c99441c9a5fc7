"""Defines an example: a model with the inputs to run it on, and the forms in which factories may return one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_hierexport._errors import CollectError
from pytest_hierexport._export.choices import as_inputs
from pytest_hierexport._export.modules import check_initialised

if TYPE_CHECKING:
    import torch

_ORIGINAL = "give the module that was {}"
_PARTS = ("model", "args", "kwargs", "dynamic_shapes")


@dataclass
class Example:
    """A model and its example inputs."""

    model: torch.nn.Module
    args: Any = ()
    """A tuple of positional inputs; a single tensor, or a mapping of keyword inputs, is made one, as `export` does."""
    kwargs: dict[str, Any] = field(default_factory=dict)
    dynamic_shapes: Any = None
    """As for `torch.onnx.export`; a plain dict of input name to dimension names is enough."""
    notes: tuple[str, ...] = ()
    """What the user should know of the example, such as that its inputs were guessed."""

    def __post_init__(self) -> None:
        """Split the inputs into positional and keyword ones; None stands for no keyword inputs, as in `export`."""
        self.args, named = as_inputs(self.args, None)
        if named or not self.kwargs:
            self.kwargs = {**named, **(self.kwargs or {})}


def parts_of(made: object) -> dict[str, Any]:
    """Return the parts of a factory's result by name; empty for a result of no known form."""
    if isinstance(made, Example):
        return {name: getattr(made, name) for name in _PARTS}
    if isinstance(made, Mapping):
        return dict(made) if set(made) <= set(_PARTS) else {}
    if isinstance(made, (tuple, list)):
        return dict(zip(_PARTS, made, strict=False)) if 1 <= len(made) <= len(_PARTS) else {}
    return {"model": made}


def check_model(model: object, expected: str, found: str) -> torch.nn.Module:
    """Return the model of a case, checked; the message of the error says what was `expected` and `found`.

    Raises:
        CollectError: It is no module, or a compiled or exported one, whose calls cannot be observed.
        UsageError: A module of it was not initialised.
    """
    import torch

    if isinstance(model, torch.nn.Module) and not isinstance(model, torch.jit.ScriptModule):
        check_initialised(model)
        return model
    do = "return a torch.nn.Module with the inputs to run it on"
    if isinstance(model, torch.jit.ScriptModule):
        found = f"{found}; TorchScript compiled the model, so that its calls cannot be observed"
        do = _ORIGINAL.format("scripted or traced")
    if isinstance(model, torch.export.ExportedProgram):
        found = f"{found}; a program has no modules whose calls the rules can run"
        do = _ORIGINAL.format("exported") + " (`pytest_hierexport.export()` takes the program itself)"
    raise CollectError(expected, found=found, do=do)
