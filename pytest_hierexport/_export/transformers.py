"""Captures models of transformers with its own ONNX exporter.

That exporter patches the model, so it can export what torch's exporter cannot: caches among the outputs, mixtures of
experts, data-dependent masks. It runs torch's exporter underneath, so the calls are found as in a dynamo capture.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import io
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, redirect_stdout, suppress
from typing import Any

import torch
from torch.utils import _pytree as pytree

from pytest_hierexport._errors import ExportError
from pytest_hierexport._export.capture import CannotCaptureError, Capture, Request
from pytest_hierexport._export.dynamo.capturer import Recording
from pytest_hierexport._export.faults import calls_on
from pytest_hierexport._export.patching import replaced
from pytest_hierexport._export.quiet import quiet
from pytest_hierexport._export.state import pytrees_as_found


def serves(request: Request) -> bool:
    """Whether the model is one of transformers; if the library is not imported, it is not."""
    library = sys.modules.get("transformers.modeling_utils")
    return library is not None and isinstance(request.model, library.PreTrainedModel)


def capture(request: Request) -> Capture:
    """Export the request's model with transformers' exporter, and record the call of each node.

    Raises:
        ExportError: The model is not one of transformers.
        CannotCaptureError: The installed transformers has no ONNX exporter, or `forward` takes fewer inputs.
        Exception: Any error of the exporter; the model is left as it was.
    """
    if not serves(request):
        raise ExportError(
            "a transformers PreTrainedModel for the transformers exporter",
            found=type(request.model).__name__,
            do="export it with exporter='dynamo'; a module also with 'torchscript'",
        )
    options = request.options
    exporters = _exporters()
    config = exporters.OnnxConfig(
        opset_version=options.opset,
        optimize=options.optimize,
        dynamic=options.dynamic_shapes is not None,
        # torch's exporter of ONNX takes names of sizes, `torch.export` does not.
        dynamic_shapes=pytree.tree_map_only(str, lambda _: torch.export.Dim.DYNAMIC, options.dynamic_shapes),
    )
    recording = Recording(request)
    # The exporter does not turn off torch's progress messages, which go to standard output.
    with (
        quiet(),
        redirect_stdout(io.StringIO()),
        torch.no_grad(),
        recording.running(),
        _preparing_inputs(config),
        pytrees_as_found(),
    ):
        exported = exporters.OnnxExporter().export(request.model, _by_name(request), config)
    # Before transformers 5.23 the exporter returned torch's ONNXProgram.
    graph = exported.model if isinstance(exported, torch.onnx.ONNXProgram) else exported.program
    for values, names in ((graph.graph.inputs, options.input_names), (graph.graph.outputs, options.output_names)):
        for value, name in zip(values, names or (), strict=False):
            value.name = name
    return recording.capture(graph)


def _exporters() -> Any:
    try:
        return importlib.import_module("transformers.exporters.exporter_onnx")
    except ImportError as error:
        version = sys.modules["transformers"].__version__
        raise CannotCaptureError(f"transformers {version} has no ONNX exporter; there is one from 5.13 on") from error


def _preparing_inputs(config: Any) -> AbstractContextManager[None]:
    """Watch the exporter change the inputs: it takes out flags such as `use_cache`, and computes further inputs."""
    utils: Any = importlib.import_module("transformers.exporters.utils")
    original = getattr(utils, _PRECOMPUTE, None)
    return replaced(utils, _PRECOMPUTE, functools.partial(_precompute, original, config)) if original else nullcontext()


_PRECOMPUTE = "precompute_export_inputs"
"""The function of transformers that adds inputs, in place."""


@calls_on
def _precompute(original: Callable[..., Any], config: Any, *args: Any, **kwargs: Any) -> Any:
    """Let the exporter continue where it fails, for `forward` may compute these inputs; fit the dynamic shapes."""
    if kwargs or len(args) != 2 or not isinstance(args[1], dict):  # expected: the model and its inputs
        return original(*args, **kwargs)
    model, inputs = args
    extended = dict(inputs)
    with suppress(Exception):
        original(model, extended)
        inputs.update(extended)
    if isinstance(config.dynamic_shapes, Mapping):
        # What is stated of no input stays: torch refuses it.
        stated = {name: axes for name, axes in config.dynamic_shapes.items() if axes is not None}
        config.dynamic_shapes = dict.fromkeys(inputs) | stated
    return None


def _by_name(request: Request) -> dict[str, Any]:
    """Return all inputs by the names of `forward`'s parameters: the exporter takes keyword inputs only."""
    names = inspect.signature(request.model.forward).parameters  # type: ignore[union-attr]  # `serves` saw a module
    if len(names) < len(request.args):
        raise CannotCaptureError(f"`forward` takes {len(names)} inputs; {len(request.args)} are given")
    return {**dict(zip(names, request.args, strict=False)), **request.kwargs}
