"""What `hierexport diff` counts as a difference: calls, order, types, functions and data; and what it does not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from pytest_hierexport._calls.attribution import Attribution, Evidence, Origin
from pytest_hierexport._calls.hierarchy import Call, Hierarchy
from pytest_hierexport._onnx import storage
from pytest_hierexport._onnx.graph import walk
from pytest_hierexport._tools.comparing.comparison import Comparison, compare
from pytest_hierexport._tools.comparing.rendering import as_lines
from pytest_hierexport._tools.tagged_file import load_tagged

TWO_NORMS = """
<ir_version: 10, opset_import: ["" : 20]>
g (float[2] x, float[2] z) => (float[2] y, float[2] w)
<float[2] scale = {1, 1}, float[2] shift = {1, 1}> {
  scaled = Mul(x, scale)
  shifted = Mul(x, shift)
  y = Relu(scaled)
  w = Add(shifted, z)
}
"""
FUNCTION = """
<ir_version: 10, opset_import: ["" : 20, "my" : 1]>
g (float[2] x) => (float[2] y) {
  y = my.Leaky(x)
}
<domain: "my", opset_import: ["" : 20]>
Leaky <alpha: float = 0.5> (p) => (q) {
  q = LeakyRelu <alpha: float = @alpha> (p)
}
"""
CONSTANT = """
<ir_version: 10, opset_import: ["" : 20]>
g (float[2] x) => (float[2] y) {
  half = Constant <value = float {0.5}> ()
  y = Mul(x, half)
}
"""
BRANCHES = """
<ir_version: 10, opset_import: ["" : 20]>
g (float[2] x, bool taken) => (float[2] y) {} {{
  y = If (taken) <
    then_branch = yes () => (float[2] t) {} {{ t = Add(x, {}) }},
    else_branch = no () => (float[2] e) {{ e = Neg(x) }}>
}}
"""
CHAIN = """
<ir_version: 10, opset_import: ["" : 20]>
g (float[2] x) => (float[2] y) {
  a = Exp(x)
  b = Neg(a)
  y = Sin(b)
}
"""
LONGER_CHAIN = """
<ir_version: 10, opset_import: ["" : 20]>
g (float[2] x) => (float[2] y, float[2] w) {
  p = Exp(x)
  q = Abs(p)
  r = Neg(q)
  y = Sin(r)
  w = Neg(x)
}
"""
REPEATED = {
    "If": "If (c) <then_branch = b () => (float[1] t) <float[1] w = {{{i}}}> {{ t = Add({taken}, w) }},"
    " else_branch = e () => (float[1] f) {{ f = Neg(x) }}>",
    "Loop": "Loop (n, c, {taken}) <body = b (int64 i{i}, bool more{i}, float[1] s{i}) => (bool co{i}, float[1] so{i})"
    " {{ co{i} = Identity(more{i}) so{i} = Mul(s{i}, x) }}>",
}
CALLS = [Call("", 0, "m.Net", None), Call("block", 0, "m.Block", ""), Call("block", 1, "m.Block", "")]
Edit = Callable[[onnx.ModelProto], object]


def saved(path: Path, text: str, edit: Edit | None = None, calls: list[Call] = CALLS, call: str = "block") -> Path:
    """Write a model, all of whose nodes belong to one call."""
    proto = onnx.parser.parse_model(text)
    if edit is not None:
        edit(proto)
    origins = {key: (Origin(call, Evidence.TRACED),) for key, _ in walk(proto)}
    storage.attach_proto(proto, Attribution(Hierarchy(calls), origins))
    path.write_bytes(proto.SerializeToString())
    return path


@pytest.fixture
def compared(tmp_path: Path) -> Callable[..., Comparison]:
    def compared(text: str, before: Edit | None = None, after: Edit | None = None) -> Comparison:
        files = saved(tmp_path / "before.onnx", text, before), saved(tmp_path / "after.onnx", text, after)
        return compare(*map(load_tagged, files))

    return compared


class TestCalls:
    def test_other_caller_is_a_changed_module(self, tmp_path: Path) -> None:
        norm = [Call("norm", 0, "m.Norm", caller) for caller in ("", "block", "block@1")]
        before, *others = (
            load_tagged(saved(tmp_path / f"{i}.onnx", CONSTANT, None, [*CALLS, each], "norm"))
            for i, each in enumerate(norm)
        )
        lines = [list(as_lines(compare(before, after), "a", "b", 9))[-1] for after in others]
        assert lines == [
            "  ~ /Net/Block/Norm..norm: called by /Net → /Net/Block",
            "  ~ /Net/Block@1/Norm..norm: called by /Net → /Net/Block@1",
        ]

    def test_tag_of_another_call_is_a_changed_node(self, tmp_path: Path) -> None:
        files = (saved(tmp_path / f"{call}.onnx", CONSTANT, call=call) for call in ("block", "block@1"))
        found = compare(*map(load_tagged, files))
        assert [each.changes for each in found.nodes] == [["tag: /Net/Block → /Net/Block@1"]] * 2


class TestInterface:
    @pytest.mark.parametrize(("kind", "order"), [("input", "x, z → z, x"), ("output", "y, w → w, y")])
    def test_another_order_is_a_difference(self, compared: Callable[..., Comparison], kind: str, order: str) -> None:
        def turn(proto: onnx.ModelProto) -> None:
            values = getattr(proto.graph, kind)
            values.append(values.pop(0))

        assert compared(TWO_NORMS, after=turn).model == [f"order of the {kind}s: {order}"]

    def test_output_that_is_stated_twice_is_a_difference(self, compared: Callable[..., Comparison]) -> None:
        found = compared(TWO_NORMS, None, lambda proto: proto.graph.output.append(proto.graph.output[0]))
        assert found.model == ["number of outputs: 2 → 3"]

    def test_long_types_differ_in_their_last_size(self, compared: Callable[..., Comparison]) -> None:
        def shape(last: int) -> Edit:
            names = [f"a_symbolic_size_with_a_long_name_{i}" for i in range(4)]
            value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [*names, last])
            return lambda proto: proto.graph.input[0].CopyFrom(value)

        assert compared(CONSTANT, shape(64), shape(128)).model == [
            "input x: …with_a_long_name_3, 64] → …with_a_long_name_3, 128]"
        ]

    def test_name_of_a_size_is_no_number_and_no_list(self, compared: Callable[..., Comparison]) -> None:
        def shape(*sizes: int | str) -> Edit:
            value = helper.make_tensor_value_info("x", TensorProto.FLOAT, sizes)
            return lambda proto: proto.graph.input[0].CopyFrom(value)

        assert compared(CONSTANT, shape("4"), shape(4)).model == ['input x: FLOAT["4"] → FLOAT[4]']
        assert compared(CONSTANT, shape("a, b"), shape("a", "b")).model == ['input x: FLOAT["a, b"] → FLOAT[a, b]']

    def test_elements_of_sequences_are_compared(self, compared: Callable[..., Comparison]) -> None:
        def elements(dtype: int) -> Edit:
            tensor = helper.make_tensor_type_proto(dtype, [2])
            declared = helper.make_optional_type_proto(helper.make_sequence_type_proto(tensor))
            return lambda proto: proto.graph.input[0].type.CopyFrom(declared)

        assert compared(CONSTANT, elements(TensorProto.FLOAT), elements(TensorProto.INT64)).model == [
            "input x: optional(sequence(FLOAT[2])) → optional(sequence(INT64[2]))"
        ]

    def test_declarations_of_a_function_are_compared(self, compared: Callable[..., Comparison]) -> None:
        def change(proto: onnx.ModelProto) -> None:
            proto.functions[0].opset_import[0].version = 19
            proto.functions[0].attribute_proto[0].f = 0.25
            proto.functions[0].input.append("unused")

        assert compared(FUNCTION, after=change).model == [
            "function my::Leaky: opset ai.onnx: 20 → 19",
            "function my::Leaky: number of inputs: 1 → 2",
            "function my::Leaky: default of attribute alpha: 0.5 → 0.25",
        ]

    def test_other_output_of_a_function_is_a_difference(self, compared: Callable[..., Comparison]) -> None:
        def more(taken: str) -> Edit:
            def edit(proto: onnx.ModelProto) -> None:
                proto.functions[0].node.add(op_type="Neg", input=["p"], output=["r"])
                proto.functions[0].output[0] = taken

            return edit

        assert compared(FUNCTION, more("q"), more("r")).model == ["function my::Leaky: output 0 is another value"]

    def test_overload_of_a_node_is_compared(self, compared: Callable[..., Comparison]) -> None:
        found = compared(FUNCTION, after=lambda proto: setattr(proto.graph.node[0], "overload", "other"))
        assert [each.changes for each in found.nodes] == [["overload: none → other"]]


def in_floats(proto: onnx.ModelProto) -> None:
    """Store the constant of the first node as floats instead of bytes."""
    tensor = proto.graph.node[0].attribute[0].t
    array = numpy_helper.to_array(tensor)
    tensor.CopyFrom(helper.make_tensor("other", TensorProto.FLOAT, array.shape, array.ravel()))


def in_bytes(proto: onnx.ModelProto) -> None:
    tensor = proto.graph.node[0].attribute[0].t
    tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), "constant"))


class TestData:
    def test_type_unknown_to_onnx_is_told_by_number(self, compared: Callable[..., Comparison]) -> None:
        found = compared(CONSTANT, after=lambda p: setattr(p.graph.node[0].attribute[0].t, "data_type", 99))
        assert "dtype float → type 99" in str(found.nodes)

    def test_constant_in_another_form_is_no_difference(self, compared: Callable[..., Comparison]) -> None:
        assert compared(CONSTANT, in_bytes, in_floats).same

    def test_constants_without_valid_data_are_compared_as_they_are(self, compared: Callable[..., Comparison]) -> None:
        def cut(proto: onnx.ModelProto) -> None:
            proto.graph.node[0].attribute[0].t.ClearField("float_data")

        assert compared(CONSTANT, cut, cut).same

    def test_constants_in_external_data_are_compared(self, tmp_path: Path, compared: Callable[..., Comparison]) -> None:
        def external(name: str, value: float) -> Edit:
            def edit(proto: onnx.ModelProto) -> None:
                tensor = proto.graph.node[0].attribute[0].t
                tensor.CopyFrom(numpy_helper.from_array(np.float32(value)))
                onnx.external_data_helper.set_external_data(tensor, name)
                tensor.ClearField("raw_data")
                (tmp_path / name).write_bytes(np.float32(value).tobytes())

            return edit

        assert compared(CONSTANT, external("a", 1.5), external("b", 1.5)).same
        (found,) = compared(CONSTANT, external("a", 1.5), external("b", 9.5)).nodes
        assert found.changes == ["attribute value: 1 of 1 elements, by at most 8"]

    @pytest.mark.parametrize(
        ("dtype", "old", "new", "change"),
        [
            ("float32", [1, 2, 3], [1, np.nan, 3], "1 of 3 elements, NaN in one file"),
            ("float32", [1, 2], [np.nan, np.nan], "2 of 2 elements, NaN in one file"),
            ("int64", [2**60, 1], [2**60 + 1, 1], "1 of 2 elements, by at most 1"),
            ("int64", [-(2**63)], [2**63 - 1], "1 of 1 elements, by at most 1.84e+19"),
            ("uint8", [3, 255], [5, 0], "2 of 2 elements, by at most 255"),
        ],
    )
    def test_largest_difference_is_that_of_the_changed_elements(
        self, compared: Callable[..., Comparison], dtype: str, old: list[float], new: list[float], change: str
    ) -> None:
        def held(elements: list[float]) -> Edit:
            tensor = numpy_helper.from_array(np.array(elements, dtype), "held")
            return lambda proto: proto.graph.initializer.append(tensor)

        (found,) = compared(CONSTANT, held(old), held(new)).initializers
        assert found.change == change

    def test_sparse_initializers_are_compared(self, compared: Callable[..., Comparison]) -> None:
        def sparse(value: float, index: int) -> Edit:
            values = helper.make_tensor("sparse", TensorProto.FLOAT, [1], [value])
            indices = helper.make_tensor("indices", TensorProto.INT64, [1], [index])
            tensor = helper.make_sparse_tensor(values, indices, [4])
            return lambda proto: proto.graph.sparse_initializer.append(tensor)

        assert compared(CONSTANT, sparse(1.0, 0), sparse(1.0, 0)).same
        (found,) = compared(CONSTANT, sparse(1.0, 0), sparse(2.0, 3)).initializers
        assert found.change == "values: 1 of 1 elements, by at most 1, indices: 1 of 1 elements, by at most 3"

    def test_equal_initializers_are_paired_by_their_consumers(self, compared: Callable[..., Comparison]) -> None:
        def rename(proto: onnx.ModelProto) -> None:
            for node, name in zip(proto.graph.node, ("one", "other"), strict=False):
                node.input[1] = name
            for tensor, name in zip(proto.graph.initializer, ("other", "one"), strict=True):
                tensor.name = name

        found = compared(TWO_NORMS, after=rename)
        assert found.nodes == []
        assert [each.change for each in found.initializers] == ["renamed from scale", "renamed from shift"]

    def test_initializer_that_moved_into_a_branch_is_found(self, tmp_path: Path) -> None:
        held, moved = (
            saved(tmp_path / f"{i}.onnx", BRANCHES.format(*texts))
            for i, texts in enumerate(
                [("<float[2] outer = {1, 2}>", "", "outer"), ("", "<float[2] own = {1, 2}>", "own")]
            )
        )
        found = compare(load_tagged(held), load_tagged(moved))
        assert found.nodes == []
        assert [each.change for each in found.initializers] == ["renamed from outer"]

    @pytest.mark.parametrize("operator", REPEATED)
    @pytest.mark.parametrize("gone", range(3))
    def test_subgraphs_follow_the_nodes_that_hold_them(self, tmp_path: Path, operator: str, gone: int) -> None:
        def model(numbers: Sequence[int]) -> str:
            taken = ("x", *(f"v{i}" for i in numbers))
            steps = (
                f"v{i} = {REPEATED[operator].format(i=i, taken=name)}" for i, name in zip(numbers, taken, strict=False)
            )
            text = f"{' '.join(steps)} y = Relu(v{numbers[-1]})"
            return (
                '<ir_version: 10, opset_import: ["" : 20]> '
                f"g (float[1] x, int64 n, bool c) => (float[1] y) {{ {text} }}"
            )

        numbers = [i for i in range(3) if i != gone]
        texts = {"before": model(range(3)), "after": model(numbers)}
        found = compare(*(load_tagged(saved(tmp_path / f"{name}.onnx", text)) for name, text in texts.items()))
        assert [each.kind for each in found.nodes] == ["removed"] * 3 + ["changed"]
        assert {each.kind for each in found.initializers} <= {"removed"}

    def test_renamed_duplicates_are_paired_by_their_consumers(self, compared: Callable[..., Comparison]) -> None:
        text = TWO_NORMS.replace("Mul(x, shift)", "Mul(x, scale)")

        def turn(proto: onnx.ModelProto) -> None:
            proto.graph.node[0].output[0], proto.graph.node[1].output[0] = "b", "a"
            proto.graph.node[2].input[0], proto.graph.node[3].input[0] = "b", "a"
            proto.graph.node.insert(0, proto.graph.node.pop(1))

        found = compared(text, after=turn)
        assert [(each.before, each.after) for each in found.values] == [("scaled", "b"), ("shifted", "a")]
        assert found.nodes == []


class TestNeighbours:
    """A node whose expression, name and number of equal operators differ is paired by what is next to it."""

    def test_node_behind_an_inserted_one_is_paired_by_its_consumer(self, tmp_path: Path) -> None:
        before = saved(tmp_path / "before.onnx", CHAIN)
        found = compare(*map(load_tagged, (before, saved(tmp_path / "after.onnx", LONGER_CHAIN))))
        assert [(each.kind, each.node) for each in found.nodes] == [("added", "q"), ("changed", "r"), ("added", "w")]

    def test_changed_node_is_paired_by_its_producer(self, tmp_path: Path) -> None:
        before = CHAIN.replace("Sin(b)", "Elu <alpha = 0.5> (b)")
        after = CHAIN.replace("(float[2] y)", "(float[2] w, float[2] z)")
        after = after.replace("y = Sin(b)", "w = Elu <alpha = 2.0> (x) z = Elu <alpha = 1.5> (b)")
        files = saved(tmp_path / "before.onnx", before), saved(tmp_path / "after.onnx", after)
        found = compare(*map(load_tagged, files))
        assert [(each.kind, each.node) for each in found.nodes] == [("added", "w"), ("changed", "z")]
