"""A graph in float64: what ONNX Runtime rounds shows as rounding, and what a graph does wrongly does not."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import onnx
import pytest
import torch
from torch import nn

from pytest_hierexport import export, prove
from pytest_hierexport._calls.attribution import Origin
from pytest_hierexport._cases import Example
from pytest_hierexport._proof.in_float64 import in_float64
from pytest_hierexport._proof.session import run_graph
from pytest_hierexport._proof.tolerance import Array, differing

X = np.linspace(-16, -8, 24, dtype=np.float32).reshape(1, 1, 4, 6)


def model(text: str) -> onnx.ModelProto:
    found: onnx.ModelProto = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 20]> {text}')
    return found


def values(proto: onnx.ModelProto, *names: str) -> list[Array]:
    return [value.arrays[0] for value in run_graph(proto, {"x": X}, names)]


def operators(proto: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in proto.graph.node]


def test_small_results_are_exact_and_keep_name_and_dtype() -> None:
    proto = model("g (float[1,1,4,6] x) => (float[1,1,4,6] y) { s = Sigmoid(x) y = Add(s, s) }")
    before = proto.SerializeToString(deterministic=True)
    finer = in_float64(proto)
    assert proto.SerializeToString(deterministic=True) == before
    for name, factor in (("s", 1), ("y", 2)):
        exact = factor / (1 + np.exp(-X.astype(np.float64)))
        (rounded,), (found,) = values(proto, name), values(finer, name)
        assert found.dtype == np.float32
        assert np.abs(rounded / exact - 1).max() > 1e-3
        np.testing.assert_allclose(found, exact, rtol=1e-6)


BRANCH = """c = Constant<value = bool {1}>()
y = If(c) <then_branch = t () => (float[1,1,4,6] a) { a = Sigmoid(x) },
           else_branch = e () => (float[1,1,4,6] b) { b = Neg(x) }>"""


@pytest.mark.parametrize(
    "text",
    [
        "y = Conv(x, w)",
        "i = Shape(x) c = ConstantOfShape(i) f = Cast<to = 10>(c) y = Cast<to = 1>(f)",
        "q, s, z = DynamicQuantizeLinear(x) y = DequantizeLinear(q, s, z)",
        "h = Cast<to = 10>(x) y = Cast<to = 1>(h)",
        BRANCH,
    ],
    ids=["no kernel", "no input", "stated types", "casts", "a branch"],
)
def test_nodes_that_cannot_compute_so_stay(text: str) -> None:
    proto = model(f"g (float[1,1,4,6] x) => (float[a,b,c,d] y) <float[1,1,1,1] w = {{2.0}}> {{ {text} }}")
    finer = in_float64(proto)
    kept = [node.op_type for node in finer.graph.node if not any("/float64" in name for name in node.output)]
    assert [each for each in kept if each != "Cast"] == [each for each in operators(proto) if each != "Cast"]
    (one,), (other,) = values(proto, "y"), values(finer, "y")
    np.testing.assert_array_equal(one, other)


def test_one_value_twice_and_inputs_left_out_are_kept() -> None:
    proto = model(
        """g (float[1,1,4,6] x) => (float[1,1,4,6] y, int64[1,1,4,2] i)
        <int64[1] k = {2}, float u = {-9.0}> { m = Mul(x, x) t, i = TopK(m, k) l = Clip(x, , u) y = Sub(l, m) }"""
    )
    finer = in_float64(proto)
    assert "Clip" in operators(finer)
    for one, other in zip(values(proto, "y", "i"), values(finer, "y", "i"), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
        assert one.dtype == other.dtype


class Scores(nn.Module):
    """Gives small scores, and decides by them."""

    def __init__(self) -> None:
        super().__init__()
        self.score, self.scale = nn.Sigmoid(), nn.Linear(6, 6, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scaled: torch.Tensor = self.scale(self.score(x))
        return scaled


def test_scores_that_a_runtime_rounds_are_proven() -> None:
    example = Example(Scores().eval(), (torch.from_numpy(X),))
    made = export(example.model, example.args)
    assert prove(example, made.model, made.attribution).counts()["proven"] == 3

    nodes = dict(made.attribution.nodes)
    (key,) = (key for key, origins in nodes.items() if {origin.call for origin in origins} == {"score"})
    nodes[key] = tuple(Origin("scale", origin.evidence) for origin in nodes[key])
    assert prove(example, made.model, replace(made.attribution, nodes=nodes)).unproven.keys() == {"score", "scale"}


REFERENCE = np.array([1e-6, 1e-5, 1e-4, 1.0])
MOVED = REFERENCE + np.array([1e-7, 0, 0, 0])


@pytest.mark.parametrize(
    ("reference", "other", "finer", "expected"),
    [
        (REFERENCE, MOVED, None, [True, False, False, False]),
        (REFERENCE, MOVED, REFERENCE, [False] * 4),
        (REFERENCE, MOVED, MOVED, [True, False, False, False]),
        (REFERENCE, REFERENCE + np.array([2e-4, 0, 0, 0]), REFERENCE, [True, False, False, False]),
        (REFERENCE[:3], MOVED[:3], REFERENCE[:3], [True, False, False]),
        (np.array([*REFERENCE, -1e9]), np.array([2e-4, *REFERENCE[1:], -1e9]), np.array([*REFERENCE, -1e9]), [True]),
        (REFERENCE, MOVED, REFERENCE[:3], [True, False, False, False]),
        (REFERENCE, np.array([np.nan, *REFERENCE[1:]]), REFERENCE, [True, False, False, False]),
        (np.full(2, np.inf), np.array([np.inf, 1.0]), np.full(2, np.inf), [False, True]),
    ],
    ids=["alone", "rounding", "the graph", "too far", "all small", "a mask", "another shape", "NaN", "infinity"],
)
def test_numbers_differ_unless_a_runtime_rounds_them(
    reference: Array, other: Array, finer: Array | None, expected: list[bool]
) -> None:
    assert differing([reference], other, 1e-4, finer).tolist()[: len(expected)] == expected


def test_finer_numbers_may_have_any_dtype() -> None:
    assert not differing([REFERENCE], MOVED, 1e-4, REFERENCE.astype(np.float32)).any()
    assert not differing([np.ones(2)], np.ones(2), 1e-2, np.ones(2, ml_dtypes.bfloat16)).any()
