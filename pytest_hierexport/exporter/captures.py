"""Which capture serves a request, and what is said when none does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pytest_hierexport.choices import EXPORTERS
from pytest_hierexport.errors import ExportError, HierexportError, UsageError, cause
from pytest_hierexport.exporter import dynamo, torchscript, transformers
from pytest_hierexport.exporter.capture import Capture, Capturer, Request
from pytest_hierexport.exporter.parts import in_parts

if TYPE_CHECKING:
    import onnx_ir as ir

__all__ = ["AIDS", "CAPTURES", "capture_with"]

CAPTURES: Mapping[str, Capturer] = {
    "dynamo": dynamo.capture,
    "transformers": transformers.capture,
    "torchscript": torchscript.capture,
}
"""Every capture by name, in the order in which `auto` tries them."""
AIDS: Mapping[str, Callable[[Callable[[], Any]], Any]] = {
    "transformers": transformers.of_what_there_is,
    "torchscript": in_parts,
}
"""How a capture helps the exporter underneath to what it cannot export alone: it runs an export and returns what that
does."""


def capture_with(exporter: str, request: Request) -> tuple[Capture, str, tuple[str, ...]]:
    """Capture a request.

    Args:
        exporter: The name of a capture, or `auto` for the first that can. Where all that can give graphs that the ONNX
            checker refuses, the first of those serves.
        request: What to export.

    Returns:
        The capture, the name of the exporter that served, and a note for each that could not.

    Raises:
        UsageError: No exporter has this name.
        ExportError: None of them can export the model.
    """
    if exporter not in EXPORTERS:
        raise UsageError(f"exporter to be {' or '.join(EXPORTERS)}", found=repr(exporter), do="choose one of them")
    failures: list[tuple[str, str]] = []
    raised: list[Exception] = []
    refused: tuple[Capture, str, tuple[str, ...]] | None = None
    for name in _suited(request) if exporter == "auto" else (exporter,):
        try:
            capture = CAPTURES[name](request)
        except HierexportError:
            raise
        except Exception as error:  # noqa: BLE001 whatever the exporter underneath raises, the user gets its cause
            failures.append((name, cause(error)))
            raised.append(error)
            continue
        opset = capture.after.opset_imports.get("")
        if request.opset is not None and opset not in (None, request.opset):
            failures.append((name, f"could not convert its graph from opset {opset} to {request.opset}"))
            continue
        others = (f"{other} could not export the model: {why}" for other, why in failures)
        served = capture, name, (*others, *capture.notes)
        refusal = _refusal(capture.after) if exporter == "auto" else None
        if refusal is None:
            return served
        refused = refused or served
        failures.append((name, f"the ONNX checker refuses its graph: {refusal}"))
    if refused is not None:
        return refused
    # What the first one raised tells most.
    raise _failed(request, failures) from next(iter(raised), None)


def _refusal(model: ir.Model) -> str | None:
    """What the ONNX checker says against a graph, whose tensors it is not shown; None where nothing."""
    from onnx_ir.passes.common import CheckerPass

    try:
        CheckerPass(full_check=True)(model.clone())  # it moves initializers about
    except Exception as error:  # noqa: BLE001 its error classes share no base of their own
        return cause(error)
    return None


def _suited(request: Request) -> list[str]:
    """The captures worth trying: first those that need not convert their graph to the opset asked for."""
    suited = [name for name in CAPTURES if name not in _SERVES or _SERVES[name](request)]
    opset = request.opset
    return suited if opset is None else sorted(suited, key=lambda name: opset < _OLDEST.get(name, opset))


_SERVES: Mapping[str, Callable[[Request], bool]] = {
    "transformers": transformers.serves,
    "torchscript": torchscript.serves,
}
"""What a capture that is for some models only asks of a request."""

_OLDEST: Mapping[str, int] = {"dynamo": 18, "transformers": 18}
"""The oldest opset in which a capture makes its graph; torch converts it further down where it can."""


def _failed(request: Request, failures: list[tuple[str, str]]) -> ExportError:
    model = type(request.model).__name__
    found = "; ".join(f"{name}: {why}" for name, why in failures)
    return ExportError(
        f"{model} to be captured as a graph",
        found=found,
        do="run the model once on the same inputs; if that works, try other inputs, dynamic_shapes or exporter, "
        "or mend what the message names",
    )
