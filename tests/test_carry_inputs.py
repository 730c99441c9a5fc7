"""Origins where a tool reordered, added, dropped, renamed or cut off inputs of the graph."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx_ir as ir
import pytest

from pytest_hierexport import carry
from test_carry import carried, known, model

TOWERS = """g (float[2] query, float[2] doc) => (float[2] u, float[2] v) {
    s = Tanh(query) u = Exp(s) t = Tanh(doc) v = Exp(t) }"""
OWNERS = {"s": "a", "u": "b", "t": "c", "v": "d"}
KEPT = {node: [(call, "traced")] for node, call in OWNERS.items()}


@pytest.mark.parametrize("part", [(["query"], ["u"]), (["doc"], ["v"]), (["t"], ["v"]), (["s", "t"], ["u", "v"])])
def test_an_extracted_part_keeps_its_origins(part: tuple[list[str], list[str]], tmp_path: Path) -> None:
    before = model(TOWERS)
    ir.save(before, tmp_path / "before.onnx")
    onnx.utils.extract_model(tmp_path / "before.onnx", tmp_path / "after.onnx", *part)
    found = carry(before, known(before, **OWNERS), tmp_path / "after.onnx").nodes
    assert found
    assert {
        key: [(o.call, o.evidence.value) for o in origins] for key, origins in found.items()
    }.items() <= KEPT.items()


@pytest.mark.parametrize("inputs", ["doc, float[2] query", "more, float[2] query, float[2] doc"])
def test_inputs_in_another_order_are_known_by_name(inputs: str) -> None:
    assert carried(TOWERS, TOWERS.replace("query, float[2] doc", inputs, 1), **OWNERS) == KEPT


@pytest.mark.parametrize("names", ["one two", "doc query", "doc other", "other query", "u0 v0"])
def test_renamed_inputs_are_known_by_their_consumers(names: str) -> None:
    one, two = names.split()
    renamed = TOWERS.replace("query", "first").replace("doc", two).replace("first", one)
    assert carried(TOWERS, renamed, **OWNERS) == KEPT


def test_where_all_is_renamed_inputs_are_known_by_order() -> None:
    after = """g (float[2] i0, float[2] i1) => (float[2] o0, float[2] o1) {
        n0 = Tanh(i0) o0 = Exp(n0) n1 = Tanh(i1) o1 = Exp(n1) }"""
    found = carried(TOWERS, after, **OWNERS)
    assert found == {new: KEPT[old] for new, old in zip(("n0", "o0", "n1", "o1"), "sutv", strict=True)}


def test_where_all_is_renamed_a_new_input_is_passed_over() -> None:
    after = """g (float[2] new, float[2] i0, float[2] i1) => (float[2] o0, float[2] o1) {
        n = Neg(new) n0 = Tanh(i0) o0 = Exp(n0) n1 = Tanh(i1) m1 = Exp(n1) o1 = Add(m1, n) }"""
    found = carried(TOWERS, after, **OWNERS)
    assert [found[name] for name in ("n0", "o0", "n1")] == [KEPT["s"], KEPT["u"], KEPT["t"]]


def test_an_extracted_part_with_a_prefix_keeps_its_origins() -> None:
    after = "g (float[2] m_doc) => (float[2] m_v) { m_t = Tanh(m_doc) m_v = Exp(m_t) }"
    assert carried(TOWERS, after, **OWNERS) == {"m_t": KEPT["t"], "m_v": KEPT["v"]}


def test_initializer_that_became_an_input_is_the_same_value() -> None:
    before = "g (float[2] x) => (float[2] y) <float[2] w = {1.0, 2.0}> { s = Mul(x, w) y = Exp(s) }"
    after = "g (float[2] w, float[2] x) => (float[2] y) { s0 = Mul(x, w) y = Exp(s0) }"
    assert carried(before, after, s="a", y="b") == {"s0": [("a", "traced")], "y": [("b", "traced")]}


def test_input_that_became_an_initializer_is_the_same_value() -> None:
    before = (
        "g (float[1] x, float[1] w) => (float[1] y) <float[1] k = {1.0}> { s = Mul(x, w) t = Mul(x, k) y = Add(s, t) }"
    )
    after = (
        before.replace(", float[1] w)", ")").replace("k = {1.0}", "k = {1.0}, float[1] w = {1.0}").replace("s", "s0")
    )
    found = carried(before, after, s="a", t="b", y="c")
    assert found == {"s0": [("a", "traced")], "t": [("b", "traced")], "y": [("c", "traced")]}


@pytest.mark.parametrize("first", ["Neg(raw)", "Tanh(raw)"])
@pytest.mark.parametrize("kind", ["float[2]", "uint8[2]"])
def test_operations_put_in_front_belong_to_the_model(first: str, kind: str) -> None:
    body = f"{{ r = Cast<to = 1>(raw) n = {first.replace('raw', 'r')} p = Abs(n)"
    after = TOWERS.replace("float[2] query", f"{kind} raw").replace("{", body).replace("Tanh(query)", "Tanh(p)")
    found = carried(TOWERS, after, **OWNERS)
    assert {key: found.pop(key) for key in "rnp"} == {key: [("", "fused")] for key in "rnp"}
    assert found == KEPT


@pytest.mark.parametrize("first", ["more, ", ""])
def test_a_graph_beside_the_model_belongs_to_the_model(first: str) -> None:
    inputs = "float[2] more, float[2] query" if first else "float[2] query, float[2] more"
    after = TOWERS.replace("float[2] query", inputs).replace("{", "{ m = Tanh(more) w = Exp(m)")
    found = carried(TOWERS, after.replace("=> (", "=> (float[2] w, "), **OWNERS)
    assert found == {**KEPT, "m": [("", "fused")], "w": [("", "fused")]}


def test_a_loop_beside_the_model_belongs_to_the_model() -> None:
    loop = (
        "w = Loop(n, go, more) <body = l (int64 i, bool c, float[2] p) => (bool k, float[2] o) {k = Not(c) o = Sin(p)}>"
    )
    after = TOWERS.replace("=> (", "=> (float[2] w, ").replace(
        "(float[2] q", "(int64 n, bool go, float[2] more, float[2] q"
    )
    found = carried(TOWERS, after.replace(") {", f") {{ {loop}"), **OWNERS)
    assert found == {**KEPT, **{key: [("", "fused")] for key in ("w", "w/body/k", "w/body/o")}}


def test_new_constant_in_place_of_another_is_another_value() -> None:
    before = "g (float[2] x) => (float[2] y) <float[2] w = {1.0, 2.0}> { s = Mul(x, w) y = Exp(s) }"
    after = before.replace("w = {1.0, 2.0}", "v = {1.0, 3.0}").replace("(x, w)", "(x, v)")
    assert carried(before, after, s="a", y="b")["s"] == [("a", "fused")]


def test_renamed_input_that_the_model_returns_is_known() -> None:
    before = "g (float[2] x, float[2] z) => (float[2] z, float[2] y) { y = Relu(x) }"
    after = "g (float[2] x, float[2] z_orig) => (float[2] z, float[2] y) { z = Identity(z_orig) y = Relu(x) }"
    assert carried(before, after, y="a") == {"z": [("", "fused")], "y": [("a", "traced")]}
