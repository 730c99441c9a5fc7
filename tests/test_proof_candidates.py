"""Candidates: the values of a graph that are computed, and the tolerance of their comparison."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from pytest_hierexport._calls.attribution import Attribution
from pytest_hierexport._calls.hierarchy import Call, Hierarchy
from pytest_hierexport._proof import candidates
from pytest_hierexport._proof.candidates import find_candidates
from pytest_hierexport._proof.fingerprints import fingerprint
from pytest_hierexport._proof.inlining import inlined
from pytest_hierexport._proof.owners import Graph
from pytest_hierexport._proof.session import run_graph
from pytest_hierexport._proof.values import Candidates, Values

X = np.array([1.0, -2.0, 3.1], np.float32)


def found_in(text: str, *eager: Any, x: Any = X, rearranged: frozenset[str] = frozenset()) -> dict[str, Candidates]:
    proto: onnx.ModelProto = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 20]> {text}')
    attribution = Attribution(Hierarchy([Call("", 0, "m.Root", None)]))
    graph = Graph(inlined(proto, {})[0], attribution)
    values = Values()
    for array in eager:
        values.add(fingerprint(array))
    return find_candidates(graph, proto, {"x": x}, values, None, rearranged=rearranged)


def test_inputs_initializers_and_computed_values_have_candidates() -> None:
    text = "g (float[3] x) => (float[3] z) <float[3] w = {1.0, 2.0, 3.0}> { y = Neg(x) z = Add(y, w) }"
    shown = found_in(text, X, np.array([1, 2, 3], np.float32), -X)
    assert {name: found for name, found in shown.items() if found != (frozenset(),)} == {
        "x": (frozenset([0]),),
        "w": (frozenset([1]),),
        "y": (frozenset([2]),),
    }


def test_initializer_may_be_stored_transposed_on_request_alone() -> None:
    stored = np.array([[1, 2, 3], [4, 5.5, 6]], np.float32)
    text = "g (float[3] x) => (float[2,3] z) <float[2,3] w = {1.0, 2.0, 3.0, 4.0, 5.5, 6.0}> { z = Add(x, w) }"
    assert found_in(text, X, stored.T, rearranged=frozenset(["w"]))["w"] == (frozenset([1]),)
    assert "w" not in found_in(text, X, stored.T)


def test_value_of_foreign_shape_is_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def watched(proto: Any, feeds: Any, wanted: Any, folder: Any) -> Any:
        asked.extend(wanted)
        return run_graph(proto, feeds, wanted, folder)

    monkeypatch.setattr(candidates, "run_graph", watched)
    known = "<float[6] y, float[3] z>"
    text = f"g (float[3] x) => (float[N] u) {known} {{ y = Concat<axis=0>(x, x) z = Neg(x) u = Neg(y) }}"
    shown = found_in(text, -X)
    assert asked == ["z", "u"]
    assert shown["y"] == (frozenset(),)


def test_wrongly_stated_shape_hides_no_value() -> None:
    text = "g (float[3] x) => (float[0] u) <float[0] y, float[0] z> { y = Neg(x) z = Exp(y) u = Neg(z) }"
    shown = found_in(text, -X, np.exp(-X), -np.exp(-X))
    assert [shown[name] for name in "yzu"] == [(frozenset([number]),) for number in range(3)]


@pytest.mark.parametrize(("low", "found"), [(1, frozenset()), (10, frozenset([0]))])
def test_result_of_coarse_value_is_compared_coarsely(low: int, found: frozenset[int]) -> None:
    text = f"g (float[3] x) => (float[3] u) {{ y = Cast<to={low}>(x) z = Cast<to=1>(y) u = Add(z, z) }}"
    assert found_in(text, X * np.float32(2.002))["u"] == (found,)


@pytest.mark.parametrize(("low", "found"), [("float", frozenset()), ("float16", frozenset([0]))])
def test_loop_that_computes_coarsely_gives_a_coarse_value(low: str, found: frozenset[int]) -> None:
    types = {"float": 1, "float16": 10}
    text = f"""g (float[3] x) => (float[3] u) <int64 n = {{1}}, bool go = {{1}}> {{
      u = Loop(n, go, x) <body = b (int64 i, bool c, float[3] v) => (bool d, float[3] w) <{low}[3] y> {{
        d = Identity(c) y = Cast<to={types[low]}>(v) w = Cast<to=1>(y)
      }}>
    }}"""
    assert found_in(text, X * np.float32(1.002))["u"] == (found,)


def test_uncomputed_coarse_value_makes_its_results_coarse() -> None:
    known = "<float16[1,3] y>"
    text = f"""g (float[3] x) => (float[3] u) {known} {{
      s = Constant<value_ints=[1,3]>() r = Reshape(x, s) y = Cast<to=10>(r)
      z = Cast<to=1>(y) t = Constant<value_ints=[3]>() u = Reshape(z, t)
    }}"""
    assert found_in(text, X * np.float32(1.002))["u"] == (frozenset([0]),)


@pytest.mark.parametrize(("error", "found"), [(1e-6, frozenset()), (8e-5, frozenset([1]))])
def test_error_that_grew_may_grow_further(error: float, found: frozenset[int]) -> None:
    text = "g (float[3] x) => (float[3] z) { y = Neg(x) z = Exp(y) }"
    eager = -X * np.float32(1 + error), np.exp(-X) * np.float32(1 + 2.2e-4)
    assert found_in(text, *eager)["z"] == (found,)


def test_error_may_not_grow_without_bound() -> None:
    names = "abcdefgh"
    steps = " ".join(f"{new} = Add({old}, w)" for old, new in zip("x" + names, names, strict=False))
    # Each is three times as far off as the one before it.
    eager = [(X + 10 * (i + 1)) * np.float32(1 + 8e-5 * 3**i) for i in range(len(names))]
    shown = found_in(f"g (float[3] x) => (float[3] h) <float[3] w = {{10.0, 10.0, 10.0}}> {{ {steps} }}", *eager)
    found = [bool(shown[name][0]) for name in names]
    assert found[:4] == [True] * 4
    assert not any(found[6:])
