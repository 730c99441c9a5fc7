"""The plain export that MUST-005 compares with: this file calls torch, or transformers, alone.

It imports nothing of the package that it lies in, and is run as a file, in a process of its own. MUST-005 starts it
isolated and sends it examples on standard input; by hand it exports what a factory returns:

    python -I peer.py
    python peer.py package.module:factory OUT.onnx [--exporter dynamo] [--opset N]

where the factory returns `(model, args, kwargs)`.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import copyreg
import inspect
import io
import json
import logging
import multiprocessing
import os
import pkgutil
import select
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import onnx_ir as ir
import torch
from torch.utils import _pytree as pytree


def plain_export(
    exporter: str,
    model: Any,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    opset: int | None = None,
    dynamic_shapes: Any = None,
    **more: Any,
) -> ir.Model:
    """Return what a plain exporter gives, without gradients and warnings; it leaves the model in eval mode.

    Args:
        exporter: The capture that the exporter is beneath.
        model: The model.
        args: Its positional inputs.
        kwargs: Its keyword inputs.
        opset: The ONNX opset; None takes the exporter's own choice.
        dynamic_shapes: As for `torch.onnx.export`; for `torchscript` the names of the dynamic axes, by the graph's
            input and the axis.
        more: For `torchscript` the `folder` for temporary files, the system's where it is None, and `input_names` and
            `output_names`, the names for the graph's.

    Raises:
        RuntimeError: Torch gave no program.
    """
    model.eval()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return PEERS[exporter](
            model, tuple(args), dict(kwargs or {}), opset=opset, dynamic_shapes=dynamic_shapes, **more
        )


def _by_dynamo(
    model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], *, opset: int | None, dynamic_shapes: Any
) -> ir.Model:
    """Return what `torch.onnx.export(dynamo=True)` gives."""
    export = partial(
        torch.onnx.export,
        model,
        # A dictionary at the end would be taken for keyword inputs.
        (*args, {}) if args and isinstance(args[-1], dict) and not kwargs else args,
        kwargs=kwargs,
        dynamo=True,
        verbose=False,
        opset_version=opset,
        dynamic_shapes=dynamic_shapes,
    )
    try:
        program = export()
    except Exception:  # torch raises errors of any type
        program = None
        # Without gradients torch cannot decompose what runs under `torch.enable_grad()` in a forward.
        with contextlib.suppress(Exception), torch.enable_grad():
            program = export()
        if program is None:
            raise
    if program is None:
        raise RuntimeError("torch.onnx.export gave no program")
    return program.model


def _by_transformers(
    model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, opset: int | None, dynamic_shapes: Any
) -> ir.Model:
    """Return what transformers' own ONNX exporter gives."""
    from transformers.exporters import exporter_onnx

    # torch's exporter of ONNX takes names of sizes, `torch.export` does not.
    shapes = pytree.tree_map_only(str, lambda _: torch.export.Dim.DYNAMIC, dynamic_shapes)
    config = exporter_onnx.OnnxConfig(  # type: ignore[attr-defined]  # it is theirs, though they re-export it silently
        opset_version=opset, dynamic=shapes is not None, dynamic_shapes=shapes
    )
    inputs = {**dict(zip(inspect.signature(model.forward).parameters, args, strict=False)), **kwargs}
    with contextlib.redirect_stdout(io.StringIO()):
        exported: Any = exporter_onnx.OnnxExporter().export(model, inputs, config=config)
    # Until 5.23 they returned torch's program as it is.
    return exported.model if isinstance(exported, torch.onnx.ONNXProgram) else exported.program


def _by_torchscript(
    model: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    opset: int | None,
    dynamic_shapes: Any,
    folder: Path | None = None,
    **names: Any,
) -> ir.Model:
    """Return what `torch.onnx.export(dynamo=False)` gives.

    The model is traced behind a module that takes and gives the tensors among its inputs and outputs.
    """
    flat = _Flat(model, args, kwargs)
    # Without gradients torch's attention takes a way of its own, which this exporter does not know.
    with torch.enable_grad(), tempfile.TemporaryDirectory(dir=folder) as home:
        path = str(Path(home) / "model.onnx")
        torch.onnx.export(
            flat, tuple(flat.given()), path, dynamo=False, opset_version=opset, dynamic_axes=dynamic_shapes, **names
        )
        made = ir.load(path)
        ir.external_data.load_to_model(made)
    return made


PEERS: Mapping[str, Callable[..., ir.Model]] = {
    "dynamo": _by_dynamo,
    "transformers": _by_transformers,
    "torchscript": _by_torchscript,
}
"""The plain exporter beneath each capture, by the names of `CAPTURES`."""


