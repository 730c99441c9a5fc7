"""Checks that the model of a case is a module whose calls Python runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_hierexport._errors import CollectError

if TYPE_CHECKING:
    import torch

__all__ = ["check_model"]


def check_model(model: object, expected: str, found: str) -> torch.nn.Module:
    """Return the model of a case, checked.

    Args:
        model: The candidate.
        expected: What was expected, for the message.
        found: What was found, for the message.

    Raises:
        CollectError: It is no module, or a compiled or exported one, whose calls cannot be observed.
    """
    import torch

    if isinstance(model, torch.nn.Module) and not isinstance(model, torch.jit.ScriptModule):
        return model
    do = "return a torch.nn.Module with the inputs to run it on"
    if isinstance(model, torch.jit.ScriptModule):
        found = f"{found}; TorchScript compiled the model, so that its calls cannot be observed"
        do = _ORIGINAL.format("scripted or traced")
    if isinstance(model, torch.export.ExportedProgram):
        found = f"{found}; a program has no modules whose calls the rules can run"
        do = _ORIGINAL.format("exported") + " (`pytest_hierexport.export()` takes the program itself)"
    raise CollectError(expected, found=found, do=do)


_ORIGINAL = "give the module that was {}"
