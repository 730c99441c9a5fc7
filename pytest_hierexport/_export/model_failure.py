"""Runs a model that no exporter could capture on its example inputs, to tell a failing model from a failing export."""

from __future__ import annotations

import copy

import torch
from torch.utils import _pytree as pytree

from pytest_hierexport._calls.hierarchy import Hierarchy
from pytest_hierexport._errors import ExportError, cause, pass_on
from pytest_hierexport._export.capture import Request
from pytest_hierexport._export.faults import is_fault
from pytest_hierexport._export.modules import Instances, kept_classes
from pytest_hierexport._export.recorder import CallRecorder, failed_call


def failure_of_model(request: Request) -> ExportError | None:
    """Run the request's model as its users do; return what it raises, with the call in which it did so.

    None if it runs, if it is no module, or if its inputs cannot be copied for the run.
    """
    if not isinstance(request.model, torch.nn.Module):
        return None
    inputs = request.args, dict(request.kwargs)
    # Without their autograd history, which forbids a copy.
    tensors = (leaf for leaf in pytree.tree_leaves(inputs) if isinstance(leaf, torch.Tensor))
    try:
        args, kwargs = copy.deepcopy(inputs, {id(tensor): tensor.detach().clone() for tensor in tensors})
    except Exception:  # noqa: BLE001 an object of the user may raise anything
        return None
    recorder = CallRecorder(Instances(request.model))
    try:
        with torch.compiler.set_stance("force_eager"), torch.no_grad(), recorder.listening():
            request.model(*args, **kwargs)
    except BaseException as error:  # noqa: BLE001 as may the model
        pass_on(error)
        return None if is_fault(error) else _told(request, recorder, error)
    return None


def _told(request: Request, recorder: CallRecorder, error: BaseException) -> ExportError:
    where = "the model's own forward"
    call = failed_call(error)
    if call is not None and call.parent is not None:
        hierarchy = Hierarchy(recorder.calls.values(), keep=kept_classes(request.options.keep))
        where = f"{call.name} ({call.class_name}, tag {hierarchy.tag(call.name)})"
    return ExportError(
        f"{type(request.model).__name__} to run on its example inputs, before any export",
        found=f"in {where}: {cause(error)}",
        do="give the inputs the shapes and types that it takes there, or correct the model: it fails without an export",
    )
