"""One module call as a model of its own: it computes what the call computes in the whole model."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import onnx
import onnx_ir as ir
import pytest
import torch
from torch import nn

from pytest_hierexport import (
    Attribution,
    Call,
    Evidence,
    Hierarchy,
    Origin,
    UsageError,
    export,
    extract,
    modules_as_functions,
    read,
    save,
)
from pytest_hierexport._proof.session import run_graph
from pytest_hierexport._proof.tensors import array_of
from pytest_hierexport.cli import main
from schemas import strict_schema


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, hidden: Any, mask: Any) -> Any:
        bias = torch.where(mask, 0.0, -1e4)
        return (self.proj(hidden) + bias).softmax(-1)


class Stack(nn.Module):
    """Two layers with equal masks, which the optimizer merges."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(2))

    def forward(self, x: Any, mask: Any) -> Any:
        for layer in self.layers:
            x = layer(x, mask=mask)
        return x


class Halves(nn.Module):
    """Returns its input and a part of it."""

    def forward(self, x: Any) -> Any:
        return {"same": x, "half": x * 0.5}


class Same(nn.Module):
    def forward(self, x: Any) -> Any:
        return x


class Chooser(nn.Module):
    """Runs one of two branches, each of which takes a value from outside."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = Branching()
        self.halves = Halves()
        self.same = Same()

    def forward(self, x: Any) -> Any:
        return self.same(self.halves(self.layer(x.neg()))["half"]).exp()


class Branching(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        doubled = x * 2
        return torch.cond(x.sum() > 0, lambda x: self.inner(x) + doubled, lambda x: doubled - x, (x,)).relu()


class Twice(nn.Module):
    """Runs a layer twice, whose weight is also that of the head."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        linear = nn.Linear(4, 4, dtype=dtype)
        self.block = nn.Sequential(linear, nn.ReLU())
        self.head = nn.Linear(4, 4, bias=False, dtype=dtype)
        self.head.weight = linear.weight

    def forward(self, x: Any) -> Any:
        return self.head(self.block(self.block(x)))


@dataclass
class Example:
    model: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@dataclass
class Exported:
    """An exported model with all its values."""

    example: Example
    proto: onnx.ModelProto
    attribution: Attribution
    values: dict[str, Any]

    def check(self, call: str, model: Any = None, attribution: Attribution | None = None) -> onnx.ModelProto:
        """Extract a call, and compare all its values with those of the whole model."""
        made = extract(model or self.proto, attribution or self.attribution, call)
        proto = ir.to_proto(made.model)
        onnx.checker.check_model(proto, full_check=True)
        names = [value for node in proto.graph.node for value in node.output if value in self.values]
        assert {*made.outputs.values()} <= {*names}
        for found in run_graph(proto, {new: self.values[old] for old, new in made.inputs.items()}, names):
            expected = np.float64(self.values[found.name])
            np.testing.assert_allclose(np.float64(found.arrays[0]), expected, rtol=1e-5)
        return proto


@cache
def exported(kind: str) -> Exported:
    torch.manual_seed(0)
    x = torch.randn(3, 4)
    example = {
        "stack": lambda: Example(Stack(), (x, torch.rand(3, 4) > 0.5), {}),
        "chooser": lambda: Example(Chooser(), (x,), {}),
        "twice": lambda: Example(Twice(torch.float32), (x,), {}),
        "bfloat16": lambda: Example(Twice(torch.bfloat16), (x.bfloat16(),), {}),
    }[kind]()
    made = export(example.model.eval(), example.args)
    proto = ir.to_proto(made.model)
    feeds = {value.name: array_of(tensor) for value, tensor in zip(proto.graph.input, example.args, strict=True)}
    names = [value for node in proto.graph.node for value in node.output]
    values = {found.name: found.arrays[0] for found in run_graph(proto, feeds, names)}
    return Exported(example, proto, made.attribution, values | feeds)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    stack = exported("stack")
    path = tmp_path / "stack.onnx"
    export(stack.example.model, stack.example.args, path=path, external_data=True)
    return path


