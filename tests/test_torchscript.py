"""The torchscript capture: whose every node is, that the graph is torch's own, that everything is left alone."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
import torch
from torch import nn

from pytest_hierexport import Export, export
from pytest_hierexport._calls.attribution import Attribution
from pytest_hierexport._calls.hierarchy import Hierarchy
from pytest_hierexport._cases import Case, Example
from pytest_hierexport._cases.weights import randomise
from pytest_hierexport._errors import ExportError, NoVerdictError
from pytest_hierexport._export.quiet import quiet
from pytest_hierexport._onnx import storage
from pytest_hierexport._onnx.graph import walk
from pytest_hierexport._proof import prove
from pytest_hierexport._rules import must_005
from pytest_hierexport._rules.base import ExportedCase
from pytest_hierexport._rules.peer import plain_export

X = torch.linspace(-1, 1, 40).reshape(2, 5, 4)


class Gate(nn.Module):
    """A module with operations of its own around a torch.nn one."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.lin(x), -1) * x


class Runs(nn.Module):
    """Runs the modules it is given by a function of the model and the inputs."""

    def __init__(self, run: Any, **modules: nn.Module) -> None:
        super().__init__()
        self.run = run
        for name, module in modules.items():
            self.add_module(name, module)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.run(self, *args, **kwargs)


@dataclass(slots=True)
class Slotted:
    """An object without a `__dict__`, which torch's trees do not know."""

    first: torch.Tensor
    second: torch.Tensor


def exported(model: nn.Module, *args: Any, opset: int = 17, **kwargs: Any) -> Export:
    """Export a model and hold every tag to the proof."""
    randomise(model)
    args = args or (() if kwargs else (X,))
    result = export(model.eval(), args, kwargs, exporter="torchscript", opset=opset)
    proof = prove(Example(model, args, kwargs), result.model, result.attribution)
    assert (proof.unproven, proof.contaminated) == ({}, {})
    coverage = result.attribution.coverage()
    assert (coverage["derived"], coverage["untagged"]) == (0, 0)
    return result


def owners(result: Export, operator: str) -> list[list[str]]:
    """Return the calls of the nodes of one operator, in file order."""
    nodes = result.attribution.nodes
    return [[origin.call for origin in nodes[key]] for key, node in walk(result.model) if node.op_type == operator]


def stripped(model: ir.Model) -> bytes:
    proto = ir.to_proto(model)
    storage.attach_proto(proto, Attribution(Hierarchy(())), "none")
    return bytes(proto.SerializeToString(deterministic=True))


def plain(model: nn.Module, args: tuple[torch.Tensor, ...], opset: int) -> ir.Model:
    """Export with torch alone, the model as it is."""
    file: Any = io.BytesIO()
    with quiet():
        torch.onnx.export(model, args, file, dynamo=False, opset_version=opset)
    return ir.from_proto(onnx.load_from_string(file.getvalue()))


