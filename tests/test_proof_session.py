"""Running a graph for every value in it: tensors and sequences, any dtype, in bounded memory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from pytest_hierexport._errors import UsageError
from pytest_hierexport._proof import session
from pytest_hierexport._proof.session import run_graph

if TYPE_CHECKING:
    from numpy.typing import NDArray

X = np.array([[1.0, -2.0], [3.0, 4.0]], np.float32)


def parsed(text: str) -> onnx.ModelProto:
    model: onnx.ModelProto = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 20]> {text}')
    return model


def fetched(proto: onnx.ModelProto, *wanted: str, x: NDArray[Any] = X, folder: Path | None = None) -> dict[str, Any]:
    values = run_graph(proto, {"x": x}, wanted, folder)
    return {value.name: [array.tolist() for array in value.arrays] for value in values}


def test_wanted_values_are_computed_and_model_is_unchanged() -> None:
    proto = parsed("g (float[2,2] x) => (float[2,2] z) { y = Relu(x) z = Neg(y) }")
    before = proto.SerializeToString()
    assert fetched(proto, "y", "z") == {"y": [[[1, 0], [3, 4]]], "z": [[[-1, 0], [-3, -4]]]}
    assert proto.SerializeToString() == before


@pytest.mark.parametrize("optimized", [False, True])
def test_graph_is_optimized_on_request_alone(optimized: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    levels: list[Any] = []
    make = onnxruntime.InferenceSession

    def watched(proto: bytes, options: Any, **given: Any) -> Any:
        levels.append(options.graph_optimization_level)
        return make(proto, options, **given)

    monkeypatch.setattr(onnxruntime, "InferenceSession", watched)
    proto = parsed("g (float[2,2] x) => (float[2,2] y) { y = Relu(x) }")
    list(run_graph(proto, {"x": X}, ["y"], optimized=optimized))
    known = onnxruntime.GraphOptimizationLevel
    assert levels == [known.ORT_ENABLE_ALL if optimized else known.ORT_DISABLE_ALL]


def test_a_sequence_gives_each_of_its_tensors() -> None:
    proto = parsed(
        "g (float[2,2] x) => (float[2,2] z) { s = SplitToSequence<axis=0>(x) z = ConcatFromSequence<axis=0>(s) }"
    )
    assert fetched(proto, "s") == {"s": [[[1, -2]], [[3, 4]]]}


def test_optional_gives_nothing_to_compare() -> None:
    proto = parsed("g (float[2,2] x) => (float[2,2] y) { o = Optional(x) y = OptionalGetElement(o) }")
    assert fetched(proto, "o", "y") == {"o": [], "y": [X.tolist()]}


def test_sequence_of_bfloat16_gives_its_tensors() -> None:
    proto = parsed("g (bfloat16[2,2] x) => (bfloat16[2,2] y) { s = SequenceConstruct(x, x) y = Identity(x) }")
    assert fetched(proto, "s", "y", x=X.astype(ml_dtypes.bfloat16)) == {"s": [X.tolist()] * 2, "y": [X.tolist()]}


def test_bfloat16_value_keeps_its_dtype() -> None:
    proto = parsed("g (bfloat16[2,2] x) => (float[2,2] z) { y = Identity(x) z = Cast<to=1>(y) }")
    (value,) = run_graph(proto, {"x": X.astype(ml_dtypes.bfloat16)}, ["y"])
    assert value.arrays[0].dtype == ml_dtypes.bfloat16
    assert np.array_equal(value.arrays[0].astype(np.float32), X)


def test_bfloat16_scalar_keeps_its_shape() -> None:
    proto = parsed("g (bfloat16 x) => (bfloat16 y) { y = Identity(x) }")
    (value,) = run_graph(proto, {"x": np.array(2, ml_dtypes.bfloat16)}, ["y"])
    assert value.arrays[0].shape == ()


def test_the_reference_evaluator_serves_where_onnx_runtime_has_no_kernel() -> None:
    proto = parsed("g (bfloat16[2,2] x) => (bfloat16[2,2] y) { y = Relu(x) }")
    (value,) = run_graph(proto, {"x": X.astype(ml_dtypes.bfloat16)}, ["y"])
    assert np.array_equal(value.arrays[0].astype(np.float32), [[1, 0], [3, 4]])


def test_reference_evaluator_goes_on_where_onnx_runtime_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as LackingKernel

    proto = parsed("g (float[2,2] x) => (float[2,2] c) { a = Relu(x) b = Neg(a) c = Neg(b) }")
    original = session._session

    def lacking(proto: onnx.ModelProto, folder: Path | None, **options: Any) -> Any:
        if proto.graph.output[0].name == "b":
            raise LackingKernel("no kernel")
        return original(proto, folder, **options)

    monkeypatch.setattr(session, "_session", lacking)
    monkeypatch.setattr(session, "BUDGET", 1)
    assert [value.name for value in run_graph(proto, {"x": X}, ["a", "b", "c"])] == ["a", "b", "c"]


def test_bytes_are_estimated_where_the_file_states_a_type() -> None:
    proto = parsed("g (float[2,N] x) => (float[2,N] y, float16[3,M] z) { y = Relu(x) z = f(x) s = SplitToSequence(x) }")
    proto.graph.value_info.append(helper.make_tensor_value_info("unshaped", onnx.TensorProto.FLOAT, None))
    proto.graph.value_info.append(helper.make_tensor_value_info("untyped", onnx.TensorProto.UNDEFINED, [2]))
    proto.graph.value_info.append(helper.make_tensor_value_info("nameless", onnx.TensorProto.FLOAT, [None]))
    unknown = session._UNKNOWN
    sizes = {"y": 2 * 5 * 4, "z": 3 * unknown * 2, "nameless": unknown * 4}
    assert session._sizes(proto, {"x": np.ones((2, 5), np.float32)}) == sizes


@pytest.mark.parametrize("budget", [1, 50, 1 << 30])
def test_any_budget_of_memory_gives_the_same_values(budget: int, monkeypatch: pytest.MonkeyPatch) -> None:
    proto = parsed(
        "g (float[2,2] x) => (float[N,2] d) { a = Relu(x) b = Neg(a) c = Add(a, b) d = Concat<axis=0>(c, c) }"
    )
    monkeypatch.setattr(session, "BUDGET", budget)
    assert list(fetched(proto, "a", "b", "c", "d")) == ["a", "b", "c", "d"]


def test_no_session_holds_more_than_its_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    proto = parsed(
        "g (float[N,2] x) => (float[N,2] c) <float[N,2] a, float[N,2] b> { a = Relu(x) b = Neg(a) c = Neg(b) }"
    )
    held: list[int] = []
    original = session._session

    def counted(proto: onnx.ModelProto, folder: Path | None, **options: Any) -> Any:
        held.append(len(proto.graph.output))
        return original(proto, folder, **options)

    monkeypatch.setattr(session, "_session", counted)
    monkeypatch.setattr(session, "BUDGET", 2 * 10 * 2 * 4)  # two values of the size that `N` has in this run
    fetched(proto, "a", "b", "c", x=np.ones((10, 2), np.float32))
    assert held == [2, 1]


def test_external_data_is_read_from_the_models_folder(tmp_path: Path) -> None:
    weight = numpy_helper.from_array(X, "w")
    node = helper.make_node("Add", ["x", "w"], ["y"])
    value = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2, 2])
    out = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [2, 2])
    graph = helper.make_graph([node], "g", [value], [out], [weight])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    proto = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    assert fetched(proto, "y", folder=tmp_path) == {"y": [[[2, -4], [6, 8]]]}


def test_reference_evaluator_reads_external_data_into_a_copy(tmp_path: Path) -> None:
    made = parsed("g (bfloat16[2,2] x) => (bfloat16[2,2] y) { y = Gemm(x, w) }")
    made.graph.initializer.append(numpy_helper.from_array(np.ones((2, 2), ml_dtypes.bfloat16), "w"))
    onnx.save(made, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    proto = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    before = proto.SerializeToString()
    (value,) = run_graph(proto, {"x": np.ones((2, 2), ml_dtypes.bfloat16)}, ["y"], tmp_path)
    assert value.arrays[0].astype(int).tolist() == [[2, 2], [2, 2]]
    assert proto.SerializeToString() == before


@pytest.mark.parametrize(
    ("body", "x", "last"),
    [
        pytest.param(
            "y = Relu(x)",
            np.ones((3, 3), np.float32),
            "index: 0 Got: 3 Expected: 2 index: 1 Got: 3 Expected: 2 Please fix",
            id="an input of another shape",
        ),
        pytest.param(
            "i = Constant<value = int64[1] {7}>() y = Gather(x, i)", X, "out of data bounds", id="an index out of range"
        ),
        pytest.param("y = Unknown(x)", X, "No Op registered for Unknown", id="unknown operator"),
    ],
)
def test_graph_that_does_not_run_raises_usage_error(body: str, x: NDArray[Any], last: str) -> None:
    proto = parsed(f"g (float[2,2] x) => (float[A,B] y) {{ {body} }}")
    with pytest.raises(UsageError, match="that ONNX Runtime") as raised:
        fetched(proto, "y", x=x)
    assert last in raised.value.found
    assert "declares (x float[2, 2])" in raised.value.do


@pytest.mark.parametrize("dtype", ["int4", "uint4", "bfloat16", "float8_e4m3fn"])
def test_numbers_that_numpy_lacks_go_in_and_out(dtype: str) -> None:
    kind = int(ir.DataType.from_numpy(np.dtype(dtype)))
    inputs = [helper.make_tensor_value_info("x", kind, [1, 3])]
    nodes = [
        helper.make_node("Cast", ["x"], ["y"], to=onnx.TensorProto.FLOAT),
        helper.make_node("Cast", ["y"], ["z"], to=kind),
    ]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("z", kind, [1, 3])])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    x = np.array([[1, 2, 3]], np.float32).astype(dtype)
    found = {value.name: value.arrays[0] for value in run_graph(proto, {"x": x}, ["y", "z"])}
    assert found["y"].tolist() == [[1, 2, 3]]
    assert (found["z"].dtype, found["z"].tolist()) == (x.dtype, x.tolist())
