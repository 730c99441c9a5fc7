"""The capture by `torch.onnx.export(dynamo=False)`: torch traces the model and converts the trace to ONNX.

It is for opsets that the dynamo exporter cannot write, and for models that `torch.export` cannot capture.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import onnx_ir as ir
import torch
from onnx_ir.tensor_adapters import TorchTensor
from torch._jit_internal import get_callable_argument_names
from torch.onnx._constants import ONNX_TORCHSCRIPT_EXPORTER_MAX_OPSET as NEWEST_OPSET

from pytest_hierexport._carry.copying import flat_copy
from pytest_hierexport._errors import ExportError
from pytest_hierexport._export.capture import CannotCaptureError, Capture, Request
from pytest_hierexport._export.modules import Instances, lacks_weights
from pytest_hierexport._export.patching import replaced
from pytest_hierexport._export.quiet import quiet
from pytest_hierexport._export.recorder import CallRecorder
from pytest_hierexport._export.torchscript.adapter import Adapter
from pytest_hierexport._export.torchscript.before import before
from pytest_hierexport._export.torchscript.calls import Conversion
from pytest_hierexport._export.torchscript.dynamic_axes import by_argument, dynamic_axes
from pytest_hierexport._export.torchscript.parts import in_parts
from pytest_hierexport._files.temporary import temporary_folder


def serves(request: Request) -> bool:
    """Whether the model is a module that has weights: it runs, and an ExportedProgram cannot be traced."""
    return isinstance(request.model, torch.nn.Module) and not lacks_weights(request.model)


def capture(request: Request) -> Capture:
    """Export the request's model with torch's TorchScript exporter, and record the call of each node.

    Raises:
        ExportError: The model is not a module.
        CannotCaptureError: The opset is too new, or the model has no weights.
        Exception: Any error of torch; the model is left as it was.
    """
    if not isinstance(request.model, torch.nn.Module):
        raise ExportError(
            "a module for the torchscript exporter",
            found=type(request.model).__name__,
            do="export the module that the program was made of, or use exporter='dynamo'",
        )
    options = request.options
    if options.opset is not None and options.opset > NEWEST_OPSET:
        # torch would state the newer opset, but write operators as the older one defines them.
        raise CannotCaptureError(f"opset {NEWEST_OPSET} is the newest that its operators are known for")
    if lacks_weights(request.model):
        raise CannotCaptureError("it runs the model, whose weights have no numbers; dynamo needs none")
    instances = Instances(request.model)
    try:
        adapter = Adapter(request.model, request.args, request.kwargs)
    except TypeError as error:
        raise CannotCaptureError(str(error)) from error
    names = options.input_names or adapter.input_names or (adapter.places if options.dynamic_shapes else None)
    capture = in_parts(partial(_capture, request, adapter, instances, names))
    if names is None and len(capture.after.graph.inputs) < len(adapter.places):
        # torch removed an unused input, and its default names do not tell which one.
        capture = in_parts(partial(_capture, request, adapter, instances, adapter.places))
    return capture


def _capture(request: Request, adapter: Adapter, instances: Instances, names: Sequence[str] | None) -> Capture:
    conversion = Conversion()
    recorder = CallRecorder(instances, observer=conversion.trace)
    # With gradients: without them, torch's attention runs a fast path that cannot be exported.
    with quiet(), _values_read() as places, torch.enable_grad(), recorder.listening(), conversion.following():
        after = _export(request, adapter, names)
    graph, owners = before(*conversion.graphs, conversion.owners, _tensors(adapter, after))
    graph.opset_imports.update(after.opset_imports)
    flat = flat_copy(ir.Model(graph, ir_version=after.ir_version))
    return Capture(
        calls=tuple(recorder.calls.values()),
        before=flat,
        owners={node: owners[node.source] for node in flat.nodes},
        declared=instances.tensors(),
        after=after,
        notes=_fixed(places),
    )


@contextlib.contextmanager
def _values_read() -> Iterator[list[str]]:
    """Collect the lines where Python code reads the value of a traced tensor: torch warns of each."""
    places: list[str] = []
    with warnings.catch_warnings(record=True) as recorded:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", torch.jit._trace.TracerWarning)
        yield places
    # Each line once.
    places += dict.fromkeys(f"{Path(warning.filename).name}:{warning.lineno}" for warning in recorded)


def _fixed(places: Sequence[str]) -> tuple[str, ...]:
    if not places:
        return ()
    more = f" and {len(places) - _MOST_PLACES} more places" if places[_MOST_PLACES:] else ""
    shown = ", ".join(places[:_MOST_PLACES]) + more
    return (
        f"the graph is valid for inputs like the example's: Python read traced values, now constants in it, at {shown}",
    )


_MOST_PLACES = 3
"""How many places a note shows."""


def _export(request: Request, adapter: Adapter, names: Sequence[str] | None) -> ir.Model:
    options, axes = request.options, None
    if options.dynamic_shapes is not None and names is not None:
        try:
            shapes = by_argument(options.dynamic_shapes, request.model, request.args, request.kwargs)
            axes = dynamic_axes(shapes, adapter.arguments, names)
        except (AttributeError, LookupError, TypeError, ValueError):
            # They are the user's, of any form; dynamo's message, where it was asked too, names the place.
            raise CannotCaptureError("dynamic_shapes are not nested like the inputs") from None
    # torch names the inputs of a quantized model by the signature of `forward`; the adapter's has no names.
    parameters = get_callable_argument_names(request.model.forward)  # type: ignore[union-attr]  # a module
    named = replaced(torch.jit._trace, "get_callable_argument_names", lambda _: parameters)
    with temporary_folder() as folder, named:
        path = Path(folder) / "model.onnx"
        torch.onnx.export(
            adapter,
            adapter.tensors,
            str(path),
            dynamo=False,
            opset_version=options.opset,
            input_names=None if names is None else list(names),
            # The adapter fills this list while the model runs, before torch reads it.
            output_names=adapter.output_names if options.output_names is None else list(options.output_names),
            dynamic_axes=axes,
        )
        model = ir.load(path)
        ir.external_data.load_to_model(model)
    return model


def _tensors(adapter: Adapter, after: ir.Model) -> dict[str, ir.TensorProtocol]:
    """Return the parameters and buffers of the model and the initializers of the final graph, by name."""
    state = adapter.state_dict(keep_vars=True)
    tensors: dict[str, ir.TensorProtocol] = {
        name: TorchTensor(tensor, name=name)
        for name, tensor in state.items()
        # Weights that are quantized, or packed with their scales in one object, are constants of torch's graph.
        if isinstance(tensor, torch.Tensor) and not tensor.is_quantized
    }
    final = after.graph.initializers.items()
    return tensors | {name: value.const_value for name, value in final if value.const_value is not None}