class TestCalls:
    def test_a_node_belongs_to_the_innermost_call(self) -> None:
        result = exported(Runs(lambda m, x: m.a(x), a=Gate()))
        assert (owners(result, "MatMul"), owners(result, "Softmax")) == ([["a.lin"]], [["a"]])

    def test_repeated_call_differs_from_attribute_of_equal_torch_name(self) -> None:
        result = exported(Runs(lambda m, x: m.lin_1(m.lin(m.lin(x))), lin=nn.Linear(4, 4), lin_1=nn.Linear(4, 4)))
        assert owners(result, "MatMul") == [["lin"], ["lin@1"], ["lin_1"]]

    def test_a_module_run_by_its_forward_is_called(self) -> None:
        assert owners(exported(Runs(lambda m, x: m.a.forward(x), a=Gate())), "Softmax") == [["a"]]

    def test_a_shared_module_is_named_by_who_calls_it(self) -> None:
        shared = nn.GELU()
        halves = [Runs(lambda m, x: m.act(x * 2), act=shared), Runs(lambda m, x: m.act(x + 1), act=shared)]
        assert owners(exported(nn.Sequential(*halves)), "Erf") == [["0.act"], ["1.act"]]

    def test_what_hooks_compute_belongs_to_their_module(self) -> None:
        gate = Gate()
        gate.register_forward_pre_hook(lambda _m, args: (args[0] + 1,))
        gate.register_forward_hook(lambda _m, _args, output: output.tanh())
        result = exported(Runs(lambda m, x: m.a(x), a=gate))
        assert (owners(result, "Add")[0], owners(result, "Tanh")) == (["a"], [["a"]])

    def test_equal_operations_that_torch_merged_belong_to_both_calls(self) -> None:
        result = exported(Runs(lambda m, x: m.a(x) - m.b(x) * 2, a=nn.Tanh(), b=nn.Tanh()))
        assert owners(result, "Tanh") == [["a", "b"]]

    def test_so_do_those_that_torch_writes_anew_afterwards(self) -> None:
        def half(_: nn.Module, x: torch.Tensor) -> torch.Tensor:
            return x.chunk(2, -1)[0] * 0.5

        result = exported(Runs(lambda m, x: m.a(x) - m.b(x).exp(), a=Runs(half), b=Runs(half)))
        assert [*owners(result, "Slice"), owners(result, "Mul")[-1]] == [["a", "b"]] * 2

    def test_list_that_torch_merged_becomes_nodes_of_each_call(self) -> None:
        # Swin pads its windows in each block, by the same sizes.
        padded = [Runs(lambda _m, x, n: nn.functional.pad(x, (0, 0, 0, -n % 4))) for _ in range(2)]

        def run(m: Any, x: torch.Tensor) -> Any:
            rows = x.nonzero().shape[0]
            return m.a(x.exp(), rows), m.b(x.tanh(), rows)

        result = exported(Runs(run, a=padded[0], b=padded[1]))
        assert owners(result, "Mod") == [["a", "b"]]
        assert owners(result, "Concat") == [["a"], ["a"], ["b"], ["b"], ["a"], ["b"]]

    def test_call_with_unused_result_owns_the_shared_computation(self) -> None:
        result = exported(Runs(lambda m, x: (m.a(x), m.b(x))[1].tanh(), a=nn.BatchNorm1d(5), b=nn.Tanh()))
        assert owners(result, "BatchNormalization") == []
        repeated = exported(Runs(lambda m, x: (m.a(x), m.a(x))[1].tanh(), a=nn.BatchNorm1d(5)))
        assert owners(repeated, "BatchNormalization") == [["a", "a@1"]]

    def test_merged_call_owns_no_equal_node_beside_its_own(self) -> None:
        layer = Runs(lambda m, x: nn.functional.linear(x, m.lin.weight.tanh()), lin=nn.Linear(4, 4))

        def twice(model: Any, x: torch.Tensor) -> Any:
            y = model.a(x)
            return model.a(y).exp() - model.a(y)

        # Of two equal nodes, one is of the first call alone, and one of the two that torch merged.
        result = exported(Runs(twice, a=layer))
        assert owners(result, "Transpose") == [["a"], ["a@1", "a@2"]]

    def test_product_with_a_transposed_constant_is_another_one(self) -> None:
        table = torch.rand(9, 9)
        turned = table.t()  # of the same memory
        one, other = Runs(lambda _m, x: x @ table), Runs(lambda _m, x: x @ turned)
        result = exported(Runs(lambda m, x: (m.a(x), m.b(x))[0].tanh(), a=one, b=other), torch.rand(2, 9))
        assert owners(result, "MatMul") == [["a"]]

    def test_a_batch_norm_in_its_convolution_belongs_to_both(self) -> None:
        result = exported(nn.Sequential(nn.Conv1d(5, 5, 1), nn.BatchNorm1d(5), nn.ReLU()))
        assert owners(result, "Conv") == [["0", "1"]]

    @pytest.mark.parametrize("last", [[], [nn.ReLU()]], ids=["as-result", "in-the-model"])
    def test_so_do_two_such_pairs_in_a_row(self, last: list[nn.Module]) -> None:
        pairs = [[nn.Conv1d(5, 5, 1, bias=False), nn.BatchNorm1d(5)] for _ in range(2)]
        result = exported(nn.Sequential(*(module for pair in pairs for module in pair), *last))
        assert owners(result, "Conv") == [["0", "1"], ["2", "3"]]

    def test_two_transposes_in_one_belong_to_both(self) -> None:
        left = Runs(lambda _m, x: x.exp().transpose(1, 2))
        right = Runs(lambda _m, x: x.transpose(0, 1).tanh())
        assert owners(exported(Runs(lambda m, x: m.b(m.a(x)), a=left, b=right)), "Transpose") == [["a", "b"]]

    def test_weight_of_repeated_module_belongs_to_all_its_calls(self) -> None:
        result = exported(Runs(lambda m, x: m.a(m.a(x)), a=nn.Linear(4, 4)))
        assert owners(result, "Identity") == [["a@1"]]

    def test_copies_of_buffers_and_results_belong_to_the_root(self) -> None:
        model = Runs(lambda own, x: (own.norm.running_mean, y := own.gate(x), y), gate=Gate(), norm=nn.BatchNorm1d(4))
        result = exported(model)
        assert owners(result, "Identity") == [[""], [""]]
        assert result.attribution.coverage()["traced"] == len(result.attribution.nodes)

    def test_loop_body_belongs_to_the_call_that_runs_it(self) -> None:
        model = Runs(lambda m, x: m.b(m.a(x)), a=Runs(lambda _m, x: doubled(x, x.shape[0])), b=Gate())
        result = exported(model, X + 2)
        inside = [key for key, _ in walk(result.model) if "/body/" in key]
        assert inside
        assert {result.attribution.nodes[key][0].call for key in inside} == {"a"}

    def test_function_with_symbolic_belongs_to_its_call(self) -> None:
        thrice: Any = Thrice.apply
        model = Runs(lambda m, x: m.b(m.a(x)), a=Runs(lambda _m, x: thrice(x)), b=nn.Tanh())
        assert owners(exported(model), "Mul") == [["a"]]

    def test_no_grad_region_belongs_to_the_call_inside_it(self) -> None:
        def run(m: Any, x: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                return torch.as_tensor(m.a(x)) + 1

        assert owners(exported(Runs(run, a=Gate())), "Softmax") == [["a"]]

    def test_assignments_in_place_belong_to_who_makes_them(self) -> None:
        def run(_: nn.Module, x: torch.Tensor) -> torch.Tensor:
            y = x.clone()
            y[:, 0] = 1.5
            return y.add_(1)

        result = exported(Runs(lambda m, x: m.b(m.a(x)), a=nn.Tanh(), b=Runs(run)))
        assert {owner for found in owners(result, "ScatterND") for owner in found} == {"b"}

    def test_initial_states_of_recurrent_layers_have_their_calls(self) -> None:
        first, second = nn.GRU(4, 4, 2), nn.GRU(4, 4)
        result = exported(Runs(lambda m, x: m.b(m.a(x)[0])[0], a=first, b=second), torch.randn(3, 2, 4))
        for operator in ("Shape", "Gather", "Unsqueeze", "Expand"):
            assert owners(result, operator) == [["a"], ["a"], ["b"]]

    def test_both_initial_states_of_an_lstm_are_its_own(self) -> None:
        result = exported(Runs(lambda m, x: m.b(m.a(x)[0]), a=nn.LSTM(4, 4), b=Gate()), torch.randn(3, 2, 4))
        assert owners(result, "Expand") == [["a"], ["a"]]
        assert result.attribution.coverage()["derived"] == 0

    @pytest.mark.parametrize("opset", [13, 14, 15, 16, 17, 18])
    def test_old_opsets_are_served(self, opset: int) -> None:
        result = exported(Runs(lambda m, x: m.a(m.a(x)), a=Gate()), opset=opset)
        assert result.model.opset_imports[""] == opset
        assert owners(result, "Softmax") == [["a"], ["a@1"]]


def _doubled(x: torch.Tensor, times: int) -> torch.Tensor:
    """Loop in a way that a trace keeps."""
    for _ in range(times):
        if bool(x.sum() > 0):  # noqa: SIM108 a trace keeps the branch as it is written
            x = x * 2
        else:
            x = x + 1
    return x


doubled: Any = torch.jit.script(_doubled)


class Thrice(torch.autograd.Function):
    """A function with an ONNX form of its own."""

    @staticmethod
    def forward(_ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 3

    @staticmethod
    def symbolic(g: Any, x: Any) -> Any:
        return g.op("Mul", x, g.op("Constant", value_t=torch.tensor(3.0)))


@dataclass
class State:
    """What a model may give that torch's trees do not know."""

    rows: torch.Tensor
    scale: float = 1.0


class TestInterface:
    def test_keyword_inputs_and_nested_outputs_are_named_by_place(self) -> None:
        def run(m: Any, x: torch.Tensor, *, mask: Any, scale: float) -> dict[str, Any]:
            y = m.a(x) * mask["left"][1] * scale
            return {"y": y, "nothing": None, "state": State(y + 1), "again": y}

        model = Runs(run, a=Gate())
        result = exported(model, x=X, mask={"left": (None, torch.ones(4))}, scale=0.5)
        assert [value.name for value in result.model.graph.inputs] == ["x", "mask.left.1"]
        assert [value.name for value in result.model.graph.outputs] == ["y", "state.rows", "again"]

    def test_objects_that_hold_tensors_come_in_as_their_tensors(self) -> None:
        result = exported(Runs(lambda m, state: m.a(state.rows * state.scale), a=Gate()), state=State(X, 2.0))
        assert [value.name for value in result.model.graph.inputs] == ["state.rows"]

    def test_inputs_are_named_by_parameter_where_torch_drops_one(self) -> None:
        class Drops(nn.Module):
            def forward(self, a: torch.Tensor, _unread: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
                return a - b

        result = exported(Drops(), X, X + 1, X * 2)
        assert [value.name for value in result.model.graph.inputs] == ["a", "b"]

    def test_names_may_be_given(self) -> None:
        result = export(Gate().eval(), (X,), exporter="torchscript", input_names=["in"], output_names=["out"])
        assert (result.model.graph.inputs[0].name, result.model.graph.outputs[0].name) == ("in", "out")

    def test_dynamic_shapes_serve_other_sizes(self) -> None:
        model = Gate().eval()
        shapes = {"x": {0: torch.export.Dim("batch"), 1: torch.export.Dim.DYNAMIC}}
        result = export(model, (X,), exporter="torchscript", opset=13, dynamic_shapes=shapes)
        (given,) = result.model.graph.inputs
        assert str(given.shape) == "[batch,x_dim_1,4]"
        other = torch.ones(3, 7, 4)
        session = onnxruntime.InferenceSession(ir.to_proto(result.model).SerializeToString())
        (found,) = session.run(None, {"x": other.numpy()})
        np.testing.assert_allclose(found, model(other).detach().numpy(), rtol=1e-5)


class TestGraph:
    @pytest.mark.parametrize("opset", [13, 17])
    def test_positional_tensors_give_the_graph_of_the_bare_model(self, opset: int) -> None:
        model = Runs(lambda m, x, y: (m.a(m.a(x)), m.b(x) - m.a(y)), a=Gate(), b=Gate()).eval()
        result = export(model, (X, X + 1), exporter="torchscript", opset=opset)
        assert stripped(result.model) == stripped(plain(model, (X, X + 1), opset))

    def test_that_of_keywords_is_the_one_of_the_plain_peer(self) -> None:
        model = Runs(lambda m, x, scale: {"y": m.a(x) * scale, "z": m.a(x).exp()}, a=Gate()).eval()
        inputs = {"x": X, "scale": torch.ones(4)}
        result = export(model, (), inputs, exporter="torchscript", opset=17)
        peer = plain_export(
            "torchscript", model, (), inputs, opset=17, input_names=["x", "scale"], output_names=["y", "z"]
        )
        assert stripped(result.model) == stripped(peer)

    def test_objects_with_slots_give_the_graph_of_the_plain_peer(self) -> None:
        model = Runs(lambda m, pair: Slotted(m.a(pair.first), pair.second.exp()), a=Gate()).eval()
        inputs = (Slotted(X, torch.ones(4)),)
        result = export(model, inputs, exporter="torchscript", opset=17)
        names: Any = {"input_names": ["args.0.first", "args.0.second"], "output_names": ["first", "second"]}
        assert stripped(result.model) == stripped(plain_export("torchscript", model, inputs, opset=17, **names))

    def test_the_plain_peer_takes_the_same_way_through_attention(self) -> None:
        model = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
        inputs = (torch.randn(2, 4, 8),)
        result = export(model, inputs, exporter="torchscript", opset=17)
        with torch.no_grad():
            assert stripped(result.model) == stripped(plain_export("torchscript", model, inputs, opset=17))

    def test_operations_in_place_are_moved_as_torch_moves_them(self) -> None:
        def run(m: Any, x: torch.Tensor) -> torch.Tensor:
            out, rows = torch.zeros_like(x), torch.where(x[:, 0] > 0)[0]
            for layer in (m.a, m.b):
                out.index_add_(0, rows, layer(x)[rows])
            return out

        model, x = Runs(run, a=Gate(), b=Gate()), torch.randn(5, 4)
        result = exported(model, x, opset=18)
        assert stripped(result.model) == stripped(plain(model, (x,), 18))

    def test_results_that_are_not_used_do_not_stay_in_it(self) -> None:
        model = Runs(lambda m, x: (m.a(x), m.b(x))[1], a=Gate(), b=Gate()).eval()
        result = export(model, (X,), exporter="torchscript", opset=17)
        assert stripped(result.model) == stripped(plain(model, (X,), 17))


class TestAuto:
    def test_it_serves_opsets_that_dynamo_would_have_to_convert_to(self) -> None:
        result = export(Gate().eval(), (X,), opset=15)
        assert (result.exporter, result.model.opset_imports[""], result.notes) == ("torchscript", 15, ())

    def test_torchscript_is_not_tried_for_unknown_opsets(self) -> None:
        with pytest.raises(ExportError, match="opset 20 is the newest"):
            export(Gate().eval(), (X,), exporter="torchscript", opset=21)


class TestState:
    def test_model_inputs_and_torch_are_left_as_they_were(self) -> None:
        model = Runs(lambda m, x: m.a(x.add_(1)), a=Gate()).eval()
        before = {name: value.clone() for name, value in model.state_dict().items()}
        functions = {name: getattr(torch._C, name) for name in dir(torch._C) if name.startswith("_jit_")}
        x = X.clone()
        export(model, (x,), exporter="torchscript", opset=17)
        assert torch.equal(x, X)
        assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
        assert {name: getattr(torch._C, name) for name in functions} == functions

    def test_so_they_are_after_a_failure(self, capfd: pytest.CaptureFixture[str]) -> None:
        def run(m: Any, x: torch.Tensor) -> torch.Tensor:
            m.kept = m.a(x)
            return torch.as_tensor(torch.linalg.svdvals(m.kept))

        model = Runs(run, a=Gate()).eval()
        call = torch.nn.Module._call_impl
        with pytest.raises(ExportError, match="linalg_svd"):
            export(model, (X,), exporter="torchscript", opset=17)
        assert torch.nn.Module._call_impl is call
        assert not hasattr(model, "kept")
        assert capfd.readouterr().out == ""

    def test_a_program_that_was_exported_before_is_refused(self) -> None:
        program = torch.export.export(Gate().eval(), (X,))
        with pytest.raises(ExportError, match="a module for the torchscript exporter"):
            export(program, exporter="torchscript")


def test_note_names_lines_where_python_branched_on_a_value() -> None:
    def decides(_: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return x.exp() if x.sum() > 0 else x.neg()

    fixed = export(Runs(decides), (X,), exporter="torchscript").notes
    assert [note for note in fixed if "test_torchscript.py:" in note and "now constants" in note]
    assert not any("constants" in note for note in export(Gate(), (X,), exporter="torchscript").notes)


class TestParts:
    """What TorchScript has no translation of, though it is composed of operators that it has one of."""

    def test_operator_parts_are_traced_in_the_call_of_the_operator(self) -> None:
        model = Runs(lambda m, x: m.b(m.a(x).diff()), a=Gate(), b=nn.ReLU())
        result = exported(model, opset=17)
        assert {node.op_type for _, node in walk(result.model)} >= {"Slice", "Sub"}

    def test_attention_is_where_the_opset_has_none(self) -> None:
        def attend(m: Any, x: torch.Tensor) -> torch.Tensor:
            return nn.functional.scaled_dot_product_attention(m.a(x), x, m.b(x), is_causal=True)

        result = exported(Runs(attend, a=Gate(), b=Gate()), opset=13)
        assert result.model.opset_imports[""] == 13

    def test_afterwards_it_is_traced_whole_again(self) -> None:
        exported(Runs(lambda m, x: m.a(x).diff(), a=Gate()), opset=17)
        traced = torch.jit.trace(torch.diff, X)
        assert "aten::diff" in str(traced.graph)

    def test_what_is_composed_of_nothing_fails_as_it_did(self) -> None:
        with pytest.raises(ExportError, match="aten::geqrf"):
            export(Runs(lambda _, x: torch.geqrf(x)[0]), (X,), exporter="torchscript")

    def test_the_operator_that_has_no_translation_is_named(self) -> None:
        fold = Runs(lambda _, x: nn.functional.fold(x, (x.shape[-1] + 1, 1), (2, 1)))
        with pytest.raises(ExportError, match=r"'NoneType'.*translating col2im"):
            export(fold, (X[:, :4],), exporter="torchscript")

    def test_must_005_has_no_plain_peer_of_parts(self, tmp_path: Any) -> None:
        example = Example(Runs(lambda m, x: m.a(x).diff(), a=Gate()).eval(), (X,))
        case = Case("parts", lambda: example, "tests", exporter="torchscript", opset=17)
        export(example.model, example.args, path=tmp_path / "model.onnx", exporter="torchscript", opset=17)
        shown = ExportedCase(case, tmp_path / "model.onnx", example, "torchscript")
        with pytest.raises(NoVerdictError, match="no plain peer: UnsupportedOperatorError"):
            list(must_005.check(shown))


class Summed(nn.Module):
    def forward(self, parts: list[torch.Tensor]) -> torch.Tensor:
        return parts[0] + parts[1]


@pytest.mark.parametrize("shapes", [{"parts": [{0: "batch"}]}, [[{0: object()}, None]]])
def test_dynamic_shapes_of_another_form_are_the_users_error(shapes: Any) -> None:
    with pytest.raises(ExportError, match="dynamic_shapes are not nested like the inputs"):
        export(Summed().eval(), ([X, X],), exporter="torchscript", dynamic_shapes=shapes)