class TestExtract:
    @pytest.mark.parametrize(
        ("kind", "call"),
        [
            ("stack", ""),
            ("stack", "layers.0"),
            ("stack", "layers.1.proj"),
            ("chooser", "layer"),
            ("chooser", "halves"),
            ("twice", "block@1"),
            ("twice", "block.0"),
            ("twice", "head"),
            ("bfloat16", "block@1"),
        ],
    )
    def test_values_are_those_of_the_whole_model(self, kind: str, call: str) -> None:
        exported(kind).check(call)

    def test_merged_mask_is_in_both_layers(self) -> None:
        stack = exported("stack")
        for call in ("layers.0", "layers.1"):
            proto = stack.check(call)
            assert [node.op_type for node in proto.graph.node].count("Where") == 1
            assert len(proto.graph.output) == 1

    def test_only_needed_initializers_are_kept(self) -> None:
        proto = exported("stack").check("layers.1")
        weights = {tensor.name for tensor in proto.graph.initializer if len(tensor.dims)}
        assert weights == {"layers.1.proj.weight", "layers.1.proj.bias"}

    def test_tied_weight_goes_with_each_owner(self) -> None:
        twice = exported("twice")
        held = [{tensor.name for tensor in twice.check(call).graph.initializer} for call in ("head", "block")]
        assert held[0] & held[1]

    def test_branches_keep_their_captured_values(self) -> None:
        proto = exported("chooser").check("layer")
        assert [node.op_type for node in proto.graph.node].count("If") == 1
        assert len(proto.graph.input) == 1

    def test_call_in_branch_is_extracted_from_it(self) -> None:
        made = extract(exported("chooser").proto, exported("chooser").attribution, "layer.inner")
        assert {node.op_type for node in made.model.graph} <= {"Gemm", "MatMul", "Add", "Transpose"}
        onnx.checker.check_model(ir.to_proto(made.model), full_check=True)

    def test_nodes_keep_origins_and_tags(self) -> None:
        stack = exported("stack")
        made = extract(stack.proto, stack.attribution, "/Stack/Layer.1")
        assert made.call == "layers.1"
        for key, origins in made.attribution.nodes.items():
            assert origins == stack.attribution.nodes[key]
            assert made.attribution.tag(key) == stack.attribution.tag(key)

    def test_types_are_inferred_where_the_file_has_none(self) -> None:
        stack = exported("stack")
        bare = onnx.ModelProto()
        bare.CopyFrom(stack.proto)
        del bare.graph.value_info[:]
        stack.check("layers.1", bare)

    def test_functions_are_inlined(self) -> None:
        stack = exported("stack")
        with_functions = modules_as_functions(stack.proto, stack.attribution)
        made = extract(with_functions.model, with_functions.attribution, "layers.1.proj")
        expected = stack.check("layers.1.proj")
        proto = ir.to_proto(made.model)
        assert not proto.functions
        assert [node.op_type for node in proto.graph.node] == [node.op_type for node in expected.graph.node]
        feeds = {new: stack.values[old] for old, new in made.inputs.items()}
        (found,) = run_graph(proto, feeds, [*made.outputs.values()])
        np.testing.assert_allclose(found.arrays[0], stack.values[expected.graph.output[0].name], rtol=1e-5)

    @pytest.mark.parametrize(("kind", "call"), [("chooser", "same"), ("twice", "block.2"), ("stack", "/Stack/Layer.7")])
    def test_call_without_nodes_is_an_error(self, kind: str, call: str) -> None:
        with pytest.raises(UsageError, match=r"to do: (extract the call that made it: /[A-Z]\w+$|perhaps )"):
            extract(exported(kind).proto, exported(kind).attribution, call)

    @pytest.mark.parametrize("external", [False, True])
    def test_saved_result_has_each_tag_of_a_tensor_once(self, external: bool, tmp_path: Path) -> None:
        stack = exported("stack")
        path, output = tmp_path / "stack.onnx", tmp_path / "part.onnx"
        export(stack.example.model, stack.example.args, path=path, external_data=external)
        for made in (extract(path, read(path), "layers.0"), modules_as_functions(path, read(path))):
            save(made.model, made.attribution, output)
            assert main(["validate", str(output)]) == 0

    def test_input_model_is_unchanged(self) -> None:
        stack = exported("stack")
        model = ir.from_proto(stack.proto)
        before = ir.to_proto(model).SerializeToString(deterministic=True)
        extract(model, stack.attribution, "layers.0")
        assert ir.to_proto(model).SerializeToString(deterministic=True) == before