class _Flat(torch.nn.Module):
    """Takes and gives tensors alone, and keeps the names of the model's own submodules and parameters."""

    def __init__(self, model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        super().__init__()
        shared = ("_modules", "_parameters", "_buffers", "_non_persistent_buffers_set", "training")
        leaves, tree = pytree.tree_flatten((args, kwargs))
        # `setattr` would make the model a submodule.
        vars(self).update({name: getattr(model, name) for name in shared}, _call=(model, leaves, tree))

    def given(self) -> Iterator[torch.Tensor]:
        """Yield the tensors among the inputs; one tensor may be several inputs."""
        for leaf in vars(self)["_call"][1]:
            yield from _tensors(leaf)

    def forward(self, *tensors: torch.Tensor) -> Any:
        model, leaves, tree = vars(self)["_call"]
        traced = iter(tensors)
        # A copy of the inputs in which each tensor is the traced one.
        copies = [copy.deepcopy(leaf, {id(old): next(traced) for old in _tensors(leaf)}) for leaf in leaves]
        args, kwargs = pytree.tree_unflatten(copies, tree)
        output = model(*args, **kwargs)
        return output if isinstance(output, torch.Tensor) else tuple(_tensors(output))


def _tensors(holder: Any, seen: frozenset[int] = frozenset()) -> Iterator[torch.Tensor]:
    """Yield every tensor in a container or object, in the order of its items or attributes."""
    if isinstance(holder, torch.Tensor):
        yield holder
    elif not isinstance(holder, (torch.nn.Module, type)) and id(holder) not in seen:
        if isinstance(holder, Mapping):
            parts: Sequence[Any] = list(holder.values())
        elif isinstance(holder, (list, tuple)):
            parts = holder
        else:
            # What pickle asks, too: the slots of all bases, private ones under the names that Python gives them.
            names = copyreg._slotnames(type(holder))  # type: ignore[attr-defined]
            slots = (getattr(holder, name, None) for name in names)
            parts = [] if callable(holder) else [*slots, *getattr(holder, "__dict__", {}).values()]
        for part in parts:
            yield from _tensors(part, seen | {id(holder)})


def save(model: ir.Model, path: Path) -> None:
    """Write a model, its data beside it: the message of a large one would have no room for it."""
    ir.save(model, path, external_data=f"{path.name}.data")


def serve(answer: Callable[..., Any]) -> NoReturn:
    """Answer requests until standard input ends, then end this process.

    A request is a line of JSON: the arguments of `answer`, and the `path` that `sys.path` shall be.
    """
    # Output of a model is no answer, and no program that it starts may take a request.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    requests = os.fdopen(os.dup(0), encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    threading.Thread(target=_end_with, args=(os.getppid(), requests.fileno()), daemon=True).start()
    for line in requests:
        request = json.loads(line)
        sys.path[:] = request.pop("path")
        print(json.dumps(answer(**request)), file=answers, flush=True)
    _end()


def _end_with(parent: int, requests: int) -> NoReturn:
    """End this process with the one that sends requests, also in the middle of an export.

    The pipe of the requests is closed then, unless a fork of that process keeps it open.
    """
    pipe = select.poll()
    pipe.register(requests, select.POLLHUP)
    while os.getppid() == parent and not pipe.poll(1000):
        pass
    _end()


def _end() -> NoReturn:
    for child in multiprocessing.active_children():
        child.kill()
    os._exit(0)


def _answer(without: Sequence[str], exporter: str, example: str, onnx: str) -> str:
    """Export an example; return its error, the empty text without one.

    Args:
        without: Modules that nothing may import, the example's own code included.
        exporter: The name of the plain exporter.
        example: A file of `torch.save` that holds the default dtype, the model, its inputs, and the options by name.
        onnx: The ONNX file to write.
    """
    # Python's own way to make an import fail.
    sys.modules.update(dict.fromkeys(without))  # type: ignore[arg-type]
    try:
        dtype, model, args, kwargs, options = torch.load(example, weights_only=False)
        torch.set_default_dtype(dtype)
        save(plain_export(exporter, model, args, kwargs, **options), Path(onnx))
    except (Exception, SystemExit) as error:  # noqa: BLE001  # an example runs code of any kind
        return f"{type(error).__name__}: {error}"
    return ""


def main(arguments: Sequence[str] | None = None) -> None:
    """Export what a factory makes; without one, answer requests."""
    parser = argparse.ArgumentParser(description="Export a model with the plain exporter.")
    parser.add_argument("factory", nargs="?", help="package.module:function; returns (model, args, kwargs)")
    parser.add_argument("path", nargs="?", type=Path, help="where to write the ONNX file")
    parser.add_argument("--exporter", choices=list(PEERS), default="dynamo")
    parser.add_argument("--opset", type=int)
    options = parser.parse_args(arguments)
    # What torch notes is no reason for an export that failed.
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    if options.factory is None:
        serve(_answer)
    if options.path is None:
        parser.error("a factory and a path")
    sys.path.insert(0, "")
    model, args, kwargs = pkgutil.resolve_name(options.factory)()
    save(plain_export(options.exporter, model, args, kwargs, opset=options.opset), options.path)


if __name__ == "__main__":
    main()
