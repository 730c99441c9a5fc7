"""Applies a step to an exported file: runs it, carries the tags to its result, and saves that with its sidecar."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_hierexport._calls.attribution import Attribution
from pytest_hierexport._calls.modules import Module
from pytest_hierexport._cases.exporting import check_written, own_function, running_own
from pytest_hierexport._cases.steps import ONNXRUNTIME
from pytest_hierexport._errors import ExportError, NoVerdictError, UsageError, refuse_coroutine
from pytest_hierexport._files.temporary import temporary_folder
from pytest_hierexport._onnx.absent import lacks_data
from pytest_hierexport._onnx.external import locations
from pytest_hierexport._onnx.sidecar import read_sidecar
from pytest_hierexport._stages import stage

if TYPE_CHECKING:
    import onnx
    import onnx_ir as ir

_DO = "write the model to the second path that the function is given"


def deploy(step: str, exported: Path, path: Path) -> tuple[ir.Model, Attribution, tuple[Module, ...]]:
    """Write what a step makes of an exported file, with its tags carried and a sidecar.

    Args:
        step: The name of the step.
        exported: A tagged file with its sidecar; the step gets a copy, so it cannot change the file.
        path: The file to write.

    Returns:
        The model as written, its attribution, and the modules of the exported file.

    Raises:
        HierexportError: The step fails, or writes no ONNX file.
    """
    from pytest_hierexport._carry import carry
    from pytest_hierexport._onnx import storage
    from pytest_hierexport._onnx.models import as_ir

    proto = storage.load_proto(exported)
    if step in ONNXRUNTIME and lacks_data(proto):
        raise NoVerdictError(f"weights for {step}", found="not run: no weights", do="take the model with its weights")
    known, data = read_sidecar(exported), _data(proto, exported.parent)
    with temporary_folder() as folder:
        given, made = Path(folder, "given", exported.name), Path(folder, "made", path.name)
        made.parent.mkdir()
        for file in (exported, *data):
            copy = given.parent / file.relative_to(exported.parent)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, copy)
        with stage(f"applying {step}"):
            _run(step, given, made, proto.graph, external=bool(data))
        try:
            model = as_ir(made)
        except UsageError as error:
            raise ExportError(f"the step {step} to write an ONNX file", found=error.found, do=_DO) from None
        attribution = carry(exported, known.attribution, model)
        storage.attach(model, attribution)
        storage.save(model, attribution, path, modules=known.modules, exporter=known.exporter)
    return model, attribution, known.modules


def _data(proto: onnx.ModelProto, folder: Path) -> list[Path]:
    """Return the files with a model's external data: an exporter of one's own may name them as it likes."""
    files = (folder / name for name in sorted({location for _, location in locations(proto)}))
    return [file for file in files if file.is_file()]


def _run(step: str, source: Path, target: Path, graph: onnx.GraphProto, *, external: bool) -> None:
    own = step not in ONNXRUNTIME
    function = own_function(step) if own else partial(_optimize, step.rpartition(":")[2], graph, external=external)
    expected = f"the step {step} to turn {source.name} into the file that is shipped"
    with running_own(expected, "call it on a copy of the kept file"):
        refuse_coroutine(function(source, target), f"the step {step}")
    check_written(target, f"the step {step}", _DO)


def _optimize(level: str, graph: onnx.GraphProto, source: Path, target: Path, *, external: bool) -> None:
    """Write the graph that ONNX Runtime makes of a file at an optimization level, on the CPU."""
    from pytest_hierexport._onnx.loading import import_runtime, options_to_load, runtime_errors_told

    options = options_to_load(f"ENABLE_{level.upper()}")
    options.optimized_model_filepath = str(target)
    if external:
        options.add_session_config_entry(
            "session.optimized_model_external_initializers_file_name", f"{target.name}.data"
        )
    # It lacks kernels for bfloat16, and the user has no function to correct.
    with runtime_errors_told(graph, loaded=False):
        import_runtime().InferenceSession(source, options, providers=["CPUExecutionProvider"])
