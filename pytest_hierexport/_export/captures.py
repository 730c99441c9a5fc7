"""Chooses the capture that serves a request, and explains why none does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_hierexport._errors import ExportError, HierexportError, UsageError, cause
from pytest_hierexport._export import transformers
from pytest_hierexport._export.capture import CannotCaptureError, Capture, Capturer, Request
from pytest_hierexport._export.choices import EXPORTERS
from pytest_hierexport._export.dynamo import capturer as dynamo
from pytest_hierexport._export.faults import fault_in
from pytest_hierexport._export.torchscript import capturer as torchscript

if TYPE_CHECKING:
    import onnx_ir as ir
    import torch

CAPTURES: Mapping[str, Capturer] = {
    "dynamo": dynamo.capture,
    "transformers": transformers.capture,
    "torchscript": torchscript.capture,
}
"""Every capture by name, in the order in which `auto` tries them.

A new one also goes into `choices.EXPORTERS`, which is read without torch, and into `PEERS` of `_rules/peer.py`. The
tables below say what is special about it.
"""


@dataclass(frozen=True)
class Served:
    """A capture, and what to say of how it came about."""

    capture: Capture
    exporter: str
    """The capture that served."""
    notes: tuple[str, ...]
    """The captures that failed before, then the capture's own notes."""
    warnings: tuple[str, ...] = ()
    """Where it fell back to a capture that records one run: a line that says so; the capture's own notes are here."""


def capture_with(request: Request) -> Served:
    """Capture a request with the exporter that it names, or for `auto` with the first that can.

    If the ONNX checker refuses the graph of every capture that gave one, the first of them serves.

    Raises:
        UsageError: No exporter has this name.
        ExportError: None of them can export the model, or code of this package failed.
    """
    exporter = request.options.exporter
    if exporter not in EXPORTERS:
        raise UsageError(f"exporter to be {' or '.join(EXPORTERS)}", found=repr(exporter), do="choose one of them")
    failures: dict[str, CannotCaptureError] = {}
    try:
        return _first_to_serve(request, failures)
    finally:
        # The frames that failed lead back to this one: a cycle that would keep all that they made.
        failures.clear()


def _first_to_serve(request: Request, failures: dict[str, CannotCaptureError]) -> Served:
    exporter = request.options.exporter
    refused: Served | None = None
    for name in _suited(request) if exporter == "auto" else (exporter,):
        if request.options.strict and failures and name in _ONE_RUN:
            raise _error(request, failures, forbidden=name) from _first_cause(failures)
        try:
            capture = _captured(name, request)
        except CannotCaptureError as failure:
            failures[name] = failure
            continue
        served = _served(capture, name, failures)
        refusal = _refusal(capture.after) if exporter == "auto" else None
        if refusal is None:
            return served
        refused = refused or served
        failures[name] = CannotCaptureError(f"the ONNX checker refuses its graph: {refusal}")
    if refused is not None:
        return refused
    raise _error(request, failures) from _first_cause(failures)


def _captured(name: str, request: Request) -> Capture:
    """Return what one capture gives.

    Raises:
        CannotCaptureError: Another capture may be tried.
        HierexportError: None may be: the request is at fault, or this package.
    """
    try:
        capture = CAPTURES[name](request)
    except (HierexportError, CannotCaptureError):
        raise
    except Exception as error:
        fault = fault_in(error, f"to capture {type(request.model).__name__} by {name}")
        raise (fault or CannotCaptureError(cause(error))) from error
    opset, wanted = capture.after.opset_imports.get(""), request.options.opset
    if wanted is not None and opset not in (None, wanted):
        raise CannotCaptureError(f"could not convert its graph from opset {opset} to {wanted}")
    return capture


def _served(capture: Capture, name: str, failures: Mapping[str, CannotCaptureError]) -> Served:
    others = tuple(f"{other} could not export the model: {why}" for other, why in failures.items())
    if not failures or name not in _ONE_RUN:
        return Served(capture, name, (*others, *capture.notes))
    names = " and ".join(failures)
    fallback = f"{name} served in the place of {names}: it records one run, and what Python decides in it is fixed"
    return Served(capture, name, others, (fallback, *capture.notes))


def _refusal(model: ir.Model) -> str | None:
    """Return what the ONNX checker, which is not shown the tensors, says against a graph."""
    from onnx_ir.passes.common import CheckerPass

    try:
        CheckerPass(full_check=True)(model.clone())  # it moves initializers about
    except Exception as error:  # noqa: BLE001 its error classes share no base of their own
        return cause(error)
    return None


def _suited(request: Request) -> list[str]:
    """Return the captures worth trying: first those that need not convert their graph to the opset asked for."""
    suited = [name for name in CAPTURES if name not in _SERVES or _SERVES[name](request)]
    opset = request.options.opset
    return suited if opset is None else sorted(suited, key=lambda name: opset < _OLDEST.get(name, opset))


_SERVES: Mapping[str, Callable[[Request], bool]] = {
    "transformers": transformers.serves,
    "torchscript": torchscript.serves,
}
"""What a capture that is for some models only asks of a request."""

_OLDEST: Mapping[str, int] = {"dynamo": 18, "transformers": 18}
"""The oldest opset in which a capture makes its graph; torch converts it further down where it can."""

_ONE_RUN = frozenset({"torchscript"})
"""The captures that record one run of the model: a branch that Python takes in it is the only one in the graph."""


def _error(request: Request, failures: Mapping[str, CannotCaptureError], forbidden: str = "") -> ExportError:
    """Return the error where no capture serves, or only one that `strict` forbids."""
    expected = f"{type(request.model).__name__} to be captured as a graph"
    found = "; ".join(f"{name}: {why}" for name, why in failures.items())
    do = (
        "run the model once on the same inputs; if that works, try other inputs, dynamic_shapes or exporter, "
        "or fix what the message names"
    )
    if forbidden:
        expected += f" without falling back to {forbidden}, as strict demands"
        do = (
            "fix what the message names (torch.cond keeps both branches); where one run is meant to be recorded, ask "
            f"for exporter {forbidden}; or drop strict"
        )
    elif compiled := _compiled_parts(request.model):
        found += f"; compiled by TorchScript: {', '.join(compiled)}"
        do = "put the modules that were scripted or traced in their place: no exporter sees into compiled ones"
    return ExportError(expected, found=found, do=do)


def _first_cause(failures: Mapping[str, CannotCaptureError]) -> BaseException | None:
    """Return what the first capture raised: it tells most."""
    return next((failure.__cause__ for failure in failures.values() if failure.__cause__ is not None), None)


def _compiled_parts(model: torch.nn.Module | torch.export.ExportedProgram) -> list[str]:
    """Return the paths of the modules that TorchScript compiled, without those inside them."""
    import torch

    if not isinstance(model, torch.nn.Module):
        return []
    paths = [path for path, module in model.named_modules() if isinstance(module, torch.jit.ScriptModule)]
    return [path for path in paths if not any(path.startswith(f"{other}.") for other in paths)]
