"""Tells when torch has inlined the functions of a graph, and gives each node of a body the fx node of its call.

torch writes some operations as a function with branches and loops (`nn.EmbeddingBag`). Inside a function, no name is
unique. Two inlined calls differ by the names that the inliner gives:

    before                                     after inlining                         fx node
    y = embedding_bag(e, i)                    c = Equal(...)   y = If(c)             embedding_bag
    z = embedding_bag(f, i)                    c_2 = Equal(...) z = If(c_2)           embedding_bag_1
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from onnx_ir.passes.common import InlinePass

from pytest_hierexport._export.dynamo.module_stacks import STACK
from pytest_hierexport._export.faults import calls_on
from pytest_hierexport._export.patching import replaced
from pytest_hierexport._onnx.graph import subgraphs_ir

if TYPE_CHECKING:
    import onnx_ir as ir

FX_NODE = "node"
"""The key of the fx node in the metadata of a node of onnx_ir."""


@contextmanager
def at_inlining(see: Callable[[ir.Model], object]) -> Iterator[None]:
    """Call a function with each graph whose functions are inlined while the context lasts."""
    inline: Any = InlinePass.call
    instantiate: Any = getattr(InlinePass, "_instantiate_call", None)

    @calls_on
    @functools.wraps(inline)
    def call(inliner: InlinePass, model: ir.Model) -> Any:
        result = inline(inliner, model)
        if result.modified:
            see(model)
        return result

    if instantiate is None:
        yield  # in another release of onnx_ir, functions stay in the copy
        return
    with replaced(InlinePass, "call", call), replaced(InlinePass, "_instantiate_call", _with_fx_nodes(instantiate)):
        yield


def _with_fx_nodes(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the method that copies the body of a function in place of a call."""

    @calls_on
    @functools.wraps(original)
    def instantiate(inliner: InlinePass, node: ir.Node, *args: Any) -> Any:
        nodes, values = original(inliner, node, *args)
        below = (inner for each in nodes for _, graph in subgraphs_ir(each) for inner in graph.all_nodes())
        for inner in (*nodes, *below):
            fx_node = inner.meta.get(FX_NODE)
            if FX_NODE in node.meta and (fx_node is None or not fx_node.meta.get(STACK)):
                inner.meta[FX_NODE] = node.meta[FX_NODE]
        return nodes, values

    return instantiate
