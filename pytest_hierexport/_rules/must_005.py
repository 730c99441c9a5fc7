"""MUST-005: but for its tags, the file is the one that the plain exporter gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_hierexport._errors import in_words, raise_if_disk_full
from pytest_hierexport._rules.base import ExportedCase, Rule, Violation, at_most

if TYPE_CHECKING:
    import onnx

__all__ = ["RULE"]


def _check(exported: ExportedCase) -> Iterator[Violation]:
    yield from at_most(_violations(exported))


def _violations(exported: ExportedCase) -> Iterator[Violation]:
    from pytest_hierexport._onnx import storage
    from pytest_hierexport._rules.graph_diff import bare, differences

    # Read anew: the case's own message is for all rules to read.
    found = bare(storage.load_proto(exported.path), exported.path.parent)
    try:
        plain = _plain(exported)
    except Exception as error:  # noqa: BLE001  # whatever the plain exporter raises says that there is no such export
        raise_if_disk_full(error)
        yield Violation(
            exported.path.name,
            f"the plain {exported.exporter_name} exporter to export the model too",
            in_words(error),
            "export with the plain exporter by hand and mend what it raises",
        )
        return
    for difference in differences(plain, found):
        yield Violation(
            difference.where,
            f"{difference.plain}, as in the plain export",
            difference.found,
            "change nothing but tags between the exporter and the file",
        )


def _plain(exported: ExportedCase) -> onnx.ModelProto:
    """Export with the peer of the capture that served; for an exporter of the project's own with torch's newest.

    What the peer cannot export alone, it is helped to as the capture helps its exporter.
    """
    import onnx_ir as ir

    from pytest_hierexport._export.captures import AIDS
    from pytest_hierexport._export.state import as_found
    from pytest_hierexport._files.temporary import temporary_folder, temporary_home
    from pytest_hierexport._onnx import storage
    from pytest_hierexport._rules.graph_diff import bare
    from pytest_hierexport._rules.peer import PEERS, plain_export

    example = exported.example
    options: dict[str, Any] = {"opset": exported.case.opset, "dynamic_shapes": example.dynamic_shapes}
    if exported.exporter_name == "torchscript":
        options |= {**_interface(exported), "folder": temporary_home()}
    peer: Callable[..., ir.Model] = PEERS.get(exported.exporter_name, plain_export)
    export = partial(peer, example.model, example.args, example.kwargs, **options)
    aid = AIDS.get(exported.exporter_name)
    with as_found(example.model):
        model = export() if aid is None else aid(export)
    with temporary_folder() as folder:
        path = Path(folder) / "plain.onnx"
        # Data outside: the message of a large model would have no room for it.
        ir.save(model, path, external_data="plain.onnx.data")
        return bare(storage.load_proto(path), path.parent)


def _interface(exported: ExportedCase) -> dict[str, Any]:
    """Return what an exporter must be told that knows inputs by name alone: the names, and those of dynamic axes."""
    graph = exported.proto.graph
    initializers = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in initializers]
    axes = {
        value.name: {axis: dim.dim_param for axis, dim in enumerate(value.type.tensor_type.shape.dim) if dim.dim_param}
        for value in inputs
    }
    return {
        "dynamic_shapes": {name: dims for name, dims in axes.items() if dims} or None,
        "input_names": [value.name for value in inputs],
        "output_names": [value.name for value in graph.output],
    }


RULE = Rule("MUST-005", "the graph is untouched", _check)
