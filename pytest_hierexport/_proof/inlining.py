"""Inlines a model's functions and the branches that are taken, so that each of their values can be computed.

onnx_ir's inliner replaces each call of a function by its body. Then the nodes of the branch that runs replace each
`If`, with an `Identity` for each value that the branch returns. A loop, and a function written for other operator
versions, stays one node.

    before  y = If (c) <then_branch = { p = Relu(t) }, else_branch = { q = Abs(t) }>      c is true
    after   y/then_branch/p = Relu(t)                    key y/then_branch/p
            y = Identity(y/then_branch/p)                key y

torch's own export examples need the branches (`cond_branch_class_method`): their modules run in branches of
`torch.cond`.

In go a model and its inputs; out comes the inlined model, in memory and as a message, by :func:`inlined`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import onnx
import onnx_ir as ir
from onnx_ir.passes.common import TopologicalSortPass

from pytest_hierexport._errors import UsageError
from pytest_hierexport._onnx.graph import function_prefix, subgraphs_ir, walk
from pytest_hierexport._onnx.inlining import inline_functions
from pytest_hierexport._onnx.models import converted
from pytest_hierexport._proof.session import run_graph
from pytest_hierexport._proof.tolerance import Array

_KEY, _CALLING = "key", "calling"


def inlined(
    proto: onnx.ModelProto, feeds: Mapping[str, Array], folder: Path | None = None
) -> tuple[ir.Model, onnx.ModelProto]:
    """Return a model whose nodes compute each value of the functions and taken branches, in memory and as a message.

    Args:
        proto: The model; it is not changed.
        feeds: The elements of its inputs, by which branches are taken.
        folder: The folder of its external data, if there is any.

    Raises:
        UsageError: The graph has a cycle, gives two values one name, or does not run on these inputs.
    """
    model = converted(proto, folder)
    calling: dict[str, list[str]] = {}
    for name, node in walk(model):
        node.meta[_KEY] = name
        node.metadata_props.clear()
        if node.op_identifier() in model.functions:
            # The inliner copies the metadata of a call to the nodes of the body. No function is inside itself.
            function = function_prefix(*node.op_identifier())
            node.metadata_props[function] = name
            calling.setdefault(function, []).append(name)
    model.meta[_CALLING] = calling
    try:
        TopologicalSortPass()(model)
    except ValueError as error:
        raise UsageError("a graph without a cycle", found=str(error), do="check the file with onnx.checker") from error
    if inline_functions(model):
        proto = ir.to_proto(model)
    while pending := [node for node in model.graph if _is_branching(node)]:
        conditions = list(dict.fromkeys(name_of(node.inputs[0]) for node in pending))
        answers = {value.name: bool(value.arrays[0].all()) for value in run_graph(proto, feeds, conditions, folder)}
        for node in pending:
            _enter(model.graph, node, "then_branch" if answers[name_of(node.inputs[0])] else "else_branch")
        proto = ir.to_proto(model)
    return model, proto


def _is_branching(node: ir.Node) -> bool:
    return node.op_type == "If" and node.domain in {"", "ai.onnx"}


def _enter(graph: ir.Graph, node: ir.Node, branch: str) -> None:
    """Replace an `If` by the nodes of one of its branches."""
    body = node.attributes[branch].as_graph()
    name = next((name_of(output) for output in node.outputs if output.name), key(node))
    label = f"{name}/{branch}/"
    returned = list(body.outputs)
    body.outputs.clear()
    for value in list(body.initializers.values()):
        del body.initializers[name_of(value)]
        value.name = label + name_of(value)
        graph.register_initializer(value)
    nodes = list(body)
    body.remove(nodes)
    for inner in nodes:
        for output in inner.outputs:
            output.name = label + output.name if output.name else output.name
    copies = [ir.node("Identity", [value], metadata_props=node.metadata_props) for value in returned]
    for copy in copies:
        copy.meta.update(node.meta)
    results = [copy.outputs[0] for copy in copies]
    ir.convenience.replace_nodes_and_values(graph, node, [node], [*nodes, *copies], node.outputs, results)


def name_of(value: ir.Value | None) -> str:
    """Return the name of a value; empty for an optional one that is missing."""
    return "" if value is None else value.name or ""


def key(node: ir.Node) -> str:
    """Return the key of a node; of one that inlining added, the key of the function's call."""
    return str(node.meta.get(_KEY) or next(reversed(node.metadata_props.values()), ""))


def function_calls(node: ir.Node) -> tuple[tuple[str, str], ...]:
    """Return the calls by which a node was inlined, the outermost first: the function and the key of the call."""
    return tuple((function, call) for function, call in node.metadata_props.items() if call != key(node))


def calling_nodes(model: ir.Model) -> Mapping[str, Sequence[str]]:
    """Return the keys of the nodes that call each function of an inlined model, also in branches that are not taken."""
    found: dict[str, list[str]] = model.meta.get(_CALLING, {})
    return found


def nodes_inside(node: ir.Node, model: ir.Model) -> Iterator[ir.Node]:
    """Yield the nodes in the subgraphs of a node, and in the function that it calls."""
    bodies: list[ir.Graph | ir.Function] = [graph for _, graph in subgraphs_ir(node)]
    if node.op_identifier() in model.functions:
        bodies.append(model.functions[node.op_identifier()])
    yield from (inner for body in bodies for inner in body.all_nodes())


def captured(node: ir.Node) -> Iterator[str]:
    """Yield the values that the subgraphs of a node read, their own values among them."""
    for _, graph in subgraphs_ir(node):
        yield from (name_of(value) for inner in graph.all_nodes() for value in inner.inputs)
