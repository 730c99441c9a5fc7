"""Makes an ONNX function of a region, and a key for regions: those with equal keys can share a function.

    layer.0   h = MatMul(x, layer.0.w); y = Relu(h)      key   MatMul(0, 1) -> 2; Relu(2) -> 3; returns 3
    layer.1   i = MatMul(y, layer.1.w); z = Relu(i)      key   the same: it has no names and no initializers

The nodes and names of a shared function are copied from the first region.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping

import onnx_ir as ir

from pytest_hierexport._carry.definitions import attributes
from pytest_hierexport._carry.tensors import tensor_key
from pytest_hierexport._onnx.graph import subgraphs_ir
from pytest_hierexport._tools.modules.region import Region, nodes_inside, values_in

DOMAIN = "hierexport"
"""The domain of these functions."""


def region_key(region: Region, opsets: Mapping[str, int]) -> Hashable:
    """Return the key of a region: operators, attributes, subgraphs and connections of its nodes."""
    numbers: dict[ir.Value, int] = {}
    for value in region.entering:
        numbers[value] = len(numbers)
    nodes = _nodes(region.nodes, numbers, opsets)
    return len(region.entering), nodes, tuple(numbers[value] for value in region.leaving)


def _nodes(nodes: Iterable[ir.Node], numbers: dict[ir.Value, int], opsets: Mapping[str, int]) -> Hashable:
    keys = []
    for node in nodes:
        inputs = tuple(None if value is None else numbers[value] for value in node.inputs)
        below = tuple(sorted((name, _graph(graph, numbers, opsets)) for name, graph in subgraphs_ir(node)))
        for value in node.outputs:
            numbers[value] = len(numbers)
        named = tuple(bool(value.name) for value in node.outputs)
        keys.append((node.op_identifier(), attributes(node, opsets, node.attributes), inputs, below, named))
    return tuple(keys)


def _graph(graph: ir.Graph, numbers: dict[ir.Value, int], opsets: Mapping[str, int]) -> str:
    """Return the key of a subgraph as text, with the types that it states: a function's body keeps these."""
    declared = []
    for value in (*graph.inputs, *graph.initializers.values()):
        if value not in numbers:
            numbers[value] = len(numbers)
            tensor = value.const_value
            declared.append((_type(value), tensor if tensor is None else tensor_key(tensor) or id(tensor)))
    nodes = _nodes(graph, numbers, opsets)
    return repr((declared, nodes, [(numbers[value], _type(value)) for value in graph.outputs]))


def _type(value: ir.Value) -> Hashable:
    return str(value.type), str(value.shape)


def function_of(region: Region, name: str, path: str, opsets: Mapping[str, int]) -> ir.Function:
    """Return a function of copies of the region's nodes.

    The module's path is removed from names of parameters, since modules may share the function.
    """
    view = ir.GraphView(region.entering, region.leaving, nodes=region.nodes, name=name)
    graph = view.clone()
    own = {value for node in graph for value in node.outputs}
    taken = {value.name for value in values_in(graph)}
    for value in graph.inputs:
        # Before the value gets a new name, which would rename its tensor too; the model shares that tensor.
        value.const_value = None
        short = (value.name or "").removeprefix(f"{path}.")
        if short not in taken:
            value.name = short
        taken.add(short)
    for value in own.union(graph.inputs):
        # The calls may differ in their shapes.
        value.type = value.shape = None
    graph.opset_imports.update({node.domain: opsets.get(node.domain, 1) for node in nodes_inside(graph)})
    return ir.Function(DOMAIN, name, graph=graph, attributes=[])
