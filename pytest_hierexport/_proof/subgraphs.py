"""Reads and renames nodes of protobuf messages, with the subgraphs that they hold."""

from __future__ import annotations

from collections.abc import Mapping

import onnx

from pytest_hierexport._onnx.graph import subgraphs_proto

__all__ = ["captured", "renamed"]


def captured(node: onnx.NodeProto) -> list[str]:
    """Return the values of the outer graph that a node's subgraphs read."""
    return [value for _, graph in subgraphs_proto(node) for value in _free(graph)]


def _free(graph: onnx.GraphProto) -> list[str]:
    own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    free: list[str] = []
    for node in graph.node:
        free += [value for value in (*node.input, *captured(node)) if value and value not in own]
        own.update(node.output)
    return free + [value.name for value in graph.output if value.name not in own]


def renamed(
    node: onnx.NodeProto, names: Mapping[str, str], arguments: Mapping[str, onnx.AttributeProto] | None = None
) -> onnx.NodeProto:
    """Return a copy of a node.

    Args:
        node: The node, with whatever subgraphs it holds.
        names: New names of its inputs, outputs and captured values; others stay.
        arguments: The attributes of the function call, for a node of a function's body.
    """
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    _rename(copy, names)
    if arguments is not None:
        _resolve(copy, arguments)
    return copy


def _rename(node: onnx.NodeProto, names: Mapping[str, str]) -> None:
    node.input[:] = [names.get(value, value) for value in node.input]
    node.output[:] = [names.get(value, value) for value in node.output]
    for _, graph in subgraphs_proto(node):
        own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
        own.update(value for inner in graph.node for value in inner.output)
        outer = {name: new for name, new in names.items() if name not in own}
        for inner in graph.node:
            _rename(inner, outer)
        for output in graph.output:
            output.name = outer.get(output.name, output.name)


def _resolve(node: onnx.NodeProto, arguments: Mapping[str, onnx.AttributeProto]) -> None:
    """Replace references to attributes by the attributes of the call; drop references that have none."""
    attributes = list(node.attribute)
    del node.attribute[:]
    for attribute in attributes:
        if not attribute.ref_attr_name:
            node.attribute.append(attribute)
        elif attribute.ref_attr_name in arguments:
            node.attribute.append(arguments[attribute.ref_attr_name])
            node.attribute[-1].name = attribute.name
    for _, graph in subgraphs_proto(node):
        for inner in graph.node:
            _resolve(inner, arguments)
