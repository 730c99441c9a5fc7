"""Makes the plain export that MUST-005 compares with, and finds out whether it repeats.

The plain exporter runs in a process that this package's exporter has no part in. One process serves all models that
this one checks: it imports torch once, receives each example as a file of `torch.save`, and ends with this process. An
example that cannot be sent (a class inside a function, a lambda in the model, a module that cannot be imported by its
name), or that fails there, is exported by the same file, `peer.py`, in this process, without the capture's patches.
"""

from __future__ import annotations

from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir
import torch

from pytest_hierexport._cases import Example
from pytest_hierexport._child import ChildEndedError, ChildProcess
from pytest_hierexport._errors import NoVerdictError, TagError, in_words, raise_if_disk_full
from pytest_hierexport._export.choices import is_own
from pytest_hierexport._export.dynamo.capturer import at_each_program, remove_fakes
from pytest_hierexport._export.patching import ONE_AT_A_TIME
from pytest_hierexport._export.quiet import quiet
from pytest_hierexport._export.state import as_found, in_eval_mode, pytrees_as_found
from pytest_hierexport._export.torchscript.adapter import Adapter
from pytest_hierexport._files.temporary import temporary_folder, temporary_home
from pytest_hierexport._onnx.absent import fill_absent
from pytest_hierexport._onnx.difference import bare, differences
from pytest_hierexport._onnx.graph import graph_inputs
from pytest_hierexport._onnx.sidecar import sidecar_beside
from pytest_hierexport._onnx.storage import load_proto
from pytest_hierexport._rules.base import ExportedCase
from pytest_hierexport._rules.peer import PEERS, plain_export, save

_OURS = ("pytest_hierexport._export",)
"""The modules that the process refuses to import. An example may be built by others of this package, as the zoo is."""
_TRIES = 6
"""How many more processes show whether a plain export repeats: each has a hash seed of its own."""


def plain_repeats(exported: ExportedCase, plain: onnx.ModelProto | None = None) -> bool:
    """Whether the plain exporter gives one graph of the model in some processes, each with a hash seed of its own.

    Args:
        exported: The case.
        plain: The graph of one of the processes, where it is at hand.

    Raises:
        NoVerdictError: The plain exporter cannot export the model.
    """
    one = plain or plain_proto(exported, plain_process())
    for _ in range(_TRIES):
        with closing(_isolated_process()) as process:
            if any(differences(one, plain_proto(exported, process))):
                return False
    return True


def plain_proto(exported: ExportedCase, process: ChildProcess | None) -> onnx.ModelProto:
    """Export with the plain exporter beneath the capture that served, and return the bare message.

    Args:
        exported: The case.
        process: The process to export in; None is this one.

    Raises:
        NoVerdictError: The plain exporter cannot export the model.
        DiskFullError: There is no room for the file.
    """
    exporter = _beneath(exported)
    options = {"opset": exported.case.opset, "dynamic_shapes": exported.example.dynamic_shapes}
    if exporter == "torchscript":
        options |= {**_interface(exported.proto.graph, exported.example), "folder": temporary_home()}
    with temporary_folder() as folder:
        path = Path(folder) / "plain.onnx"
        if process is None or export_there(process, exporter, exported.example, options, path):
            _export_here(exporter, exported.example, options, path)
        return bare(load_proto(path), path.parent)


def _beneath(exported: ExportedCase) -> str:
    """Return the plain exporter's name: beneath an exporter of the project's own, that of the capture in its sidecar.

    Where the sidecar names none, that is `torch.onnx.export(dynamo=True)`.
    """
    capture = exported.exporter_name
    if is_own(capture):
        with suppress(TagError):
            capture = sidecar_beside(exported.path).exporter
    return capture if capture in PEERS else "dynamo"


def _export_here(exporter: str, example: Example, options: dict[str, Any], path: Path) -> None:
    """Export in this process, and leave the model as it was."""
    try:
        with ONE_AT_A_TIME, as_found(example.model), in_eval_mode(example.model):
            with quiet(), at_each_program(remove_fakes), pytrees_as_found():
                made = plain_export(exporter, example.model, example.args, example.kwargs, **options)
            # The graph may have tensors of the model, which are as they were after this.
            if fill_absent(made):
                ir.save(made, path)
            else:
                save(made, path)
    except Exception as error:
        raise_if_disk_full(error)
        raise _no_peer(exporter, in_words(error)) from error


def _no_peer(exporter: str, why: str) -> NoVerdictError:
    return NoVerdictError(
        f"the plain {exporter} exporter to export the model too",
        found=f"no plain peer: {why}",
        do="nothing: the model exports with the help of this package alone, and there is no plain graph of it",
    )


def _interface(graph: onnx.GraphProto, example: Example) -> dict[str, Any]:
    """Return the names of inputs, outputs and dynamic axes, for an exporter that knows inputs by name alone."""
    inputs = graph_inputs(graph)
    # torch drops an input that the model does not use, but takes a name for it.
    places = Adapter(example.model, example.args, example.kwargs).places
    axes = {
        value.name: {axis: dim.dim_param for axis, dim in enumerate(value.type.tensor_type.shape.dim) if dim.dim_param}
        for value in inputs
    }
    return {
        "dynamic_shapes": {name: dims for name, dims in axes.items() if dims} or None,
        "input_names": list(places) if len(inputs) < len(places) else [value.name for value in inputs],
        "output_names": [value.name for value in graph.output],
    }


def _isolated_process() -> ChildProcess:
    return ChildProcess("-I", str(Path(__file__).with_name("peer.py")))


plain_process = cache(_isolated_process)
"""Return the process that makes the plain exports for this one; it is started once."""


def export_there(process: ChildProcess, exporter: str, example: Example, options: dict[str, Any], path: Path) -> str:
    """Export an example in such a process; return why it wrote no file, the empty text if it wrote one.

    Raises:
        NoVerdictError: The export ended the process; here it would do the same.
        DiskFullError: There is no room for the example.
    """
    sent = path.with_suffix(".pt")
    try:
        torch.save((torch.get_default_dtype(), example.model, example.args, example.kwargs, options), sent)
    except Exception as error:  # noqa: BLE001  # what cannot be pickled says so in many ways
        raise_if_disk_full(error)
        return in_words(error)
    try:
        return str(process.ask(without=_OURS, exporter=exporter, example=str(sent), onnx=str(path)))
    except ChildEndedError as ended:
        raise _no_peer(exporter, f"its process {ended}") from None
