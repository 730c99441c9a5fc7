"""Copies a model for a tool that changes it, and inlines its functions with the origins of the calling nodes.

    y = Layer(x)  [layer.0]   function Layer: t = Neg(v)  [layer.0.act, layer.1.act]
    z = Layer(y)  [layer.1]   inlined         y = Neg(x)  [layer.0.act]
                                              z = Neg(y)  [layer.1.act]

An origin belongs to the calling node if its call is one of the calling node's origins, or below one.
"""

from __future__ import annotations

import onnx_ir as ir
from onnx_ir.passes.common import TopologicalSortPass

from pytest_hierexport._calls.attribution import Attribution, Origins
from pytest_hierexport._errors import UsageError, gist
from pytest_hierexport._onnx.graph import function_prefix, walk
from pytest_hierexport._onnx.inlining import inline_functions
from pytest_hierexport._onnx.models import Model, as_ir
from pytest_hierexport._tools.modules.region import attribution_on, keep_origins, note_origins, origins_of

_MARK = "hierexport.call "


def working_copy(model: Model) -> ir.Model:
    """Return a copy of a model with its nodes in topological order; it shares the tensors.

    Raises:
        UsageError: The graph has a cycle, or the file is not ONNX.
    """
    try:
        copied = model.clone() if isinstance(model, ir.Model) else as_ir(model)
        TopologicalSortPass()(copied)
    except (ValueError, RuntimeError) as error:
        raise UsageError(
            "a graph without a cycle, each value with one producer", found=gist(error), do="check it with onnx.checker"
        ) from error
    return copied


def flatten(model: ir.Model, attribution: Attribution) -> Attribution:
    """Inline the functions of a model in place, store the origins on its parts, and return its attribution."""
    keep_origins(model, attribution)
    if not model.functions:
        return attribution
    callers: list[Origins] = []
    for _, node in walk(model):
        if node.op_identifier() in model.functions:
            # The inliner copies a calling node's metadata to the inlined nodes. The key differs by function, so the
            # marks of nested calls do not replace each other: ONNX has no recursive functions.
            node.metadata_props[_MARK + function_prefix(*node.op_identifier())] = str(len(callers))
            callers.append(origins_of(node))
    inline_functions(model)
    hierarchy = attribution.hierarchy
    for _, node in walk(model):
        for mark in [key for key in node.metadata_props if key.startswith(_MARK)]:
            calls = {origin.call for origin in callers[int(node.metadata_props.pop(mark))]}
            origins = origins_of(node)
            own = tuple(origin for origin in origins if not calls.isdisjoint(hierarchy.lineage(origin.call)))
            note_origins(node, own or origins)
    return attribution_on(model, hierarchy)
