"""`export()`: which call every node is tagged with, that the graph is torch's own, that the model is left alone."""

from __future__ import annotations

import copy
import functools
import logging
import re
import threading
import types
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir
import pytest
import torch
import torch.utils.checkpoint
from torch import nn
from torch.nn.utils import parametrizations, parametrize

from pytest_hierexport import Export, export
from pytest_hierexport._calls.attribution import Attribution, Evidence, Origin
from pytest_hierexport._calls.hierarchy import Call, Hierarchy
from pytest_hierexport._carry.copying import flat_copy
from pytest_hierexport._cases import Case, Example
from pytest_hierexport._cases.weights import randomise
from pytest_hierexport._errors import ExportError, UsageError
from pytest_hierexport._export import patching, pipeline
from pytest_hierexport._export.capture import Capture
from pytest_hierexport._export.quiet import quiet
from pytest_hierexport._export.traced import attribute_before
from pytest_hierexport._onnx import storage
from pytest_hierexport._proof import prove


class Gate(nn.Module):
    """A module with an operation of its own around a torch.nn one."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.lin(x), -1) * x


class Forgetful(nn.Module):
    def __init__(self) -> None: ...


X = torch.linspace(-1, 1, 24).reshape(6, 4)


def exported(model: nn.Module, *args: Any, **options: Any) -> Export:
    torch.manual_seed(0)
    randomise(model)
    return export(model.eval(), args or (X,), **options)


def calls_by_operator(result: Export, operator: str) -> list[str]:
    """Return the primary calls of the nodes of one operator, in file order."""
    from pytest_hierexport._onnx.graph import walk

    nodes = result.attribution.nodes
    return [nodes[key][0].call for key, node in walk(result.model) if node.op_type == operator]


def stripped(model: ir.Model) -> bytes:
    proto = ir.to_proto(model)
    storage.attach_proto(proto, Attribution(Hierarchy(())), "none")
    return bytes(proto.SerializeToString(deterministic=True))


class Sequence(nn.Module):
    """Runs the modules it is given by a function of the model and the input."""

    def __init__(self, run: Any, **modules: nn.Module) -> None:
        super().__init__()
        self.run = run
        for name, module in modules.items():
            self.add_module(name, module)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.run(self, x)
        return result


class TestCalls:
    def test_a_node_is_tagged_with_the_innermost_call(self) -> None:
        result = exported(Sequence(lambda m, x: m.a(x), a=Gate()))
        assert calls_by_operator(result, "Gemm") == ["a.lin"]
        assert calls_by_operator(result, "Softmax") == ["a"]
        assert set(result.attribution.coverage().items()) >= {("traced", 3), ("derived", 0), ("untagged", 0)}

    def test_a_repeated_call_has_an_index(self) -> None:
        result = exported(Sequence(lambda m, x: m.a(m.a(x)), a=Gate()))
        assert calls_by_operator(result, "Softmax") == ["a", "a@1"]

    def test_an_attribute_named_like_a_repeated_call_is_none(self) -> None:
        model = Sequence(lambda m, x: m.a(m.a(getattr(m, "a@1")(x))), a=Gate())
        model.add_module("a@1", Gate())
        result = exported(model)
        assert calls_by_operator(result, "Softmax") == ["a%401", "a", "a@1"]

    def test_a_shared_module_goes_by_the_name_its_caller_used(self) -> None:
        shared = Gate()
        blocks = [Sequence(lambda m, x: m.act(x) + 1, act=shared) for _ in range(2)]
        result = exported(Sequence(lambda m, x: m.one(m.two(x)), one=blocks[0], two=blocks[1]))
        assert calls_by_operator(result, "Softmax") == ["two.act", "one.act"]

    def test_module_with_two_attribute_names_is_called_by_both(self) -> None:
        shared = Gate()
        result = exported(Sequence(lambda m, x: m.q(m.p(x)), p=shared, q=shared))
        assert calls_by_operator(result, "Softmax") == ["p", "q"]

    def test_module_called_from_elsewhere_keeps_its_path(self) -> None:
        class Apply(nn.Module):
            def forward(self, x: torch.Tensor, module: nn.Module) -> torch.Tensor:
                result: torch.Tensor = module(x) * 2
                return result

        result = exported(Sequence(lambda m, x: m.apply_it(x, m.gate), apply_it=Apply(), gate=Gate()))
        assert calls_by_operator(result, "Softmax") == ["gate"]
        assert result.attribution.hierarchy.tag("gate") == "/Sequence/Apply/Gate..gate"

    def test_calls_from_outside_and_within_modules_stay_apart(self) -> None:
        block = Sequence(lambda m, x: m.n(m.n(x)) + 1, n=Gate())
        model = Sequence(lambda m, x: m.kept[0](m.n(x)), n=block, o=block)
        model.kept = [block]  # type: ignore[assignment]  # a plain list: torch does not see which module it holds
        # For torch both the second run of the block and the second run of what it holds are `n@1` there.
        assert calls_by_operator(exported(model), "Softmax") == ["n.n", "n.n@1", "n.n@2", "n.n@3"]

    def test_sliced_list_names_modules_by_their_original_index(self) -> None:
        model = Sequence(lambda m, x: m.l[2](m.l[1:][0](x)), l=nn.ModuleList(Gate() for _ in range(3)))
        assert calls_by_operator(exported(model), "Softmax") == ["l.1", "l.2"]

    def test_a_module_run_by_its_forward_is_called(self) -> None:
        result = exported(Sequence(lambda m, x: m.a.forward(x), a=Gate()))
        assert calls_by_operator(result, "Softmax") == ["a"]

    def test_forward_that_is_set_on_an_instance_is_a_call(self) -> None:
        tripled, partial = Gate(), Gate()
        original, partial_original = tripled.forward, partial.forward
        tripled.forward = lambda x: original(x) * 3  # type: ignore[method-assign]
        partial.forward = functools.partial(lambda module, x: partial_original(x) * 3, partial)  # type: ignore[method-assign]
        own = tripled.forward
        model = Sequence(lambda m, x: m.b.forward(m.a(m.a.forward(x))), a=tripled, b=partial)
        result = exported(model)
        assert calls_by_operator(result, "Softmax") == ["a", "a@1", "b"]
        assert calls_by_operator(result, "Mul")[1::2] == ["a", "a@1", "b"]
        assert tripled.forward is own
        with quiet():
            plain = torch.onnx.export(model, (X,), dynamo=True, verbose=False)
        assert plain is not None
        assert stripped(result.model) == stripped(plain.model)

    @pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
    def test_inputs_of_a_call_may_have_any_names(self, exporter: str) -> None:
        class Named(Gate):
            def forward(self, module: torch.Tensor, _: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
                return super().forward(module + _)

        own = Named()
        own.forward = own.forward  # type: ignore[method-assign]
        model = Sequence(lambda m, x: m.a(module=m.b(module=x, _=x), _=x), a=Named(), b=own)
        assert calls_by_operator(exported(model, exporter=exporter), "Softmax") == ["b", "a"]

    def test_super_forward_is_no_call_of_its_own(self) -> None:
        class Doubled(Gate):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return super().forward(x) * 2

        result = exported(Sequence(lambda m, x: m.a(x), a=Doubled()))
        assert calls_by_operator(result, "Softmax") == ["a"]

    def test_regions_without_gradients_and_under_autocast_keep_their_calls(self) -> None:
        def run(m: Any, x: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                x = m.a(x)
            with torch.autocast("cpu", enabled=False):
                result: torch.Tensor = m.b(x)
            return result

        assert calls_by_operator(exported(Sequence(run, a=Gate(), b=Gate())), "Softmax") == ["a", "b"]

    def test_region_with_gradients_keeps_its_calls(self) -> None:
        def run(m: Any, x: torch.Tensor) -> torch.Tensor:
            with torch.enable_grad():
                return m.b(m.a(x))  # type: ignore[no-any-return]

        result = exported(Sequence(run, a=Gate(), b=Gate()))
        assert result.exporter == "dynamo"
        assert calls_by_operator(result, "Softmax") == ["a", "b"]

    def test_branches_of_cond_keep_their_calls(self) -> None:
        def run(m: Any, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.sum() > 0, m.a, m.b, (x,))  # type: ignore[no-any-return]

        result = exported(Sequence(run, a=Gate(), b=Gate()))
        assert calls_by_operator(result, "Softmax") == ["a", "b"]
        assert list(result.attribution.hierarchy) == ["", "a", "a.lin", "b", "b.lin"]

    def test_calls_of_a_model_that_is_a_graph_are_seen(self) -> None:
        written = Sequence(lambda m, x: m.b(m.a(m.b(x))) * 2, a=Gate(), b=nn.Sequential(Gate(), nn.ReLU()))
        model = torch.fx.symbolic_trace(written)
        result = exported(model)
        # fx inlines the modules that are not of torch.nn: the model runs their operations itself.
        assert calls_by_operator(result, "Gemm") == ["b.0.lin", "a.lin", "b.0.lin@1"]
        assert calls_by_operator(result, "Relu") == ["b.1", "b.1@1"]
        assert calls_by_operator(result, "Softmax") == ["", "", ""]
        assert result.attribution.hierarchy.tag("b.1") == "/Sequence"
        with quiet():
            plain = torch.onnx.export(model, (X,), dynamo=True, verbose=False)
        assert plain is not None
        assert stripped(result.model) == stripped(plain.model)

    def test_the_body_of_a_loop_keeps_its_calls(self) -> None:
        from torch._higher_order_ops.while_loop import while_loop

        def run(m: Any, x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, m.a(y)), (torch.tensor(0), x))[1]
            return result

        assert calls_by_operator(exported(Sequence(run, a=Gate())), "Softmax") == ["a"]

    def test_a_compiled_region_that_runs_twice_makes_calls_twice(self) -> None:
        def run(m: Any, x: torch.Tensor) -> torch.Tensor:
            region = torch.compiler.nested_compile_region(lambda y: m.a(y) + 1)
            result: torch.Tensor = region(region(x))
            return result

        assert calls_by_operator(exported(Sequence(run, a=Gate())), "Softmax") == ["a", "a@1"]

    def test_a_checkpointed_block_keeps_its_call(self) -> None:
        def run(m: Any, x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = torch.utils.checkpoint.checkpoint(m.a, x, use_reentrant=False)
            return result

        assert calls_by_operator(exported(Sequence(run, a=Gate())), "Softmax") == ["a"]

    def test_a_compiled_submodule_keeps_its_call(self) -> None:
        gate = Gate()
        gate.compile()
        assert calls_by_operator(exported(Sequence(lambda m, x: m.a(x), a=gate)), "Softmax") == ["a"]

    def test_nodes_of_hooks_belong_to_the_hooked_call(self) -> None:
        gate = Gate()
        gate.register_forward_hook(lambda module, args, output: output * 3)
        result = exported(Sequence(lambda m, x: torch.relu(m.a(x)), a=gate))
        assert calls_by_operator(result, "Mul") == ["a", "a"]

    def test_a_parametrised_module_goes_by_the_class_that_was_written(self) -> None:
        class Symmetric(nn.Module):
            def forward(self, weight: torch.Tensor) -> torch.Tensor:
                return weight.triu() + weight.triu(1).transpose(-1, -2)

        class Projection(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.weight = nn.Parameter(torch.randn(4, 4))

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return x @ self.weight

        linear, projection = nn.Linear(4, 4), Projection()
        parametrizations.weight_norm(linear)
        parametrize.register_parametrization(projection, "weight", Symmetric())
        model = Sequence(lambda m, x: m.b(m.a(x)), a=linear, b=projection)
        hierarchy = exported(model).attribution.hierarchy
        assert hierarchy.tag("a") == "/Sequence"
        assert hierarchy.tag("b") == "/Sequence/Projection"

    def test_nodes_of_input_sizes_belong_to_the_root(self) -> None:
        batch = torch.export.Dim("batch", min=2, max=64)
        model = Sequence(lambda m, x: m.a(x) + torch.arange(x.shape[0])[:, None], a=Gate())
        result = exported(model, dynamic_shapes={"x": {0: batch}})
        assert set(calls_by_operator(result, "Shape")) == {""}


class TestStrict:
    """Models that dynamo traces whole: torch does so where it fails to run one, and on request for a program."""

    @staticmethod
    def untraceable(x: torch.Tensor) -> torch.Tensor:
        """Give a constant, in a way that torch can trace by dynamo alone."""
        return torch.tensor([x[0, 0], 2.0, 3.0, 4.0])

    def test_repeated_calls_of_a_strict_program_stay_apart(self) -> None:
        model = Sequence(lambda m, x: m.l(m.l[1](x)), l=nn.Sequential(Gate(), Gate())).eval()
        result = export(torch.export.export(model, (X,), strict=True))
        assert calls_by_operator(result, "Softmax") == ["l.1", "l.0", "l.1@1"]

    def test_branches_of_other_programs_are_guessed(self) -> None:
        model = Sequence(lambda m, x: torch.cond(x.sum() > 0, m.a, torch.relu, (m.a(x),)), a=Gate()).eval()
        result = export(torch.export.export(model, (X,), strict=False))
        guesses = [origin for origin, *_ in result.attribution.nodes.values() if origin.evidence is Evidence.DERIVED]
        assert calls_by_operator(result, "Softmax") == ["a", ""]
        assert guesses == [Origin("", Evidence.DERIVED)] * 4

    def test_branches_of_a_strict_program_keep_their_calls(self) -> None:
        def run(m: Any, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.sum() > 0, m.a, lambda y: m.b(m.a(y)), (m.a(x),))  # type: ignore[no-any-return]

        result = export(torch.export.export(Sequence(run, a=Gate(), b=Gate()).eval(), (X,), strict=True))
        assert calls_by_operator(result, "Softmax") == ["a", "a@1", "a@2", "b"]
        assert result.attribution.hierarchy.tag("b") == "/Sequence/Gate.b"

    def test_a_child_with_a_number_for_a_name_is_found(self) -> None:
        model = Sequence(lambda m, x: getattr(m, "1")(getattr(m, "0")(x * self.untraceable(x))))
        model.add_module("0", Gate())
        model.add_module("1", Gate())
        assert calls_by_operator(exported(model), "Softmax") == ["0", "1"]

    def test_calls_are_found_where_only_dynamo_traces(self) -> None:
        def run(m: Any, x: torch.Tensor) -> torch.Tensor:
            x = m.a(x) * self.untraceable(x)
            return torch.cond(x.sum() > 0, m.a, m.b, (x,))  # type: ignore[no-any-return]

        result = exported(Sequence(run, a=Gate(), b=Gate()))
        assert calls_by_operator(result, "Softmax") == ["a", "a@1", "b"]
        assert list(result.attribution.hierarchy) == ["", "a", "a.lin", "a@1", "a.lin@1", "b", "b.lin"]

    def test_runs_by_several_expressions_stay_apart(self) -> None:
        class Steps(nn.Module):
            """Reaches its child by an attribute of a method that the instance holds, and then by its own."""

            def __init__(self) -> None:
                super().__init__()
                self.gate = nn.Softmax(-1)
                self.step = types.MethodType(lambda module, x: module.gate(x) + 1, self)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return self.step(x)  # type: ignore[no-any-return]

        class Thrice(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.steps = Steps()

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                x = self.steps(x) * TestStrict.untraceable(x)
                for _ in range(2):
                    x = self.steps(x)
                return x

        assert calls_by_operator(exported(Thrice()), "Softmax") == ["steps.gate", "steps.gate@1", "steps.gate@2"]

    def test_calls_of_a_failed_attempt_are_forgotten(self) -> None:
        def run(m: Any, x: torch.Tensor) -> torch.Tensor:
            module = m.a if torch.compiler.is_dynamo_compiling() else m.b
            result: torch.Tensor = module(x) * self.untraceable(x)
            return result

        assert list(exported(Sequence(run, a=Gate(), b=Gate())).attribution.hierarchy) == ["", "a", "a.lin"]

    def test_a_parametrised_module_goes_by_the_class_that_was_written(self) -> None:
        gate = Gate()
        gate.weight = nn.Parameter(torch.randn(4, 4))
        parametrizations.orthogonal(gate)
        result = exported(Sequence(lambda m, x: m.a(self.untraceable(x) + x), a=gate))
        assert result.attribution.hierarchy.tag("a") == "/Sequence/Gate"


class TestGraph:
    MODELS = (
        Sequence(lambda m, x: m.a(m.a(x)), a=Gate()),
        Sequence(lambda m, x: torch.cond(x.sum() > 0, m.a, lambda t: t * 2, (x,)), a=Gate()),
        nn.Sequential(Gate(), nn.Sequential(nn.LayerNorm(4), nn.ReLU())),
    )

    @pytest.mark.parametrize("optimize", [True, False])
    @pytest.mark.parametrize("model", MODELS, ids=["repeated", "cond", "sequential"])
    def test_the_graph_is_torchs_own(self, model: nn.Module, optimize: bool) -> None:
        ours = exported(model, optimize=optimize).model
        with quiet():
            plain = torch.onnx.export(model, (X,), dynamo=True, optimize=optimize, verbose=False)
        assert plain is not None
        assert stripped(ours) == stripped(plain.model)

    def test_options_reach_torch(self) -> None:
        options: dict[str, Any] = {"input_names": ["given"], "output_names": ["made"], "opset": 19}
        result = exported(Sequence(lambda m, x: m.a(x), a=Gate()), **options)
        assert [value.name for value in result.model.graph.inputs] == ["given"]
        assert [value.name for value in result.model.graph.outputs] == ["made"]
        assert result.model.opset_imports[""] == 19

    def test_unused_sparse_buffer_is_no_obstacle(self) -> None:
        model = Sequence(lambda m, x: m.a(x), a=Gate())
        model.register_buffer("adjacency", torch.eye(4).to_sparse())
        assert calls_by_operator(exported(model, exporter="dynamo"), "Softmax") == ["a"]

    @pytest.mark.parametrize("optimize", [False, True])
    def test_output_may_have_the_name_of_an_inner_value(self, optimize: bool) -> None:
        model = Sequence(lambda m, x: m.a(x) + m.b(x).sum(), a=Gate(), b=nn.Linear(4, 4))
        names = [node.outputs[0].name for node in exported(model, optimize=optimize).model.graph]
        for name in names[:-1]:
            result = exported(model, exporter="dynamo", optimize=optimize, output_names=[name])
            others = [node.outputs[0].name for node in result.model.graph]
            assert others[-1] == name
            assert len(set(others)) == len(names)

    def test_names_of_weights_are_refused(self) -> None:
        with pytest.raises(UsageError, match=re.escape("found 'lin.weight'")):
            exported(Gate(), exporter="dynamo", input_names=["lin.weight"])

    def test_weight_that_is_an_output_may_be_named(self) -> None:
        result = exported(Sequence(lambda m, x: (m.a(x), m.a.weight), a=nn.Linear(4, 4)), output_names=["y", "w"])
        assert [value.name for value in result.model.graph.outputs] == ["y", "w"]

    def test_output_with_the_name_of_an_input_is_refused(self) -> None:
        with pytest.raises(UsageError, match="found 'x'"):
            exported(Gate(), exporter="dynamo", output_names=["x"])

    @pytest.mark.parametrize(("inputs", "outputs"), [(["x"], ["x"]), (None, ["y", "y"]), ([""], None)])
    def test_names_that_stand_for_no_one_value_are_refused(self, inputs: Any, outputs: Any) -> None:
        with pytest.raises(UsageError, match="input_names and output_names"):
            exported(Gate(), input_names=inputs, output_names=outputs)

    def test_a_ready_program_is_tagged_from_its_own_stacks(self) -> None:
        model = Sequence(lambda m, x: m.a(m.a(x)), a=Gate()).eval()
        program = torch.export.export(model, (X,))
        result = export(program)
        assert calls_by_operator(result, "Softmax") == ["a", "a@1"]

    def test_a_program_of_a_graph_is_tagged_below_its_root(self) -> None:
        graph = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.ReLU()))).eval()
        result = export(torch.export.export(graph, (X,)))
        assert list(result.attribution.hierarchy) == ["", "0", "1", "1.0"]
        assert calls_by_operator(result, "Relu") == ["1.0"]

    def test_nodes_of_a_program_without_stacks_are_the_roots(self) -> None:
        program = torch.export.export(Sequence(lambda m, x: m.a(x), a=Gate()).eval(), (X,))
        for node in program.graph.nodes:
            node.meta.pop("nn_module_stack", None)
        assert calls_by_operator(export(program), "Softmax") == [""]

    def test_initializers_belong_to_the_modules_that_own_them(self) -> None:
        result = exported(Sequence(lambda m, x: m.a(x), a=Gate()))
        assert [o.call for o in result.attribution.initializers["a.lin.weight"]] == ["a.lin"]

    def test_a_parameter_of_two_modules_has_both_as_owners(self) -> None:
        one, other = nn.Linear(4, 4), nn.Linear(4, 4)
        other.weight = one.weight
        model = Sequence(lambda m, x: m.b(m.a(x)), a=one, b=other)
        initializers = exported(model, optimize=False).attribution.initializers.values()
        assert ["a", "b"] in [[origin.call for origin in origins] for origins in initializers]

    def test_a_tensor_that_no_module_holds_belongs_to_its_consumers(self) -> None:
        listed = [torch.randn(40, 4)]
        model = Sequence(lambda m, x: m.a(x), a=Sequence(lambda _, x: x * listed[0].sum(0)))
        initializers = exported(model, optimize=False).attribution.initializers
        assert list(initializers.values()) == [(Origin("a", Evidence.TRACED),)]

    def test_an_initializer_is_no_surer_than_its_consumers(self) -> None:
        before = ir.from_onnx_text(
            """<ir_version: 10, opset_import: ["": 20]> g (float[2] x) => (float[2] y)
            <float[2] w = {1.0, 2.0}, float[2] b = {3.0, 4.0}, float[2] unused = {5.0, 6.0}> {
            t = Mul(x, w) h = Add(t, b) y = Exp(h) }"""
        )
        flat = flat_copy(before)
        owners = dict(zip(flat.nodes, (("a",), (), ("a",)), strict=True))
        both = Call("", 0, "m.Root", None), Call("a", 0, "m.A", "")
        capture = Capture(both, flat, owners, declared={}, after=before)
        known = attribute_before(capture, Hierarchy(capture.calls))
        assert known.initializers == {
            "w": (Origin("a", Evidence.TRACED),),
            "b": (Origin("a", Evidence.DERIVED),),
            "unused": (Origin("", Evidence.DERIVED),),
        }

    def test_merged_operations_keep_both_owners(self) -> None:
        class Plus(nn.Module):
            def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
                return x + torch.sigmoid(y)

        model = Sequence(lambda m, x: m.b(m.a(x, x * 2), x * 2), a=Plus(), b=Plus())
        result = exported(model)
        (origins,) = [o for key, o in result.attribution.nodes.items() if "sigmoid" in key]
        assert [(o.call, o.evidence) for o in origins] == [("a", Evidence.TRACED), ("b", Evidence.MERGED)]

    def test_call_with_unused_result_owns_the_equal_node_of_another(self) -> None:
        def run(m: Any, x: torch.Tensor) -> torch.Tensor:
            m.a(x)
            return m.a(x)  # type: ignore[no-any-return]

        result = exported(Sequence(run, a=Gate()))
        (origins,) = [o for key, o in result.attribution.nodes.items() if "softmax" in key]
        assert [(o.call, o.evidence) for o in origins] == [("a", Evidence.MERGED), ("a@1", Evidence.TRACED)]

    def test_call_with_unused_result_owns_no_other_node(self) -> None:
        def run(m: Any, x: torch.Tensor) -> torch.Tensor:
            m.a(x + 1)
            torch.rand(2)
            return m.a(x)  # type: ignore[no-any-return]

        assert calls_by_operator(exported(Sequence(run, a=Gate())), "Softmax") == ["a@1"]


class Stateful(nn.Module):
    """Keeps what it computed, as caches do."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = Gate()
        self.last: torch.Tensor | None = None
        self.seen: list[torch.Tensor] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.gate(x)
        self.seen.append(y)
        return y


