"""Captures models of transformers with its own ONNX exporter.

Its patches get out what plain torch cannot: caches among the outputs, mixtures of experts, data-dependent masks. It
runs torch's exporter underneath and is watched like it.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout, suppress
from typing import Any

import torch

from pytest_hierexport._errors import ExportError
from pytest_hierexport._export.capture import CannotCaptureError, Capture, Request
from pytest_hierexport._export.dynamo.capturer import Watch, quiet
from pytest_hierexport._export.faults import calls_on
from pytest_hierexport._export.state import pytrees_as_found, replaced


def serves(request: Request) -> bool:
    """Whether the request's model is one of transformers'; the library is not imported to find out."""
    library = sys.modules.get("transformers.modeling_utils")
    return library is not None and isinstance(request.model, library.PreTrainedModel)


def capture(request: Request) -> Capture:
    """Export the request's model with transformers' exporter and watch what it does.

    Raises:
        ExportError: The model is none of theirs.
        CannotCaptureError: This version of transformers has no ONNX exporter.
        Exception: What the exporter raised; the model is left as it was.
    """
    if not serves(request):
        raise ExportError(
            "a transformers PreTrainedModel for the transformers exporter",
            found=type(request.model).__name__,
            do="export it with exporter='dynamo' or 'torchscript'",
        )
    options = request.options
    exporters = _exporters()
    config = exporters.OnnxConfig(
        opset_version=options.opset,
        optimize=options.optimize,
        dynamic=options.dynamic_shapes is not None,
        dynamic_shapes=options.dynamic_shapes,
    )
    watch = Watch(request.model)
    # It leaves torch's progress notes on, which go to standard output.
    with (
        quiet(),
        redirect_stdout(io.StringIO()),
        torch.no_grad(),
        watch.watching(),
        _computing_what_it_can(),
        pytrees_as_found(),
    ):
        exported = exporters.OnnxExporter().export(request.model, _by_name(request), config)
    # Until 5.23 they returned torch's program as it is.
    graph = exported.model if isinstance(exported, torch.onnx.ONNXProgram) else exported.program
    for values, names in ((graph.graph.inputs, options.input_names), (graph.graph.outputs, options.output_names)):
        for value, name in zip(values, names or (), strict=False):
            value.name = name
    return watch.capture(graph)


def _exporters() -> Any:
    try:
        return importlib.import_module("transformers.exporters.exporter_onnx")
    except ImportError as error:
        version = sys.modules["transformers"].__version__
        raise CannotCaptureError(f"transformers {version} has no ONNX exporter; 5.20.2 has one") from error


@contextmanager
def _computing_what_it_can() -> Iterator[None]:
    """Let transformers' exporter go on without inputs that it cannot compute beforehand: the model's forward may."""
    utils: Any = importlib.import_module("transformers.exporters.utils")
    original = getattr(utils, _BEFOREHAND, None)
    with replaced(utils, _BEFOREHAND, functools.partial(_compute, original)) if original else nullcontext():
        yield


_BEFOREHAND = "precompute_export_inputs"


@calls_on
def _compute(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    if kwargs or len(args) != 2 or not isinstance(args[1], dict):  # the model and its inputs
        return original(*args, **kwargs)
    model, inputs = args
    more = dict(inputs)
    with suppress(Exception):
        original(model, more)
        inputs.update(more)
    return None


def _by_name(request: Request) -> dict[str, Any]:
    """Return the inputs by the names of the forward's parameters: the exporter takes nothing else."""
    names = inspect.signature(request.model.forward).parameters  # type: ignore[union-attr]  # `serves` saw a module
    return {**dict(zip(names, request.args, strict=False)), **request.kwargs}
