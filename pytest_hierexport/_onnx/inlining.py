"""Inlines a model's functions, each call with a copy of the body."""

from __future__ import annotations

import onnx_ir as ir
from onnx_ir.passes.common import InlinePass


def inline_functions(model: ir.Model) -> bool:
    """Replace each call of a function by its body, in place; return whether there was any.

    A function written for other operator versions stays as it is. The nodes of a body get the metadata of the call
    beside their own.
    """
    _keep_inputs_apart(model)
    return bool(InlinePass(lambda function: _fits(function, model))(model).modified)


def _fits(function: ir.Function, model: ir.Model) -> bool:
    """Whether a function is written for the operator versions of the model."""
    return all(model.opset_imports.get(domain, own) == own for domain, own in function.opset_imports.items())


def _keep_inputs_apart(model: ir.Model) -> None:
    """Copy each input that a function returns: the inliner would rename the value that the function is given."""
    for function in model.functions.values():
        for i, output in enumerate(function.outputs):
            if output.is_graph_input():
                function.append(copy := ir.node("Identity", [output]))
                function.outputs[i] = copy.outputs[0]
