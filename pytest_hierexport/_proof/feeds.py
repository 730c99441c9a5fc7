"""Pairs the inputs of an example with the inputs of a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from pytest_hierexport._errors import UsageError
from pytest_hierexport._export.torchscript.adapter import Adapter
from pytest_hierexport._onnx.graph import graph_inputs
from pytest_hierexport._proof.eager import Runnable
from pytest_hierexport._proof.tensors import array_of, flattened
from pytest_hierexport._proof.tolerance import Array

if TYPE_CHECKING:
    import onnx


def feeds_of(example: Runnable, proto: onnx.ModelProto) -> dict[str, Array]:
    """Return the elements of every graph input.

    Tensors and graph inputs are paired in order where there are as many of both, by name otherwise: an exporter may
    drop an input that the model does not use.

    Raises:
        UsageError: A graph input without a tensor.
    """
    names = [value.name for value in graph_inputs(proto.graph)]
    inputs = (tuple(example.args), dict(example.kwargs))
    tensors = [part for _, part in flattened(inputs) if isinstance(part, torch.Tensor)]
    if len(tensors) != len(names):
        adapter = Adapter(example.model, example.args, example.kwargs)
        by_name = dict(zip(adapter.places, adapter.tensors, strict=True))
        missing = [name for name in names if name not in by_name]
        if missing:
            raise UsageError(
                f"a tensor for each graph input ({', '.join(names)})",
                found=f"{len(tensors)} tensors among the example's inputs, none for {', '.join(missing)}",
                do="give the inputs of the export; where the model has unused ones, export it without input_names",
            )
        tensors = [by_name[name] for name in names]
    return {name: array_of(tensor) for name, tensor in zip(names, tensors, strict=True)}
