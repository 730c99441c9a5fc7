"""What a node's operator says: attributes in a comparable form, optional outputs, purity; and contents of constants."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from pytest_hierexport._carry.definitions import arity, attributes, is_pure, stated
from pytest_hierexport._carry.tensors import SMALL, constant_tensor, tensor_key, tensor_sample
from pytest_hierexport._onnx.absent import LOCATION
from test_carry import model

OPSETS = {"": 20}


def node_of(text: str, outputs: str = "float[2] y") -> ir.Node:
    (node, *_) = model(f"g (float[2] x, int64[1] k, bool c) => ({outputs}) {{ {text} }}").graph
    return node


def referring(operator: str, attribute: ir.Attr) -> ir.Node:
    return ir.Node("", operator, [], [attribute])


def comparable(node: ir.Node, **passed: ir.Attr) -> tuple[tuple[str, str], ...]:
    return attributes(node, OPSETS, stated(node, passed))


def attributes_of(text: str) -> tuple[tuple[str, str], ...]:
    return comparable(node_of(text))


def test_attributes_with_default_values_are_left_out() -> None:
    assert attributes_of("y = Elu<alpha = 1.0>(x)") == attributes_of("y = Elu(x)") == ()
    assert attributes_of("y = Elu<alpha = 2.0>(x)") != ()


def test_float_is_compared_as_a_file_would_have_it() -> None:
    exact = ir.node("Elu", [None], {"alpha": 0.1})
    assert comparable(exact) == attributes_of("y = Elu<alpha = 0.1>(x)")
    many = ir.node("Upsample", [None], {"scales": [0.1, 0.2]})
    assert "0.10000000149" in comparable(many)[0][1]


def test_tensors_are_compared_by_content_where_small() -> None:
    def of(elements: Any) -> tuple[tuple[str, str], ...]:
        return comparable(ir.node("Constant", [], {"value": ir.tensor(np.array(elements, np.float32))}))

    assert of([1, 2]) == of([1, 2]) != of([1, 3])
    named = ir.tensor(np.array([1, 2], np.float32), name="one")
    assert comparable(ir.node("Constant", [], {"value": named})) == of([1, 2])
    assert of(np.zeros(SMALL)) != of(np.ones(SMALL))


def test_graphs_are_no_part_of_the_attributes() -> None:
    one, other = (
        attributes_of(
            f"y = If(c) <then_branch = t () => (o) {{ o = {name}(x) }}, else_branch = e () => (o) {{ o = Exp(x) }}>"
        )
        for name in ("Neg", "Exp")
    )
    assert one == other


def test_attribute_that_refers_to_its_function_s_is_named() -> None:
    node = referring("Elu", ir.RefAttr("alpha", "slope", ir.AttributeType.FLOAT))
    assert comparable(node) == (("alpha", "@slope"),)
    assert comparable(node, slope=ir.AttrFloat32("slope", 0.5)) == attributes_of("y = Elu<alpha = 0.5>(x)")


@pytest.mark.parametrize(
    ("text", "outputs", "count"),
    [
        ("y, m = MaxPool<kernel_shape = [1]>(x)", "float[2] y", 1),
        ("y, m = MaxPool<kernel_shape = [1]>(x)", "float[2] y, int64[2] m", 2),
        ("y, m = MaxPool<kernel_shape = [1]>(x) z = Neg(m)", "float[2] y, int64[2] z", 2),
        ("y, m = TopK(x, k)", "float[2] y", 2),  # outputs that are not optional
        ("y, m = local.Two(x)", "float[2] y", 2),
        ("y = Exp(x)", "float[2] y", 1),
        ("h = LSTM<hidden_size = 1>(x, x, x) y = Exp(x)", "float[2] y", 0),
    ],
)
def test_unused_optional_outputs_do_not_count(text: str, outputs: str, count: int) -> None:
    assert arity(node_of(text, outputs), OPSETS) == count


@pytest.mark.parametrize(
    ("text", "pure"),
    [
        ("y = Exp(x)", True),
        ("y = local.Any(x)", True),
        ("y = RandomNormalLike(x)", False),
        ("y = local.Any(x) <body = b () => (o) { o = Exp(x) }>", False),
    ],
)
def test_random_numbers_and_subgraphs_are_not_pure(text: str, pure: bool) -> None:
    assert is_pure(node_of(text), OPSETS) is pure


def constant(**given: Any) -> Any:
    node = ir.node("Constant", [], given)
    return tensor_key(constant_tensor(node, node.attributes))


def test_constant_nodes_have_the_content_of_initializers() -> None:
    numbers = ir.tensor(np.array([1, 2], np.int64))
    assert constant(value=numbers) == constant(value_ints=[1, 2]) == tensor_key(numbers)
    assert constant(value_float=0.5) == tensor_key(ir.tensor(np.array(0.5, np.float32)))


@pytest.mark.parametrize(
    "node",
    [
        ir.node("Elu", [None], {"value_float": 1.0}),
        ir.node("Constant", [], {"value_float": 1.0}, domain="local"),
        ir.node("Constant", [], {"value_float": 1.0, "more": 1}),
        ir.node("Constant", [], {"value_string": "text"}),
        ir.Node("", "Constant", [], [ir.Attr("sparse_value", ir.AttributeType.SPARSE_TENSOR, None)]),
        referring("Constant", ir.RefAttr("value_float", "given", ir.AttributeType.FLOAT)),
    ],
)
def test_other_nodes_have_no_content(node: ir.Node) -> None:
    assert constant_tensor(node, node.attributes) is None


WORDS = ir.StringTensor([b"word"], shape=ir.Shape([1]))
ABSENT = ir.ExternalTensor(LOCATION, None, None, ir.DataType.FLOAT, shape=ir.Shape([2]), name="w")


@pytest.mark.parametrize("tensor", [None, WORDS, ABSENT, ir.tensor(np.zeros(SMALL, np.float32))])
def test_large_or_unreadable_tensor_is_known_by_name(tensor: Any) -> None:
    assert tensor_key(tensor) is None


def test_words_have_no_sample_of_numbers() -> None:
    assert tensor_sample(WORDS) is None
    assert tensor_sample(ABSENT) is None
