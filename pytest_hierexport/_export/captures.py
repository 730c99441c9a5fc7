"""Chooses the capture for a request, and explains why none can export the model.

In goes a request; out comes a :class:`Served`, by :func:`capture_with`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from pytest_hierexport._errors import ExportError, UsageError, cause, pass_on
from pytest_hierexport._export import transformers
from pytest_hierexport._export.capture import CannotCaptureError, Capture, Capturer, Request
from pytest_hierexport._export.choices import EXPORTERS, ExportOptions, refuse_names
from pytest_hierexport._export.dynamo import capturer as dynamo
from pytest_hierexport._export.faults import fault_in
from pytest_hierexport._export.model_failure import failure_of_model
from pytest_hierexport._export.state import as_found
from pytest_hierexport._export.torchscript import capturer as torchscript

if TYPE_CHECKING:
    import onnx_ir as ir

CAPTURES: Mapping[str, Capturer] = {
    "dynamo": dynamo.capture,
    "transformers": transformers.capture,
    "torchscript": torchscript.capture,
}
"""Every capture by name, in the order in which `auto` tries them.

`choices.EXPORTERS` and `PEERS` of `_rules/peer.py` have the same names. The tables below state what is special.
"""


@dataclass(frozen=True)
class Served:
    """A capture, and what the user is told about it."""

    capture: Capture
    exporter: str
    """The name of the capture."""
    notes: tuple[str, ...]
    """Why earlier captures failed, then the notes of this capture."""
    warnings: tuple[str, ...] = ()
    """After a fallback to a capture that records one run: a line that says so, then the notes of this capture."""


def capture_with(request: Request) -> Served:
    """Capture a request with the exporter that it names, or for `auto` with the first that succeeds.

    `auto` skips graphs that the ONNX checker refuses, unless there is no other: then it takes the first of them. With
    `strict`, it fails before a capture that records one run.

    Raises:
        UsageError: No exporter has this name.
        ExportError: None of them can export the model, or code of this package failed.
    """
    if (exporter := request.options.exporter) not in EXPORTERS:
        raise UsageError(f"exporter to be {' or '.join(EXPORTERS)}", found=repr(exporter), do="choose one of them")
    failures: dict[str, CannotCaptureError] = {}
    try:
        return _first_to_serve(_suited(request) if exporter == "auto" else [exporter], request, failures)
    finally:
        # The errors refer to the frames that failed, and these to `failures`: a cycle that would keep their objects.
        failures.clear()


def _first_to_serve(names: list[str], request: Request, failures: dict[str, CannotCaptureError]) -> Served:
    refused: Served | None = None
    for name in names:
        if request.options.strict and failures and name in _RECORDS_ONE_RUN:
            raise failure_of_model(request) or _not_strict(request, failures, name) from _first_cause(failures)
        if name in _RECORDS_ONE_RUN and _shapes_are_at_fault(request, failures):
            raise _not_with_shapes(request, failures) from _first_cause(failures)
        try:
            capture = _captured(name, request)
        except CannotCaptureError as failure:
            failures[name] = failure
            continue
        served = _served(capture, name, failures)
        refusal = _refusal(capture.after) if request.options.exporter == "auto" else None
        if refusal is None:
            return served
        refused = refused or served
        failures[name] = CannotCaptureError(f"the ONNX checker refuses its graph: {refusal}")
    if refused is not None:
        return refused
    raise failure_of_model(request) or _not_captured(request, failures) from _first_cause(failures)


def _shapes_are_at_fault(request: Request, failures: Mapping[str, CannotCaptureError]) -> bool:
    """Whether a capture that failed succeeds without the dynamic shapes: they ask for what the model does not do.

    torch has no error of its own for this: a stated axis that the model fixes is a plain ValueError.
    """
    if request.options.dynamic_shapes is None:
        return False
    static = replace(request, options=replace(request.options, dynamic_shapes=None))
    for name in (name for name, failure in failures.items() if failure.__cause__ is not None):
        with suppress(CannotCaptureError):
            _captured(name, static)
            return True
    return False


def _captured(name: str, request: Request) -> Capture:
    """Run one capture.

    Raises:
        CannotCaptureError: It failed; another capture may succeed.
        HierexportError: The request or this package is at fault; no other capture shall be tried.
    """
    try:
        # What a capture that fails leaves in the model would be there for the next one.
        with as_found(request.model) if isinstance(request.model, torch.nn.Module) else nullcontext():
            capture = CAPTURES[name](request)
    except CannotCaptureError:
        raise
    except BaseException as error:
        pass_on(error)
        fault = fault_in(error, f"to capture {type(request.model).__name__} by {name}")
        raise (fault or CannotCaptureError(cause(error))) from error
    opset, wanted = capture.after.opset_imports.get(""), request.options.opset
    if wanted is not None and opset not in (None, wanted):
        raise CannotCaptureError(f"could not convert its graph from opset {opset} to {wanted}")
    _check_names(capture.after.graph, request.options)
    return capture


def _check_names(graph: ir.Graph, options: ExportOptions) -> None:
    """Check that no name that was asked for is that of another input, output or initializer.

    Raises:
        UsageError: One is: the graph would not be valid, or compute something else.
    """
    names = [value.name for value in {*graph.inputs, *graph.outputs, *graph.initializers.values()}]
    refuse_names(name for name in options.value_names if names.count(name) > 1)


def _served(capture: Capture, name: str, failures: Mapping[str, CannotCaptureError]) -> Served:
    others = tuple(f"{other} could not export the model: {why}" for other, why in failures.items())
    if not failures or name not in _RECORDS_ONE_RUN:
        return Served(capture, name, (*others, *capture.notes))
    names = " and ".join(failures)
    fallback = f"{name} served in the place of {names}: it records one run, of each branch in Python the side that ran"
    return Served(capture, name, others, (fallback, *capture.notes))


def _refusal(model: ir.Model) -> str | None:
    """Return the ONNX checker's message on a graph without its tensors; None if it accepts the graph."""
    from onnx_ir.passes.common import CheckerPass

    try:
        CheckerPass(full_check=True)(model.clone())  # a clone: the pass moves initializers
    except Exception as error:  # noqa: BLE001 its error classes share no base of their own
        return cause(error)
    return None


