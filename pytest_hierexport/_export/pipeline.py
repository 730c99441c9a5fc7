"""Exports a model to a tagged graph: captures it, carries the origins to the optimized graph, attaches the tags."""

from __future__ import annotations

import gc
import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from pytest_hierexport._calls.attribution import Primary
from pytest_hierexport._calls.hierarchy import Hierarchy
from pytest_hierexport._carry import carry_flat, flat_copy
from pytest_hierexport._errors import ExportError, UsageError
from pytest_hierexport._export.capture import Request
from pytest_hierexport._export.captures import Served, capture_with
from pytest_hierexport._export.choices import ExportOptions, as_inputs, check_opset, check_value_names
from pytest_hierexport._export.dynamic_shapes import complete_shapes
from pytest_hierexport._export.modules import check_initialised, kept_classes, module_tree
from pytest_hierexport._export.patching import ONE_AT_A_TIME
from pytest_hierexport._export.result import Export
from pytest_hierexport._export.state import WAS_TRAINING, as_found, in_eval_mode
from pytest_hierexport._export.traced import attribute_before
from pytest_hierexport._export.unshared import changed, mode_checksums, unshare
from pytest_hierexport._files.atomic import staged
from pytest_hierexport._files.versions import check_requirements
from pytest_hierexport._onnx import storage
from pytest_hierexport._onnx.codec import Tags
from pytest_hierexport._onnx.node_names import NAME_STYLES, NameStyle, rename_nodes
from pytest_hierexport._requests import check_choice


def export(
    model: torch.nn.Module | torch.export.ExportedProgram,
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    path: str | Path | None = None,
    *,
    exporter: str = "auto",
    opset: int | None = None,
    dynamic_shapes: Any = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    optimize: bool = True,
    tags: Tags = "both",
    keep: Sequence[str] = (),
    external_data: bool | None = None,
    primary: Primary = "first",
    strict: bool = False,
    node_names: NameStyle | None = None,
) -> Export:
    """Export a model to ONNX with every node tagged with the module calls it came from.

    The graph is the one that the exporter underneath gives with the same options; only the tags are added, and the
    node names replaced if `node_names` is given. The model and torch's random numbers on the CPU are left as they were
    found, also after an error; only what its forward writes into parameters stays, and a lazy module is left as its
    first run makes it.

    Args:
        model: A module, or the program that `torch.export` returned.
        args: Example inputs: a tuple, a single tensor, or a mapping of keyword inputs.
        kwargs: Example keyword inputs.
        path: The file to write, with its sidecar beside it; None writes nothing.
        exporter: The exporter to use; `auto` tries them in turn.
        opset: The ONNX opset; None: the exporter's default.
        dynamic_shapes: As for `torch.onnx.export`.
        input_names: Names for the graph's inputs, in order.
        output_names: Names for the graph's outputs, in order.
        optimize: Whether the exporter's own optimizer runs.
        tags: Where tags are written: `both`, `metadata`, `doc_string` or `none`.
        keep: `torch.nn` classes that appear in tags all the same, as `package.Class`.
        external_data: Whether tensors are written to a file beside the model; None decides by their size.
        primary: Which of several origins is a node's primary: `first` in execution order, their nearest common
            `ancestor`, or a function of the hierarchy and the origins.
        strict: Whether `auto` fails instead of falling back to an exporter that records one run of the model, and so
            only one side of each branch in Python code.
        node_names: `path` or `tag`: name the nodes after their modules (:func:`rename_nodes`); None keeps the
            exporter's names.

    Raises:
        UsageError: The model cannot be exported, an option does not exist, or onnx does not define the opset.
        ExportError: The model could not be captured, or the file could not be written; no partial file remains.
    """
    options = ExportOptions(
        exporter=exporter,
        opset=opset,
        dynamic_shapes=dynamic_shapes,
        input_names=input_names,
        output_names=output_names,
        optimize=optimize,
        tags=tags,
        keep=keep,
        external_data=external_data,
        primary=primary,
        strict=strict,
        node_names=node_names,
    )
    return export_with(options, model, args, kwargs, path)


