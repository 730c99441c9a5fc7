"""A graph in parts: each node runs once, with the values that it has in the whole graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

from pytest_hierexport._proof import session
from pytest_hierexport._proof.parts import Cutter, model_of, reads
from pytest_hierexport._proof.session import run_graph

X = np.array([[1.0, -2.0], [3.0, 4.0]], np.float32)


def parsed(text: str) -> onnx.ModelProto:
    model: onnx.ModelProto = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 20]> {text}')
    return model


RESIDUAL = parsed(
    """g (float[2,2] x) => (float[2,2] e) <float[2,2] w = {1, 2, 3, 4}>
    { a = Relu(x) b = MatMul(a, w) c = Add(a, b) d = Neg(c) e = Add(c, d) }"""
)
BRANCHES = parsed(
    """g (float[2,2] x, bool c) => (float[2,2] e)
    { a = Neg(x) b = Relu(a)
      d = If (c) <then_branch = g1 () => (float[2,2] t) { t = Add(a, x) },
                  else_branch = g2 () => (float[2,2] f) { f = Sub(b, a) }>
      e = Neg(d) }"""
)
SEQUENCES = parsed(
    """g (float[2,2] x) => (float[2,2] e)
    { a = Neg(x) s = SplitToSequence <axis = 0> (a) b = ConcatFromSequence <axis = 0> (s)
      o = Optional(b) d = OptionalGetElement(o) l = Constant <value = string[1] {"word"}> () k = Identity(l)
      e = Add(d, a) }"""
)


class Sessions(list[onnx.ModelProto]):
    """The graphs that were run, one after another."""

    @property
    def nodes(self) -> list[str]:
        """The first output of each node of each graph; names have one letter."""
        return ["".join(node.output[0] for node in proto.graph.node) for proto in self]

    @property
    def inputs(self) -> list[str]:
        """The inputs of each graph."""
        return ["".join(value.name for value in proto.graph.input) for proto in self]


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> Sessions:
    """Let each session hold one value, and give those that are made."""
    original, found = session._session, Sessions()

    def watched(proto: onnx.ModelProto, folder: Path | None, **options: Any) -> Any:
        found.append(copied := onnx.ModelProto())
        copied.CopyFrom(proto)
        return original(proto, folder, **options)

    monkeypatch.setattr(session, "_session", watched)
    monkeypatch.setattr(session, "BUDGET", 1)
    return found


def found_in(proto: onnx.ModelProto, feeds: dict[str, Any], *wanted: str) -> dict[str, list[Any]]:
    return {value.name: [array.tolist() for array in value.arrays] for value in run_graph(proto, feeds, wanted)}


CASES = {
    "residual": (RESIDUAL, {}, "abcde"),
    "backwards": (RESIDUAL, {}, "edcba"),
    "inputs": (RESIDUAL, {}, "axewc"),
    "then": (BRANCHES, {"c": np.array(True)}, "abde"),
    "else": (BRANCHES, {"c": np.array(False)}, "abde"),
    "sequences": (SEQUENCES, {}, "asbodlke"),
}


@pytest.mark.parametrize(("proto", "feeds", "wanted"), CASES.values(), ids=CASES.keys())
def test_parts_give_the_values_of_the_whole(
    proto: onnx.ModelProto, feeds: dict[str, Any], wanted: str, sessions: Sessions, monkeypatch: Any
) -> None:
    parts = found_in(proto, {"x": X, **feeds}, *wanted)
    assert len(sessions) > 1
    monkeypatch.setattr(session, "BUDGET", 1 << 30)
    assert parts == found_in(proto, {"x": X, **feeds}, *wanted)
    assert list(parts) == list(wanted)


def test_each_node_runs_once(sessions: Sessions) -> None:
    found_in(RESIDUAL, {"x": X}, *"abcde")
    assert sessions.nodes == [*"abcde"]


def test_values_that_are_not_wanted_run_once_too(sessions: Sessions) -> None:
    found_in(RESIDUAL, {"x": X}, *"ae")
    assert sessions.nodes == ["a", "bcde"]


def test_what_no_later_part_reads_is_not_held(sessions: Sessions) -> None:
    found_in(RESIDUAL, {"x": X}, *"abcde")
    assert sessions.inputs == ["x", "a", "ab", "c", "cd"]


def test_what_cannot_be_held_is_computed_again(sessions: Sessions) -> None:
    proto = parsed(
        "g (float[2,2] x) => (float[2,2] c) { s = SplitToSequence(x) a = Neg(x) c = ConcatFromSequence<axis=0>(s) }"
    )
    assert found_in(proto, {"x": X}, *"sac")["c"] == [X.tolist()]
    assert sessions.nodes == ["s", "a", "sc"]


def test_random_numbers_are_drawn_once(sessions: Sessions) -> None:
    proto = parsed("g (float[2,2] x) => (float[2,2] b) { a = RandomNormalLike(x) b = Add(a, x) }")
    a, b = (value.arrays[0] for value in run_graph(proto, {"x": X}, ["a", "b"]))
    assert len(sessions) == 2
    assert np.array_equal(a + X, b)


def test_dtypes_that_numpy_lacks_are_held(sessions: Sessions) -> None:
    proto = parsed("g (float[2,2] x) => (float[2,2] c) { a = Cast<to=16>(x) b = Identity(a) c = Cast<to=1>(b) }")
    values = {value.name: value.arrays[0] for value in run_graph(proto, {"x": X}, ["a", "b", "c"])}
    assert values["b"].dtype == ml_dtypes.bfloat16
    assert sessions.nodes == ["a", "b", "c"]
    assert np.array_equal(values["c"], X)


def test_an_input_with_an_initializer_may_be_left_out(sessions: Sessions) -> None:
    proto = parsed(
        "g (float[2,2] x, float[2,2] w) => (float[2,2] b) <float[2,2] w = {1, 2, 3, 4}> { a = Neg(x) b = Add(a, w) }"
    )
    assert [value.name for value in proto.graph.input] == ["x", "w"]
    assert found_in(proto, {"x": X}, *"ab")["b"] == [[[0, 4], [0, 0]]]
    assert sessions.nodes == ["a", "b"]


def test_a_graph_to_optimize_runs_whole(sessions: Sessions) -> None:
    list(run_graph(RESIDUAL, {"x": X}, ["a", "c", "e"], optimized=True))
    assert sessions.nodes == ["abcde"]


def test_nothing_wanted_runs_nothing(sessions: Sessions) -> None:
    assert list(run_graph(RESIDUAL, {"x": X}, [])) == []
    assert list(run_graph(RESIDUAL, {"x": X}, [], optimized=True)) == []
    assert not sessions


def test_a_part_ends_at_what_is_known() -> None:
    part = Cutter(RESIDUAL.graph).part(["d", "x"], {"b", "x"})
    assert [*part.outputs()] == ["a", "c", "d"]
    assert part.taken == {"b", "x"}


def test_reads_of_a_node_with_branches() -> None:
    assert set(reads(BRANCHES.graph.node[2])) >= {"c", "a", "x", "b"}


def test_model_of_a_part_has_what_it_reads() -> None:
    proto = parsed(
        "g (float[2,2] x, float[2,2] z) => (float[2,2] b) <float[2,2] w = {1, 2, 3, 4}, float[2,2] v = {1, 2, 3, 4}>"
        "{ a = MatMul(x, w) b = Add(a, v) c = Neg(z) }"
    )
    before = proto.SerializeToString()
    made = model_of(proto, proto.graph.node[:1], [], ["a", "v"])
    assert [value.name for value in made.graph.input] == ["x"]
    assert [tensor.name for tensor in made.graph.initializer] == ["w", "v"]
    assert [value.name for value in made.graph.output] == ["a", "v"]
    assert proto.SerializeToString() == before
