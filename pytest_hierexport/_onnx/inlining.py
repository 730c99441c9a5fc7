"""Inlines the functions of a model."""

from __future__ import annotations

import onnx_ir as ir
from onnx_ir.passes.common import InlinePass


def inline_functions(model: ir.Model) -> bool:
    """Replace each call of a function by a copy of its body, in place; return whether there was any.

    A function for other opset versions than the model's is not inlined. The nodes of a copy get the metadata of the
    calling node in addition to their own.
    """
    _copy_returned_inputs(model)
    opsets = model.opset_imports
    inliner = InlinePass(lambda called: all(opsets.get(of, own) == own for of, own in called.opset_imports.items()))
    return bool(inliner(model).modified)


def _copy_returned_inputs(model: ir.Model) -> None:
    """Add an Identity for each input that a function returns: else the inliner would rename the caller's value."""
    for function in model.functions.values():
        for i, output in enumerate(function.outputs):
            if output.is_graph_input():
                function.append(copy := ir.node("Identity", [output]))
                function.outputs[i] = copy.outputs[0]