@contextmanager
def _heap_frozen() -> Iterator[None]:
    """Exclude all objects that exist now from garbage collection while the context lasts.

    An export triggers full collections, which visit every object of the loaded libraries: with transformers loaded,
    that takes 0.3 s of the 2.4 s of a BERT's export. The context holds the whole export, carry included: the first
    collection after its end may be a full one.
    """
    # The user froze some objects: `gc.unfreeze` would release these too.
    if gc.get_freeze_count():
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@_heap_frozen()
def export_with(
    options: ExportOptions,
    model: torch.nn.Module | torch.export.ExportedProgram,
    args: Any,
    kwargs: Mapping[str, Any] | None,
    path: str | Path | None,
) -> Export:
    """Export as :func:`export` does."""
    check_requirements()
    _check_model(model)
    storage.check_tags(options.tags)
    check_opset(options.opset)
    check_value_names(options.value_names)
    if options.node_names is not None:
        check_choice("node names", options.node_names, NAME_STYLES)
    kept = kept_classes(options.keep)
    if path is not None:
        with staged(Path(path)):
            pass  # a folder that cannot be written is told before the model runs, not when its export is done
    positional, named = as_inputs(args, kwargs)
    if isinstance(model, torch.nn.Module):
        shapes = complete_shapes(options.dynamic_shapes, _bound(model, positional, named), type(model).__name__)
        options = replace(options, dynamic_shapes=shapes)
    with ONE_AT_A_TIME:
        served = _capture(Request(model, positional, named, options))
    capture = served.capture
    if not capture.after.graph.outputs:
        raise ExportError(
            f"{type(model).__name__} to return a tensor, alone or in a container",
            found="none in what it returns: the graph has no output",
            do="return the tensors that the graph shall compute",
        )
    hierarchy = Hierarchy(capture.calls, keep=kept)
    attribution = carry_flat(attribute_before(capture, hierarchy), flat_copy(capture.after), options.primary)
    if options.node_names is not None:
        rename_nodes(capture.after, attribution, options.node_names)
    storage.attach(capture.after, attribution, tags=options.tags)
    modules = module_tree(model) if isinstance(model, torch.nn.Module) else ()
    result = Export(
        capture.after, attribution, modules, served.exporter, served.notes, tags=options.tags, warnings=served.warnings
    )
    if path is None:
        return result
    return replace(result, path=result.save(path, external_data=options.external_data))


def _bound(model: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> inspect.BoundArguments | None:
    """Bind the inputs to the parameters of `forward`; None where hooks may change them, or they do not fit."""
    try:
        return None if model._forward_pre_hooks else inspect.signature(model.forward).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return None


def _capture(request: Request) -> Served:
    if not isinstance(request.model, torch.nn.Module):
        return capture_with(request)
    before = mode_checksums(request.model)
    # TorchScript runs the model, which may draw random numbers.
    with torch.random.fork_rng(devices=[]), as_found(request.model), in_eval_mode(request.model) as trained:
        written = changed(before)
        served = capture_with(request)
        unshare(served.capture, written)
    return replace(served, notes=(WAS_TRAINING, *served.notes)) if trained else served


def _check_model(model: object) -> None:
    if not isinstance(model, (torch.nn.Module, torch.export.ExportedProgram)):
        raise UsageError(
            "a torch.nn.Module, or a program of torch.export",
            found=f"a {type(model).__name__}",
            do="pass the model itself: an instance, not its class or a function that makes it",
        )
    if isinstance(model, torch.jit.ScriptModule):
        raise UsageError(
            "a model that Python runs",
            found=f"a {type(model).__name__}, which TorchScript compiled: its calls cannot be seen",
            do="pass the module that was scripted or traced",
        )
    if isinstance(model, torch.nn.Module):
        check_initialised(model)
