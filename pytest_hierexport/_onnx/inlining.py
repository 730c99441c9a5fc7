"""Inlines the functions of a model."""

from __future__ import annotations

import onnx_ir as ir
from onnx_ir.passes.common import InlinePass

from pytest_hierexport._errors import UsageError, gist
from pytest_hierexport._onnx.graph import walk
from pytest_hierexport._text import numbered


def inline_functions(model: ir.Model) -> bool:
    """Replace each call of a function by a copy of its body, in place; return whether there was any.

    A function for other opset versions than the model's is not inlined. The nodes of a copy get the metadata of the
    calling node in addition to their own.

    Raises:
        UsageError: A call does not fit its function, or a function calls itself.
    """
    if not model.functions:
        return False
    name_results(model)
    _copy_returned_inputs(model)
    opsets = model.opset_imports
    inliner = InlinePass(lambda called: all(opsets.get(of, own) == own for of, own in called.opset_imports.items()))
    try:
        return bool(inliner(model).modified)
    except (ValueError, RuntimeError, ir.passes.InvariantError) as error:
        do = "check the file with onnx.checker"
        raise UsageError("functions that can be inlined", found=gist(error), do=do) from error


def name_results(model: ir.Model) -> None:
    """Name each result that no call of a function takes.

    The inliner would leave the node that computes it without an output, and onnx_ir write a call with fewer results.
    """
    nodes = [node for _, node in walk(model)]
    taken = {value.name for node in nodes for value in node.outputs}
    taken |= {value.name for graph in model.graphs() for value in (*graph.inputs, *graph.initializers.values())}
    free = (name for name in numbered("unused", "_") if name not in taken)
    for node in nodes:
        for value in node.outputs if node.op_identifier() in model.functions else ():
            value.name = value.name or next(free)


def _copy_returned_inputs(model: ir.Model) -> None:
    """Add an Identity for each input that a function returns: else the inliner would rename the caller's value."""
    for function in model.functions.values():
        for i, output in enumerate(function.outputs):
            if output.is_graph_input():
                function.append(copy := ir.node("Identity", [output]))
                function.outputs[i] = copy.outputs[0]
