"""Keys: one per node and initializer, the same in memory and in the file."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np
import onnx
import onnx_ir as ir
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper

from pytest_hierexport._onnx.graph import (
    function_prefix,
    inventory_ir,
    inventory_proto,
    may_hold_subgraphs,
    walk,
)
from pytest_hierexport._onnx.order import topological_order

FLOAT = onnx.TensorProto.FLOAT


def value(name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, FLOAT, [2])


def tensor(name: str) -> onnx.TensorProto:
    return numpy_helper.from_array(np.ones(2, np.float32), name)


def branch(output: str) -> onnx.GraphProto:
    nodes = [helper.make_node("Add", ["x", f"w_{output}"], [output])]
    return helper.make_graph(nodes, output, [], [value(output)], initializer=[tensor(f"w_{output}")])


def model(nodes: Sequence[onnx.NodeProto], functions: Sequence[onnx.FunctionProto] = ()) -> onnx.ModelProto:
    inputs = [value("x"), helper.make_tensor_value_info("c", onnx.TensorProto.BOOL, [])]
    graph = helper.make_graph(nodes, "g", inputs, [value("y")], initializer=[tensor("scope/w")])
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("my.dom", 1)]
    return helper.make_model(graph, functions=functions, opset_imports=opsets, ir_version=10)


def nested_model() -> onnx.ModelProto:
    function = helper.make_function(
        "my.dom", "Twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])], [helper.make_opsetid("", 20)]
    )
    nodes = [
        helper.make_node("Twice", ["x"], ["t"], domain="my.dom"),
        helper.make_node("If", ["c"], ["layer.0/out"], then_branch=branch("p"), else_branch=branch("q")),
        helper.make_node("Add", ["t", "layer.0/out"], ["y"]),
    ]
    return model(nodes, [function])


def test_node_key_is_first_output_and_enclosing_graph() -> None:
    assert [key for key, _ in walk(nested_model())] == [
        "t",
        "layer%2E0%2Fout",
        "layer%2E0%2Fout/else_branch/q",
        "layer%2E0%2Fout/then_branch/p",
        "y",
        "my%2Edom::Twice:://b",
    ]


def test_memory_and_file_agree_on_keys_and_their_order() -> None:
    proto = nested_model()
    in_memory, in_file = inventory_ir(ir.from_proto(proto)), inventory_proto(proto)
    assert [(key, node.op_type) for key, node in in_memory.nodes] == [(k, node.op_type) for k, node in in_file.nodes]
    assert [key for key, _ in in_memory.initializers] == [key for key, _ in in_file.initializers]
    assert len(in_memory.graphs) == len(in_file.graphs) == 3
    assert len(in_memory.functions) == len(in_file.functions) == 1


def test_initializer_key_has_its_subgraph_prefix() -> None:
    assert [key for key, _ in inventory_proto(nested_model()).initializers] == [
        "scope/w",
        "layer%2E0%2Fout/else_branch/w_q",
        "layer%2E0%2Fout/then_branch/w_p",
    ]


def test_lists_of_graphs_number_their_members() -> None:
    node = helper.make_node("Custom", ["x"], ["y"], domain="my.dom", bodies=[branch("p"), branch("q")])
    proto = model([node])
    expected = ["y", "y/bodies.0/p", "y/bodies.1/q"]
    assert [key for key, _ in walk(proto)] == expected
    assert [key for key, _ in walk(ir.from_proto(proto))] == expected


def test_node_without_named_output_is_keyed_by_place() -> None:
    proto = model([helper.make_node("Add", ["x", "x"], ["y"]), helper.make_node("Sink", ["y"], [], domain="my.dom")])
    assert [key for key, _ in walk(proto)] == ["y", "@1"]
    assert [key for key, _ in walk(ir.from_proto(proto))] == ["y", "@1"]


def test_node_without_first_output_is_keyed_by_the_next() -> None:
    node = helper.make_node("Dropout", ["x"], ["", "mask"])
    assert next(walk(model([node])))[0] == "mask"


def test_functions_of_any_name_and_domain_have_a_prefix_each() -> None:
    assert function_prefix("a::b", "c", "") != function_prefix("a", "b::c", "")


def test_file_without_subgraphs_is_recognised_by_its_bytes() -> None:
    flat = model([helper.make_node("Transpose", ["x"], ["y"], perm=[0])])
    assert not may_hold_subgraphs(flat.SerializeToString())
    assert may_hold_subgraphs(nested_model().SerializeToString())
    listed = model([helper.make_node("Custom", ["x"], ["y"], domain="my.dom", bodies=[branch("p")])])
    assert may_hold_subgraphs(listed.SerializeToString())
    assert inventory_proto(flat, subgraphs=False) == inventory_proto(flat)


@settings(deadline=None)
@given(st.lists(st.text(min_size=1, max_size=5).filter(lambda name: name.isprintable()), unique=True, max_size=6))
def test_different_outputs_make_different_keys(names: list[str]) -> None:
    nodes = [helper.make_node("Custom", ["x"], [name], domain="my.dom", body=branch(name)) for name in names]
    keys = [key for key, _ in walk(model(nodes))]
    assert len(set(keys)) == len(keys) == 2 * len(names)


@given(st.lists(st.lists(st.integers(0, 11), max_size=3), max_size=12), st.randoms(use_true_random=False))
@settings(deadline=None)
def test_nodes_are_brought_into_the_order_in_which_they_run(reads: list[list[int]], random: Random) -> None:
    # Node i reads some of those before it.
    nodes = [(i, [value for value in read if value < i]) for i, read in enumerate(reads)]
    assert topological_order(nodes, lambda node: node[1], lambda node: [node[0]]) == list(enumerate(nodes))
    random.shuffle(nodes)
    ordered = topological_order(nodes, lambda node: node[1], lambda node: [node[0]])
    assert sorted(place for place, _ in ordered) == list(range(len(nodes)))
    assert all(nodes[place] is node for place, node in ordered)
    made: set[int] = set()
    for _, (value, read) in ordered:
        assert made.issuperset(read)
        made.add(value)


def test_nodes_that_wait_for_each_other_are_all_kept() -> None:
    nodes = [("a", ["b"]), ("b", ["a"])]
    assert len(topological_order(nodes, lambda node: node[1], lambda node: [node[0]])) == 2