def test_values_that_nothing_takes_are_outputs_without_others() -> None:
    proto = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 20]>
        g (float[2] x) => (float[2] y) { h = Neg(x) d = Abs(h) y = Exp(x) }"""
    )
    hierarchy = Hierarchy([Call("", 0, "m.Net", None), Call("layer", 0, "m.Layer", "")])
    origins = {"h": "layer", "d": "layer", "y": ""}
    attribution = Attribution(hierarchy, {key: (Origin(call, Evidence.TRACED),) for key, call in origins.items()})
    assert extract(proto, attribution, "layer").outputs == {"d": "d"}


@pytest.mark.parametrize(("stated", "lacking"), [(None, "no type of 'h'"), (onnx.TensorProto.FLOAT, "no shape of 'h'")])
def test_boundary_without_type_or_shape_is_an_error(stated: int | None, lacking: str) -> None:
    proto = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 20, "local" : 1]>
        g (float[2] x) => (float[2] y) { h = local.Gelu(x) y = local.Gelu(h) }"""
    )
    if stated is not None:
        proto.graph.value_info.append(onnx.helper.make_tensor_value_info("h", stated, None))
    hierarchy = Hierarchy([Call("", 0, "m.Net", None), *(Call(name, 0, "m.Layer", "") for name in "ab")])
    origins = {key: (Origin(call, Evidence.TRACED),) for key, call in {"h": "a", "y": "b"}.items()}
    with pytest.raises(UsageError, match=lacking):
        extract(proto, Attribution(hierarchy, origins), "b")


def test_initializer_that_is_an_input_stays_both() -> None:
    proto = onnx.parser.parse_model(
        """<ir_version: 3, opset_import: ["" : 8]>
        g (float[2] x, float[2] w) => (float[2] y) <float[2] w = {1, 2}> { h = Neg(x) y = Mul(h, w) }"""
    )
    hierarchy = Hierarchy([Call("", 0, "m.Net", None), Call("layer", 0, "m.Layer", "")])
    origins = {key: (Origin(call, Evidence.TRACED),) for key, call in {"h": "", "y": "layer"}.items()}
    part = extract(proto, Attribution(hierarchy, origins), "layer")
    assert [*part.inputs] == ["h", "w"]
    onnx.checker.check_model(ir.to_proto(part.model))


@pytest.mark.parametrize(
    ("made", "read"), [("SequenceConstruct", "ConcatFromSequence <axis = 0>"), ("Optional", "OptionalGetElement")]
)
def test_boundary_of_an_inferred_type_is_no_tensor(made: str, read: str) -> None:
    proto = onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 20]>
        g (float[2] x) => (float[2] y) {{ h = {made} (x) y = {read} (h) }}"""
    )
    hierarchy = Hierarchy([Call("", 0, "m.Net", None), *(Call(name, 0, "m.Layer", "") for name in "ab")])
    origins = {key: (Origin(call, Evidence.TRACED),) for key, call in {"h": "a", "y": "b"}.items()}
    for call in "ab":
        part = ir.to_proto(extract(proto, Attribution(hierarchy, origins), call).model)
        onnx.checker.check_model(part, full_check=True)


class TestForwardNames:
    def test_inputs_are_named_after_parameters(self) -> None:
        stack = exported("stack")
        made = extract(stack.proto, stack.attribution, "layers.1", stack.example)
        assert {*made.inputs.values()} == {"hidden", "mask"}
        assert [*made.outputs.values()] == ["output"]
        assert [value.name for value in made.model.graph.outputs] == ["output"]

    def test_parts_of_results_are_named_after_keys(self) -> None:
        chooser = exported("chooser")
        made = extract(chooser.proto, chooser.attribution, "halves", chooser.example)
        assert [*made.inputs.values()] == ["x"]
        assert [*made.outputs.values()] == ["half"]


class Cell(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.x, self.h = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Any, hidden: Any, memory: Any) -> Any:
        memory = memory * self.x(x).sigmoid()
        return (self.h(hidden) + x).tanh() * memory, memory


class Recurrent(nn.Module):
    """Gives its cell two states in another order than it has them; `most` limits them."""

    def __init__(self, most: float = 10.0) -> None:
        super().__init__()
        self.cell, self.most = Cell(), most

    def forward(self, x: Any, states: Any) -> Any:
        if not torch.compiler.is_dynamo_compiling() and type(states[0]) is torch.Tensor:
            assert float(states[0].abs().max()) <= self.most
        new, memory = self.cell(x, states[1], states[0])
        return new.exp(), memory.exp()


class Attending(nn.Module):
    """Takes one value for three parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 1, batch_first=True)

    def forward(self, x: Any) -> Any:
        x = x.exp()
        return self.attention(x, x, x, need_weights=False)[0].exp()


