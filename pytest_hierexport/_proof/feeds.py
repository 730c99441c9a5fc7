"""Pairs the inputs of an example with the inputs of a graph."""

from __future__ import annotations

import onnx
import torch

from pytest_hierexport._errors import UsageError
from pytest_hierexport._export.torchscript.adapter import Adapter
from pytest_hierexport._onnx.graph import graph_inputs
from pytest_hierexport._proof.eager import Runnable
from pytest_hierexport._proof.tensors import array_of, flattened
from pytest_hierexport._proof.tolerance import Array


def feeds_of(example: Runnable, proto: onnx.ModelProto) -> dict[str, Array]:
    """Return the elements of every graph input.

    Tensors and graph inputs are paired by name where the example has all names: an exporter may drop an input that the
    model does not use, and a tool may put the inputs in another order. Else they are paired in order. An export whose
    `input_names` are the names of other parameters is fed wrongly: names alone do not tell that.

    Raises:
        UsageError: The example has more or fewer tensors than the graph has inputs, and not all of their names.
    """
    names = [value.name for value in graph_inputs(proto.graph)]
    try:
        adapter = Adapter(example.model, example.args, example.kwargs)
    except (TypeError, ValueError):
        missing = names  # the signature tells no names, as that of a `forward` in C: only the order is left
    else:
        missing = [name for name in names if name not in adapter.places]
        if not missing:
            by_name = dict(zip(adapter.places, adapter.tensors, strict=True))
            return {name: array_of(by_name[name]) for name in names}
    inputs = (tuple(example.args), dict(example.kwargs))
    tensors = [part for _, part in flattened(inputs) if isinstance(part, torch.Tensor)]
    if len(tensors) != len(names):
        raise UsageError(
            f"a tensor for each graph input ({', '.join(names)})",
            found=f"{len(tensors)} tensors among the example's inputs, none for {', '.join(missing)}",
            do="give the inputs of the export; where the model has unused ones, export it without input_names",
        )
    return {name: array_of(tensor) for name, tensor in zip(names, tensors, strict=True)}