class Cache:
    """Holds what a model has computed, in whatever it has."""

    __slots__ = ("__dict__", "__runs", "__weakref__", "first", "latest")

    first: torch.Tensor

    def __init__(self) -> None:
        self.__runs = 0
        self.latest: torch.Tensor | None = None
        self.layers: list[dict[str, torch.Tensor | None]] = [{"last": None}]
        self.order: deque[str] = deque()

    def keep(self, latest: torch.Tensor) -> None:
        self.__runs += 1
        self.latest = self.layers[0]["last"] = latest

    @property
    def runs(self) -> int:
        return self.__runs


class Remembering(nn.Module):
    """Writes to a buffer, and into an object of its own."""

    counts: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.gate = Gate()
        self.cache = Cache()
        self.logger = logging.getLogger(__name__)
        self.register_buffer("counts", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.gate(x)
        self.counts.add_(1)
        self.cache.keep(y)
        self.cache.first, self.reference = y, weakref.ref(self.cache)
        self.cache.order.append("y")
        self.logger.warning("called")
        return y + self.counts.sum()


class Titled:
    __slots__ = ("latest", "title")

    def __init__(self) -> None:
        self.latest = ""


class Sealed(Titled):
    """Has a slot that a read-only property hides."""

    __slots__ = ()

    @property
    def title(self) -> str:
        return "sealed"


class Sealing(nn.Module):
    """Writes beside a slot that cannot be written to."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = Sealed()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.cache.latest = "written"
        return x + 1


class Failing(nn.Module):
    """Fails in the middle of its forward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = Gate()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.gate(x)
        raise RuntimeError("the weights of this model are cursed")


class TestModel:
    def test_training_mode_is_exported_in_eval_mode_and_said(self) -> None:
        model = nn.Sequential(Gate(), nn.Dropout(0.5)).train()
        model[0].eval()
        result = export(model, (X,))
        assert any("training mode" in note for note in result.notes)
        assert [module.training for module in (model, model[0], model[1])] == [True, False, True]

    def test_what_a_forward_pass_stores_is_put_back(self) -> None:
        model = Stateful().eval()
        kept = torch.zeros(1)
        model.seen.append(kept)
        export(model, (X,))
        assert len(model.seen) == 1
        assert model.seen[0] is kept

    @pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
    def test_changed_model_state_is_restored_at_any_depth(
        self, exporter: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        model = Remembering().eval()
        last, counts = model.cache.layers[0]["last"], model.counts.clone()
        export(model, (X,), exporter=exporter)
        assert torch.equal(model.counts, counts)
        assert (model.cache.layers, model.cache.latest) == ([{"last": last}], None)
        assert (model.cache.runs, model.cache.order) == (0, deque())
        assert not hasattr(model.cache, "first")
        assert not hasattr(model, "reference")
        # What everybody has is not the model's.
        assert "called" in caplog.messages

    def test_a_buffer_that_was_written_to_needs_no_gradient(self) -> None:
        class Filling(nn.Module):
            cache: torch.Tensor

            def __init__(self) -> None:
                super().__init__()
                self.gate = nn.Softmax(-1)
                self.register_buffer("cache", torch.zeros(8, 4))

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                self.cache[: len(x)] = self.gate(x)
                return self.cache.sum(0) + x

        model = Filling().eval()
        export(model, (X,), exporter="torchscript")
        assert not model.cache.requires_grad
        assert model.cache.grad_fn is None
        assert torch.equal(copy.deepcopy(model).cache, torch.zeros(8, 4))

    def test_frozen_part_of_a_model_has_no_mode(self) -> None:
        frozen = torch.jit.freeze(torch.jit.script(nn.Linear(4, 4).eval()))
        model = nn.Sequential(frozen, nn.ReLU())
        exported = export(model, (torch.randn(2, 4),))
        assert [node.op_type for node in exported.model.graph] == ["Gemm", "Relu"]
        assert model[1].training

    def test_lazy_module_stays_as_its_first_run_makes_it(self) -> None:
        parts: dict[str, nn.Module] = {"a": nn.LazyLinear(4), "b": nn.LazyBatchNorm1d(), "unused": nn.LazyLinear(4)}
        model = Sequence(lambda m, x: m.b(m.a(x)), **parts).train()
        result = export(model, (X,))
        assert [type(getattr(model, name)) for name in parts] == [nn.Linear, nn.BatchNorm1d, nn.LazyLinear]
        assert all(module.training for module in model.modules())
        assert not prove(Example(model.eval(), (X,)), result.model, result.attribution).unproven

    def test_state_beside_a_read_only_slot_is_put_back(self) -> None:
        model = Sealing().eval()
        export(model, (X,))
        assert model.cache.latest == ""

    def test_two_threads_export_at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        before = (nn.Module._call_impl, torch.export.export, torch.onnx.ONNXProgram.__init__)
        second_is_there, first_is_done = threading.Event(), threading.Event()

        class Announced:
            """The lock, which tells that a thread wants it."""

            def __enter__(self) -> None:
                second_is_there.set()
                patching.ONE_AT_A_TIME.acquire()

            def __exit__(self, *_: object) -> None:
                patching.ONE_AT_A_TIME.release()

        def second(x: torch.Tensor) -> torch.Tensor:
            second_is_there.set()
            first_is_done.wait(60)
            return x - 1

        monkeypatch.setattr(pipeline, "ONE_AT_A_TIME", Announced())
        with ThreadPoolExecutor(1) as thread:
            others: list[Future[Export]] = []

            def first(x: torch.Tensor) -> torch.Tensor:
                if not others:
                    second_is_there.clear()
                    others.append(thread.submit(exported, Sequence(lambda _, x: second(x))))
                    second_is_there.wait(60)
                return x + 1

            ops = [node.op_type for node in exported(Sequence(lambda _, x: first(x))).model.graph]
            first_is_done.set()
            assert (ops, [node.op_type for node in others[0].result().model.graph]) == (["Add"], ["Sub"])
        assert before == (nn.Module._call_impl, torch.export.export, torch.onnx.ONNXProgram.__init__)

    def test_error_names_model_and_cause_and_restores_state(self) -> None:
        model = Failing().train()
        before = (nn.Module._call_impl, Gate.forward, torch.export.export, torch.onnx.ONNXProgram.__init__)
        with pytest.raises(ExportError) as caught:
            export(model, (X,), exporter="dynamo")
        assert "Failing" in caught.value.expected
        assert "cursed" in caught.value.found
        assert before == (nn.Module._call_impl, Gate.forward, torch.export.export, torch.onnx.ONNXProgram.__init__)
        assert model.training
        assert not any("forward" in vars(module) for module in model.modules())

    @pytest.mark.parametrize(
        "options",
        [{"tags": "some"}, {"exporter": "magic"}, {"opset": 999}, {"keep": ("torch.nn.NoSuchClass",)}],
        ids=lambda options: next(iter(options)),
    )
    def test_an_option_that_does_not_exist_is_refused(self, options: dict[str, Any]) -> None:
        with pytest.raises(UsageError):
            export(Gate().eval(), (X,), **options)

    @pytest.mark.parametrize("what", [None, Gate, lambda x: x], ids=["nothing", "class", "function"])
    def test_what_is_no_model_is_refused_by_its_name(self, what: Any) -> None:
        with pytest.raises(UsageError) as caught:
            export(what, (X,))
        assert type(what).__name__ in caught.value.found

    def test_model_does_not_run_when_the_folder_is_missing(self, tmp_path: Any) -> None:
        model, runs = Gate().eval(), list[object]()
        model.register_forward_pre_hook(lambda *_: runs.append(None))
        with pytest.raises(ExportError, match="No such file or directory"):
            export(model, (X,), path=tmp_path / "missing" / "model.onnx")
        assert not runs
        assert not list(tmp_path.iterdir())

    def test_kept_classes_appear_in_tags(self) -> None:
        result = exported(Sequence(lambda m, x: m.a(x), a=Gate()), keep=("torch.nn.Linear",))
        assert result.attribution.hierarchy.tag("a.lin") == "/Sequence/Gate/Linear"

    def test_primary_is_the_users_policy(self) -> None:
        class Twice(nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return torch.sigmoid(x)

        model = Sequence(lambda m, x: m.a(x) * m.b(x), a=Twice(), b=Twice())
        first = exported(model).attribution.nodes
        nearest = exported(model, primary="ancestor").attribution.nodes
        last = exported(model, primary=lambda hierarchy, origins: origins[-1]).attribution.nodes
        assert [{nodes["sigmoid"][0].call} for nodes in (first, nearest, last)] == [{"a"}, {""}, {"b"}]


@pytest.mark.parametrize(
    ("build", "named"),
    [(Forgetful, "Forgetful to be"), (lambda: nn.Sequential(nn.ReLU(), Forgetful()), "Forgetful, the module 1, to be")],
)
@pytest.mark.parametrize("run", [lambda model: export(model, (X,)), lambda model: Case("a", lambda: model, "").load()])
def test_module_that_was_not_initialised_is_named(
    build: Callable[[], nn.Module], named: str, run: Callable[[nn.Module], object]
) -> None:
    with pytest.raises(UsageError, match=named) as caught:
        run(build())
    assert "super().__init__() first in Forgetful.__init__" in caught.value.do


def test_module_without_a_hash_is_named() -> None:
    @dataclass
    class Scale(nn.Module):
        factor: float

        def __post_init__(self) -> None:
            super().__init__()

    with pytest.raises(UsageError, match="Scale, the module 1, to have a hash") as caught:
        export(nn.Sequential(nn.ReLU(), Scale(2.0)), (X,))
    assert "@dataclass(eq=False)" in caught.value.do
