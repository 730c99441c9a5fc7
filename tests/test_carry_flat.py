"""The flat copy of a graph: what its values may equal, what its nodes depend on, and what nothing uses."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from pytest_hierexport._carry.copying import flat_copy
from pytest_hierexport._carry.flat import (
    Flat,
    Value,
    drop_prefix,
    names_inside,
    outermost,
    tensors_may_agree,
    types_may_agree,
)
from pytest_hierexport._onnx.absent import LOCATION
from test_carry import model


def flat(text: str) -> Flat:
    return flat_copy(model(text))


def stored(elements: Any, dtype: Any = np.float32) -> Value:
    array = np.array(elements, dtype)
    return Value("", None, array.shape, varying=False, tensor=ir.tensor(array))


def typed(dtype: ir.DataType | None, *shape: int | str | None) -> Value:
    return Value("", dtype, shape, varying=True)


WORDS = Value("", None, (1,), varying=False, tensor=ir.StringTensor([b"one"], shape=ir.Shape([1])))
OTHER_WORDS = Value("", None, (1,), varying=False, tensor=ir.StringTensor([b"two"], shape=ir.Shape([1])))
ABSENT = Value(
    "",
    None,
    (2,),
    varying=False,
    tensor=ir.ExternalTensor(LOCATION, None, None, ir.DataType.FLOAT, shape=ir.Shape([2]), name="w"),
)


@pytest.mark.parametrize(
    ("one", "other", "may"),
    [
        (stored([1, 2]), stored([1, 2]), True),
        (stored([1, 2]), stored([1, 3]), False),
        (stored([0, 0]), stored([0, 0], np.int32), False),  # the same bytes
        (stored([[0, 0]]), stored([[0], [0]]), False),
        (stored([1, 2]), typed(ir.DataType.FLOAT, 2), True),
        (typed(ir.DataType.FLOAT, 2), stored([1, 2]), True),
        (WORDS, WORDS, True),
        (WORDS, OTHER_WORDS, False),
        (stored([1, 2]), ABSENT, True),
        (ABSENT, stored([1, 2]), True),
    ],
)
def test_tensors_that_are_unknown_may_agree(one: Value, other: Value, may: bool) -> None:
    assert tensors_may_agree(one, other) is may


@pytest.mark.parametrize(
    ("one", "other", "may"),
    [
        (typed(ir.DataType.FLOAT, 2, 3), typed(ir.DataType.FLOAT, 2, 3), True),
        (typed(ir.DataType.FLOAT, 2, 3), typed(ir.DataType.FLOAT, 3, 2), False),
        (typed(ir.DataType.FLOAT, 2, 3), typed(ir.DataType.FLOAT, 2), False),
        (typed(ir.DataType.FLOAT, 2), typed(ir.DataType.INT64, 2), False),
        (typed(ir.DataType.FLOAT, 2), typed(None, 2), True),
        (typed(None, 2), typed(ir.DataType.FLOAT, 2), True),
        (typed(ir.DataType.FLOAT, 2), typed(ir.DataType.FLOAT, "N"), True),
        (typed(ir.DataType.FLOAT, None), typed(ir.DataType.FLOAT, 2), True),
    ],
)
def test_types_that_are_open_may_agree(one: Value, other: Value, may: bool) -> None:
    assert types_may_agree(one, other) is may


BODY = """z = If(c) <then_branch = t () => (float[2] o) { p = Exp(x) o = Exp(p) },
                     else_branch = e () => (float[2] o) { o = Sin(y) }>"""


def test_values_are_unused_with_what_feeds_them_alone() -> None:
    graph = flat(f"g (float[2] x, float[2] y, bool c) => (float[2] v) {{ u = Neg(x) w = Tanh(u) v = Neg(y) {BODY} }}")
    assert [node.first_name for node in graph.nodes if node in graph.unused] == ["u", "w", "z", *inside(graph)]


def inside(graph: Flat) -> list[str]:
    return [node.first_name for node in graph.nodes if node.parent is not None]


def test_body_that_takes_a_value_uses_it() -> None:
    graph = flat(f"g (float[2] a, bool c) => (float[2] z) {{ x = Neg(a) y = Tanh(a) {BODY} }}")
    assert not graph.unused
    holder = graph.producer_of("z")
    assert {outermost(node).first_name for node in graph.nodes if node.parent is not None} == {"z"}
    assert holder is not None
    assert outermost(holder) is holder


def test_body_of_a_function_is_used_as_its_own_nodes() -> None:
    text = """g (float[2] x) => (float[2] y) { y = local.f(x) }
        <domain: "local", opset_import: ["": 20]> f (x) => (z) { dropped = Neg(x) z = Exp(x) }"""
    graph = flat(text)
    assert [node.source.op_type for node in graph.nodes if node in graph.unused] == ["Neg"]


def test_shape_of_an_input_says_nothing_of_its_elements() -> None:
    graph = flat("g (float[N] x) => (int64[1] z) { s = Shape(x) z = Neg(s) y = Exp(x) v = Exp(y) }")
    assert {value.name for value in graph.by_elements} == {"x", "y", "v"}


def test_prefix_of_constants_counts_by_their_contents() -> None:
    constants = "<float[2] w = {1.0, 2.0}, float[2] b = {3.0, 4.0}>"
    text = f"g (float[2] x) => (float[2] z) {constants} {{ y = Mul(x, w) z = Add(y, b) }}"
    after = text.replace("y", "m_y").replace("z", "m_z").replace("w", "m_w").replace("b", "m_b")
    before, changed = flat(text), flat(after)
    drop_prefix(before, changed)
    assert {value.name for value in changed.named.values()} == {"x", "w", "b", "y", "z"}


def test_consumers_are_named_by_outputs_and_in_functions_by_keys() -> None:
    graph = flat("""g (float[2] x) => (float[2] z) { y = local.f(x) z, more = Split<num_outputs = 2>(x) }
        <domain: "local", opset_import: ["": 20]> f (x) => (o) { h = Exp(x) o = Sin(h) }""")
    (inner,) = (node for node in graph.nodes if node.source.op_type == "Exp")
    assert graph.names_of_consumers(graph.named["x"]) == {"z", "more", inner.key}
    assert graph.names_of_consumers(graph.named["y"]) == set()


def test_new_names_inside_a_body_begin_with_its_holder_s() -> None:
    graph = flat(f"g (float[2] x, float[2] y, bool c) => (float[2] z) {{ {BODY} }}")
    found = names_inside(graph, {graph.named["z"]: "new"})
    assert sorted(found.values()) == ["new/else_branch/o", "new/then_branch/o", "new/then_branch/p"]


def test_unknown_name_has_no_producer() -> None:
    assert flat("g (float[2] x) => (float[2] y) { y = Exp(x) }").producer_of("unknown") is None


OLD = "g (float[2] x) => (float[2] z) <float[2] w = {1.0, 2.0}> { y = Mul(x, w) z = Exp(y) }"
NEW = "g (float[2] m_x) => (float[2] m_z) <float[2] m_w = {1.0, 2.0}> { m_y = Mul(m_x, m_w) m_z = Exp(m_y) }"


@pytest.mark.parametrize(
    ("after", "names"),
    [
        (NEW, {"x", "w", "y", "z"}),
        # One of two leaves kept its name: the prefix is on no more than have their old one.
        (NEW.replace("m_x", "x"), {"x", "m_w", "m_y", "m_z"}),
        # Another type, at another place: the prefix is part of another input's name.
        (NEW.replace("float[2] m_x", "float[2] u, int64[7] m_x").replace("m_w", "v"), {"u", "m_x", "v", "m_y", "m_z"}),
        (NEW.replace("float[2] m_x", "float[2] u, float[2] m_x").replace("m_w", "v"), {"u", "x", "v", "y", "z"}),
        # Another constant, and another kind of value.
        (NEW.replace("1.0", "7.0").replace("m_x", "v"), {"v", "m_w", "m_y", "m_z"}),
        (NEW.replace("m_x", "v").replace("m_w", "m_x"), {"v", "m_x", "m_y", "m_z"}),
    ],
)
def test_prefix_on_most_leaves_is_dropped(after: str, names: set[str]) -> None:
    before, changed = flat(OLD), flat(after)
    drop_prefix(before, changed)
    assert {value.name for value in changed.named.values()} == names