def _suited(request: Request) -> list[str]:
    """Return the captures that accept the model; those that write the requested opset without a conversion first."""
    suited = [name for name in CAPTURES if name not in _ACCEPTS or _ACCEPTS[name](request)]
    opset = request.options.opset
    return suited if opset is None else sorted(suited, key=lambda name: opset < _OWN_OPSETS_FROM.get(name, opset))


_ACCEPTS: Mapping[str, Callable[[Request], bool]] = {
    "transformers": transformers.serves,
    "torchscript": torchscript.serves,
}
"""For each capture that works on some models only: whether it accepts the model of a request."""

_OWN_OPSETS_FROM: Mapping[str, int] = {"dynamo": 18, "transformers": 18}
"""The oldest opset that a capture writes by itself; torch converts the graph to an older one where it can."""

_RECORDS_ONE_RUN = frozenset({"torchscript"})
"""The captures that record one run of the model: of a branch in Python, the graph has only the side that ran."""


def _not_captured(request: Request, failures: Mapping[str, CannotCaptureError]) -> ExportError:
    """Return the error for a request that no capture can export."""
    found, do = _reasons(failures), "try other inputs, dynamic_shapes or exporter, or fix what the message names"
    if compiled := _compiled_parts(request.model):
        found += f"; compiled by TorchScript: {', '.join(compiled)}"
        do = "put the modules that were scripted or traced in their place: no exporter sees into compiled ones"
    return ExportError(f"{type(request.model).__name__} to be captured as a graph", found=found, do=do)


def _not_strict(request: Request, failures: Mapping[str, CannotCaptureError], forbidden: str) -> ExportError:
    """Return the error for a request that only a capture could export which `strict` forbids."""
    name = type(request.model).__name__
    return ExportError(
        f"{name} to be captured as a graph without falling back to {forbidden}, as strict demands",
        found=_reasons(failures),
        do="fix what the message names (torch.cond keeps both branches); where one run is meant to be recorded, ask "
        f"for exporter {forbidden}; or drop strict",
    )


def _not_with_shapes(request: Request, failures: Mapping[str, CannotCaptureError]) -> ExportError:
    """Return the error for a request that can be exported without its dynamic shapes."""
    return ExportError(
        f"{type(request.model).__name__} to be captured as a graph with its dynamic shapes",
        found=f"{_reasons(failures)}; without them it is captured",
        do="leave out axes that the model fixes, as the message names them; or ask for exporter torchscript, which "
        "checks none of them",
    )


def _reasons(failures: Mapping[str, CannotCaptureError]) -> str:
    return "; ".join(f"{name}: {why}" for name, why in failures.items())


def _first_cause(failures: Mapping[str, CannotCaptureError]) -> BaseException | None:
    """Return the error of the first capture that has one: it is the preferred capture, so its error tells most."""
    return next((failure.__cause__ for failure in failures.values() if failure.__cause__ is not None), None)


def _compiled_parts(model: torch.nn.Module | torch.export.ExportedProgram) -> list[str]:
    """Return the paths of the outermost modules that TorchScript compiled."""
    if not isinstance(model, torch.nn.Module):
        return []
    paths = [path for path, module in model.named_modules() if isinstance(module, torch.jit.ScriptModule)]
    return [path for path in paths if not any(path.startswith(f"{other}.") for other in paths)]
