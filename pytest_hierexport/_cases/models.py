"""What the model of a case may be: a module of which Python runs every call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_hierexport._errors import CollectError

if TYPE_CHECKING:
    import torch

__all__ = ["check_model"]


def check_model(model: object, expected: str, found: str) -> torch.nn.Module:
    """Return a model whose calls Python runs.

    Args:
        model: What may be one.
        expected: What was asked for.
        found: What was given, in words.

    Raises:
        CollectError: It is something else.
    """
    import torch

    if isinstance(model, torch.nn.Module) and not isinstance(model, torch.jit.ScriptModule):
        return model
    do = "return a torch.nn.Module with the inputs to run it on"
    if isinstance(model, torch.jit.ScriptModule):
        found = f"{found}; TorchScript compiled the model, so that its calls cannot be seen"
        do = _ORIGINAL.format("scripted or traced")
    if isinstance(model, torch.export.ExportedProgram):
        found = f"{found}; a program has no modules left whose calls the rules could run"
        do = _ORIGINAL.format("exported") + " (`pytest_hierexport.export()` takes the program itself)"
    raise CollectError(expected, found=found, do=do)


_ORIGINAL = "give the module that was {}"
