"""A tagged ONNX model with a subgraph, a function, a repeated call and a node of two modules."""

from __future__ import annotations

from typing import Any

import onnx
from onnx import TensorProto, helper

from pytest_hierexport._calls.attribution import Attribution, Evidence, Origin
from pytest_hierexport._calls.hierarchy import Call, Hierarchy
from pytest_hierexport._onnx import storage

__all__ = ["CALLS", "tagged_model"]

CALLS = [
    Call("", 0, "m.Net", None),
    Call("layer.1", 0, "m.Layer", ""),
    Call("layer.1.proj", 0, "torch.nn.modules.linear.Linear", "layer.1"),
    Call("layer.10", 0, "m.Layer", ""),
    Call("shared", 0, "m.Norm", "layer.10"),
    Call("layer.1", 1, "m.Layer", ""),
    Call("layer.1.drop", 0, "m.Drop", "layer.1@1"),
]


def tagged_model(names: str = "node_{}") -> onnx.ModelProto:
    """Return the model; `names` makes each node's name from its number."""
    number = iter(range(10))

    def node(operator: str, inputs: list[str], output: str, **attributes: Any) -> onnx.NodeProto:
        return helper.make_node(operator, inputs, [output], name=names.format(next(number)), **attributes)

    body = helper.make_graph([node("Abs", ["neg"], "t")], "then", [], [_value("t")])
    other = helper.make_graph([node("Abs", ["neg"], "e")], "else", [], [_value("e")])
    twice = helper.make_function(
        "my", "Twice", ["v"], ["sum"], [node("Add", ["v", "v"], "sum")], [helper.make_opsetid("", 20)]
    )
    nodes = [
        node("Neg", ["x"], "neg"),
        node("If", ["c"], "chosen", then_branch=body, else_branch=other),
        node("Exp", ["chosen"], "mask"),
        node("Twice", ["mask"], "twice", domain="my"),
        node("Neg", ["twice"], "again"),
    ]
    graph = helper.make_graph(
        nodes, "g", [_value("x"), helper.make_tensor_value_info("c", TensorProto.BOOL, [])], [_value("again")]
    )
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("my", 1)]
    proto = helper.make_model(graph, opset_imports=opsets, ir_version=10, functions=[twice])
    storage.attach_proto(proto, _attribution())
    return proto


def _value(name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, [2])


def _attribution() -> Attribution:
    owners = {
        "neg": ["layer.1"],
        "chosen": [""],
        "chosen/then_branch/t": ["layer.1.proj"],
        "chosen/else_branch/e": ["layer.10"],
        "mask": ["layer.1", "layer.10"],
        "twice": ["layer.10"],
        "my::Twice:://sum": ["shared"],
        "again": ["layer.1@1"],
    }
    nodes = {key: tuple(Origin(call, Evidence.TRACED) for call in calls) for key, calls in owners.items()}
    return Attribution(Hierarchy(CALLS), nodes)