class TestEqualValues:
    @staticmethod
    def names(example: Example, call: str, shown: Example | None = None) -> dict[str, str]:
        made = export(example.model.eval(), example.args)
        extracted = extract(made.model, made.attribution, call, shown or example)
        return {**extracted.inputs, **extracted.outputs}

    def test_states_of_zeros_are_told_apart_on_other_inputs(self) -> None:
        states = (torch.zeros(2, 4), torch.zeros(2, 4))
        found = self.names(Example(Recurrent(), (torch.randn(2, 4), states), {}), "cell")
        assert (found["states_1"], found["states_0"]) == ("hidden", "memory")
        assert {*found.values()} == {"x", "hidden", "memory", "output_0", "output_1"}

    def test_model_that_fails_on_other_inputs_names_no_equal_ones(self) -> None:
        torch.manual_seed(0)
        example = Example(Recurrent(), (torch.randn(2, 4), (torch.zeros(2, 4), torch.zeros(2, 4))), {})
        strict = Recurrent(0.0)
        strict.load_state_dict(example.model.state_dict())
        found = self.names(example, "cell", Example(strict.eval(), example.args, {}))
        assert {value: name for value, name in found.items() if "state" in value} == {
            "states_0": "states_0",
            "states_1": "states_1",
        }
        assert {"hidden", "memory", "output_0", "output_1"}.isdisjoint(found.values())

    @pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
    def test_compiled_module_has_no_names_of_parameters(self) -> None:
        compiled = torch.jit.trace(nn.Linear(4, 4).eval(), torch.randn(2, 4))
        found = self.names(Example(nn.Sequential(nn.Linear(4, 4), compiled), (torch.randn(2, 4),), {}), "1")
        assert [*found.values()] == ["args_0", "output"]

    def test_value_of_several_parameters_has_the_first_name(self) -> None:
        found = self.names(Example(Attending(), (torch.randn(1, 3, 4),), {}), "attention")
        assert [*found.values()] == ["query", "output_0"]


class TestCommand:
    def test_file_has_external_data_and_fitting_sidecar(self, saved: Path, tmp_path: Path) -> None:
        (tmp_path / "out").mkdir()
        output = tmp_path / "out" / "layer.onnx"
        assert main(["extract", str(saved), "layers.1", "-o", str(output)]) == 0
        onnx.checker.check_model(str(output), full_check=True)
        assert read(output, "sidecar") == read(output)
        assert main(["validate", str(output)]) == 0
        whole = sum(tensor.nbytes for tensor in map(onnx.numpy_helper.to_array, onnx.load(saved).graph.initializer))
        assert sum(onnx.numpy_helper.to_array(t).nbytes for t in onnx.load(output).graph.initializer) < whole

    def test_json_follows_its_schema(self, saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["extract", str(saved), "layers.0", "-o", str(saved.with_name("a.onnx")), "--json"]) == 0
        shown = json.loads(capsys.readouterr().out)
        schema = strict_schema("extract")
        jsonschema.validate(shown, schema)
        assert shown["tag"] == "/Stack/Layer.0"

    def test_selector_names_inputs(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (tmp_path / "net.py").write_text(
            "import sys\n"
            f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
            "from test_tool_extract import exported\n"
            "def build():\n    return exported('stack').example.model, exported('stack').example.args\n"
        )
        path, output = tmp_path / "net.onnx", tmp_path / "layer.onnx"
        selector = f"{tmp_path / 'net.py'}::build"
        assert main(["export", selector, "-o", str(path)]) == 0
        capsys.readouterr()
        assert main(["extract", str(path), "layers.1", "-o", str(output), "--model", selector]) == 0
        shown = capsys.readouterr().out
        assert f"{output}: layers.1, " in shown
        assert "input hidden, " in shown

    def test_missing_call_is_a_usage_error(self, saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["extract", str(saved), "layers.7", "-o", str(saved.with_name("a.onnx"))]) == 4
        assert "perhaps layers.1, layers.0 or Layer;" in capsys.readouterr().err
        assert not saved.with_name("a.onnx").exists()
