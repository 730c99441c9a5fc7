"""Modules as ONNX functions: the model computes the same, equal modules share a function, the tags stay."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper

from pytest_hierexport import (
    Attribution,
    Call,
    Evidence,
    ExportedCase,
    Hierarchy,
    ModelWithFunctions,
    Origin,
    UsageError,
    export,
    modules_as_functions,
    prove,
    read,
)
from pytest_hierexport._calls.attribution import Origins, order_origins
from pytest_hierexport._cases import select
from pytest_hierexport._onnx.graph import operators
from pytest_hierexport._rules.registry import BUILT_IN
from pytest_hierexport._snapshot import text
from pytest_hierexport._tools.modules import outlining
from pytest_hierexport._tools.modules.flattening import flatten
from pytest_hierexport.cli import main
from schemas import strict_schema
from test_tool_extract import Exported, exported


def functions_of(kind: str, **choice: Any) -> ModelWithFunctions:
    made = exported(kind)
    return modules_as_functions(made.proto, made.attribution, **choice)


def calls_of(made: ModelWithFunctions) -> dict[str, list[str]]:
    return {function.name: function.calls for function in made.functions}


def outputs(proto: onnx.ModelProto, feeds: dict[str, Any]) -> list[Any]:
    """Run a model as users do, with all optimizations."""
    found: list[Any] = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, feeds)
    return found


def feeds_of(made: Exported) -> dict[str, Any]:
    return {value.name: made.values[value.name] for value in made.proto.graph.input}


@cache
def zoo(name: str) -> tuple[Any, Any, Attribution]:
    (case,) = select([name], Path.cwd())
    example = case.load()
    made = export(example.model, example.args, example.kwargs, dynamic_shapes=case.dynamic_shapes)
    return example, made.model, made.attribution


class TestValues:
    @pytest.mark.parametrize("kind", ["stack", "chooser", "twice"])
    @pytest.mark.parametrize("module", [None, "**"])
    def test_outputs_are_those_of_the_flat_model(self, kind: str, module: str | None) -> None:
        flat, made = exported(kind), functions_of(kind, module=module)
        proto = ir.to_proto(made.model)
        onnx.checker.check_model(proto, full_check=True)
        for before, after in zip(*(outputs(each, feeds_of(flat)) for each in (flat.proto, proto)), strict=True):
            np.testing.assert_allclose(after, before, rtol=1e-5)

    def test_bfloat16_functions_compute_the_same(self) -> None:
        flat, made = exported("bfloat16"), functions_of("bfloat16", module="torch.nn.*")
        proto = ir.to_proto(made.model)
        onnx.checker.check_model(proto, full_check=True)
        evaluator = onnx.reference.ReferenceEvaluator(proto)
        (found,) = evaluator.run(None, feeds_of(flat))
        expected = flat.values[flat.proto.graph.output[0].name]
        assert np.array_equal(np.float32(found), np.float32(expected))

    def test_input_model_is_unchanged(self) -> None:
        stack = exported("stack")
        model = ir.from_proto(stack.proto)
        before = ir.to_proto(model).SerializeToString(deterministic=True)
        modules_as_functions(model, stack.attribution)
        assert ir.to_proto(model).SerializeToString(deterministic=True) == before
        before = stack.proto.SerializeToString(deterministic=True)
        modules_as_functions(stack.proto, stack.attribution)
        assert stack.proto.SerializeToString(deterministic=True) == before


class TestSharing:
    def test_equal_layers_share_one_function(self) -> None:
        made = functions_of("stack")
        assert calls_of(made) == {"Layer": ["layers.0", "layers.1"]}
        assert [node.op_type for node in made.model.graph].count("Layer") == 2

    def test_merged_mask_stays_outside_and_is_named(self) -> None:
        made = functions_of("stack")
        assert [node.op_type for node in made.model.graph if node.op_type != "Layer"] == ["Where"]
        assert [*made.outside.values()] == [("layers.0", "layers.1")]

    def test_weights_are_inputs_named_within_the_module(self) -> None:
        (function,) = functions_of("stack").model.functions.values()
        assert {"proj.weight", "proj.bias"} <= {value.name for value in function.inputs}

    def test_module_called_twice_shares_its_function(self) -> None:
        made = functions_of("twice", module="block")
        assert calls_of(made) == {"Sequential": ["block", "block@1"]}
        assert calls_of(functions_of("twice", module="block@1")) == {"Sequential": ["block@1"]}

    def test_tied_weights_are_passed_to_both_functions(self) -> None:
        made = functions_of("twice", module="Linear")
        weights = {value.name for node in made.model.graph for value in node.inputs if value and value.is_initializer()}
        assert len({name for name in weights if "weight" in str(name)}) < len([*made.model.graph])

    def test_functions_call_functions(self) -> None:
        made = functions_of("twice", module="**")
        assert calls_of(made)["Linear"] == ["block.0", "block.0@1"]
        sequential = made.model.functions["hierexport", "Sequential", ""]
        assert "Linear" in {node.op_type for node in sequential}

    def test_branches_go_into_functions(self) -> None:
        made = functions_of("chooser", module="Branching")
        (function,) = made.model.functions.values()
        assert "If" in {node.op_type for node in function}
        assert any(key.startswith("hierexport::Branching:://") and "_branch/" in key for key in made.attribution.nodes)

    def test_module_in_branch_is_called_there(self) -> None:
        made = functions_of("chooser", module="layer.inner")
        (branching,) = (node for node in made.model.graph if node.op_type == "If")
        inside = {node.op_type for graph in branching.attributes.values() for node in graph.as_graph()}
        assert "Linear" in inside

    def test_different_bodies_get_numbered_names(self) -> None:
        _, model, attribution = zoo("t5")
        names = [function.name for function in modules_as_functions(model, attribution, module="T5Block").functions]
        assert names == ["T5Block", "T5Block_2"]

    def test_module_without_nodes_gets_no_function(self) -> None:
        assert "same" not in {call for calls in calls_of(functions_of("chooser")).values() for call in calls}


class TestChoice:
    def test_depth_counts_segments_below_the_root(self) -> None:
        _, model, attribution = zoo("bert")
        one = modules_as_functions(model, attribution, depth=1)
        assert [function.name for function in one.functions] == ["BertEmbeddings", "BertEncoder", "BertPooler"]

    @pytest.mark.parametrize("choice", [{"depth": 9}, {"module": "Lair"}, {"depth": 1, "module": "Layer"}])
    def test_choice_of_nothing_is_a_usage_error(self, choice: dict[str, Any]) -> None:
        with pytest.raises(UsageError):
            functions_of("stack", **choice)

    def test_depth_without_modules_to_choose_is_told_so(self) -> None:
        made = export(torch.nn.Sequential(torch.nn.Linear(4, 4)).eval(), (torch.ones(1, 4),))
        with pytest.raises(UsageError, match="a segment in tags below the root; found none"):
            modules_as_functions(made.model, made.attribution, depth=1)

    def test_pattern_takes_whole_names(self) -> None:
        with pytest.raises(UsageError, match="perhaps Layer"):
            functions_of("stack", module="Laye")


def detour() -> tuple[onnx.ModelProto, Attribution]:
    """A layer whose value `key` goes to the mask of two layers, which comes back to it."""
    nodes = [
        helper.make_node("Neg", ["x"], ["key"]),
        helper.make_node("Abs", ["key"], ["mask"]),
        helper.make_node("Add", ["x", "mask"], ["sum"]),
        helper.make_node("Relu", ["sum"], ["first"]),
        helper.make_node("Add", ["first", "mask"], ["total"]),
        helper.make_node("Relu", ["total"], ["second"]),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in ("x", "second")]
    graph = helper.make_graph(nodes, "detour", ends[:1], ends[1:])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    hierarchy = Hierarchy([Call("", 0, "m.Net", None), *(Call(f"layers.{i}", 0, "m.Layer", "") for i in (0, 1))])
    first, second = (Origin(f"layers.{i}", Evidence.TRACED) for i in (0, 1))
    owners = {"key": (first,), "sum": (first,), "first": (first,), "total": (second,), "second": (second,)}
    return proto, Attribution(hierarchy, owners | {"mask": (first, Origin("layers.1", Evidence.MERGED))})


class Scaled(torch.nn.Module):
    """Has a parameter of the name that an input of the model has."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor([2.0, 3.0]))

    def forward(self, x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return torch.add(x * self.scale, scale)


class Scaling(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = Scaled()

    def forward(self, x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.block(x, scale))


def branches() -> tuple[onnx.ModelProto, Attribution]:
    """A branch in which the nodes of one call stand before and behind an `If` that takes a value of the call."""
    proto: onnx.ModelProto = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 20]> g (float[2] x, bool b) => (float[2] y) {
          y = If (b) <
            then_branch = t () => (float[2] r) {
              s = ReduceMax<keepdims = 0>(x) c = Greater(s, s)
              o = If (c) <
                then_branch = p () => (float[2] u) {u = Neg(x)},
                else_branch = q () => (float[2] v) {v = Exp(x)}>
              w = Abs(x) r = Add(o, w)},
            else_branch = e () => (float[2] z) {z = Neg(x)}>}"""
    )
    parents = {"": None, "layer": "", "layer.one": "layer", "layer.two": "layer"}
    hierarchy = Hierarchy([Call(name, 0, f"m.C{len(name)}", parent) for name, parent in parents.items()])
    one, two = "layer.one", "layer.two"
    inner = {"s": one, "c": one, "o": one, "o/then_branch/u": two, "o/else_branch/v": one, "w": one, "r": "layer"}
    calls = {"y": "layer", "y/else_branch/z": "layer", **{f"y/then_branch/{key}": call for key, call in inner.items()}}
    return proto, Attribution(hierarchy, {key: (Origin(call, Evidence.TRACED),) for key, call in calls.items()})


class TestNames:
    def test_parameter_and_input_of_one_name_stay_apart(self) -> None:
        flat = export(Scaling().eval(), (torch.ones(2), torch.ones(2)))
        made = ir.to_proto(modules_as_functions(flat.model, flat.attribution).model)
        onnx.checker.check_model(made, full_check=True)
        feeds = {"x": np.array([1.0, 10.0], np.float32), "scale": np.array([5.0, 7.0], np.float32)}
        np.testing.assert_array_equal(outputs(made, feeds), [[7.0, 37.0]])


class TestConvexity:
    def test_function_call_in_a_branch_stands_before_its_consumers(self) -> None:
        proto, attribution = branches()
        made = ir.to_proto(modules_as_functions(proto, attribution).model)
        onnx.checker.check_model(made, full_check=True)
        feeds = {"x": np.array([1.0, -2.0], np.float32), "b": np.array(True)}
        np.testing.assert_array_equal(outputs(made, feeds), outputs(proto, feeds))

    def test_node_that_would_close_a_cycle_stays_outside(self) -> None:
        proto, attribution = detour()
        made = modules_as_functions(proto, attribution)
        assert made.outside == {"mask": ("layers.0", "layers.1"), "key": ("layers.0",)}
        assert calls_of(made) == {"Layer": ["layers.0", "layers.1"]}

    def test_detour_computes_the_same(self) -> None:
        proto, attribution = detour()
        made = ir.to_proto(modules_as_functions(proto, attribution).model)
        onnx.checker.check_model(made, full_check=True)
        feeds = {"x": np.array([-1.0, 0.5, 2.0], np.float32)}
        np.testing.assert_array_equal(outputs(made, feeds), outputs(proto, feeds))

    def test_cycle_is_a_usage_error(self) -> None:
        proto, attribution = detour()
        proto.graph.node[0].input[0] = "second"
        with pytest.raises(UsageError, match="without a cycle"):
            modules_as_functions(proto, attribution)

    def test_unsorted_nodes_are_sorted(self) -> None:
        proto, attribution = detour()
        nodes = [*reversed(proto.graph.node)]
        del proto.graph.node[:]
        proto.graph.node.extend(nodes)
        onnx.checker.check_model(ir.to_proto(modules_as_functions(proto, attribution).model))


class TestTags:
    @pytest.mark.parametrize("name", ["bert", "t5"])
    def test_flat_view_of_functions_is_the_flat_file(self, name: str) -> None:
        _, model, attribution = zoo(name)
        made = modules_as_functions(model, attribution)
        flat = made.model.clone()
        inlined = flatten(flat, made.attribution)
        assert text(inlined, operators(flat)) == text(attribution, operators(model))

    def test_every_call_is_proven_in_functions_too(self) -> None:
        example, model, attribution = zoo("bert")
        made = modules_as_functions(model, attribution)
        proof = prove(example, made.model, made.attribution)
        assert proof.counts() == prove(example, model, attribution).counts()
        assert not proof.unproven
        assert not proof.contaminated

    @pytest.mark.parametrize("place", ["inside", "calling"])
    def test_wrong_owner_of_a_function_is_unproven(self, place: str) -> None:
        example, model, attribution = zoo("bert")
        made = modules_as_functions(model, attribution)
        nodes = made.attribution.nodes
        shared = next(key for key, origins in nodes.items() if "//" in key and len({o.call for o in origins}) > 1)
        calls = [node for node in made.model.graph if node.op_identifier() in made.model.functions]
        wrong = shared if place == "inside" else str(calls[0].outputs[0].name)
        strange = list(attribution.hierarchy)[-1]
        added = {**nodes, wrong: (*nodes[wrong], Origin(strange, Evidence.MERGED))}
        proof = prove(example, made.model, Attribution(attribution.hierarchy, added, made.attribution.initializers))
        assert strange in proof.unproven or strange in {each.call for each in proof.loose}

    def test_call_keeps_the_results_that_nothing_takes(self) -> None:
        proto = onnx.parser.parse_model(
            """<ir_version: 10, opset_import: ["" : 20, "my" : 1]>
            g (float[2] x) => (float[2] y) { h, rest = my.both(x) y = Neg(h) }
            <domain: "my", opset_import: ["" : 20]> both (a) => (b, c) { b = Neg(a) c = Abs(a) }"""
        )
        proto.graph.node[0].output[1] = ""
        hierarchy = Hierarchy([Call("", 0, "m.Net", None), Call("layer", 0, "m.Layer", "")])
        attribution = Attribution(hierarchy, {"h": (Origin("layer", Evidence.TRACED),)})
        made = ir.to_proto(modules_as_functions(proto, attribution).model)
        assert outputs(made, {"x": np.ones(2, np.float32)})[0].tolist() == [1, 1]

    def test_shared_node_has_the_origins_of_all_calls(self) -> None:
        origins = functions_of("stack").attribution.nodes
        (softmax,) = (key for key in origins if key.startswith("hierexport::Layer:://softmax"))
        assert [(o.call, o.evidence.value) for o in origins[softmax]] == [
            ("layers.0", "traced"),
            ("layers.1", "traced"),
        ]

    def test_snapshot_counts_function_calls_of_modules(self) -> None:
        made = functions_of("stack")
        lines = text(made.attribution, operators(made.model)).splitlines()
        assert any("Layer.1" in line and "hierexport::Layer 1" in line for line in lines)

    def test_rules_hold_for_file_with_functions(self, tmp_path: Path) -> None:
        example, _, _ = zoo("bert")
        (case,) = select(["bert"], Path.cwd())
        flat, path = tmp_path / "flat.onnx", tmp_path / "functions.onnx"
        export(example.model, example.args, example.kwargs, flat)
        assert main(["functions", str(flat), "-o", str(path)]) == 0
        file = ExportedCase(case, path, example)
        broken = {
            rule.id: [*rule.violations(file)]
            for rule in BUILT_IN
            if rule.id in {"MUST-002", "MUST-003", "MUST-004", "MUST-006", "MUST-007", "MUST-009", "MUST-010"}
        }
        assert len(broken) == 7
        assert not any(broken.values()), broken


class TestCommand:
    def test_json_follows_its_schema(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        stack, path, output = exported("stack"), tmp_path / "stack.onnx", tmp_path / "functions.onnx"
        export(stack.example.model, stack.example.args, path=path, external_data=True)
        assert main(["functions", str(path), "-o", str(output), "--json"]) == 0
        shown = json.loads(capsys.readouterr().out)
        schema = strict_schema("functions")
        jsonschema.validate(shown, schema)
        assert [function["calls"] for function in shown["functions"]] == [["layers.0", "layers.1"]]
        onnx.checker.check_model(str(output), full_check=True)
        assert read(output, "sidecar") == read(output)

    def test_functions_and_nodes_outside_are_printed(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        proto, attribution = detour()
        from pytest_hierexport._onnx.storage import attach_proto

        attach_proto(proto, attribution)
        onnx.save(proto, tmp_path / "detour.onnx")
        assert main(["functions", str(tmp_path / "detour.onnx"), "-o", str(tmp_path / "out.onnx")]) == 0
        printed = capsys.readouterr().out.splitlines()
        assert printed[0] == "Layer ×2: 2 nodes"
        assert "outside: key, of /Net/Layer.0" in printed
        assert printed[-1].endswith("out.onnx: 1 function for 2 module calls")


def test_documented_commands_print_what_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["export", "bert", "-o", "bert.onnx"]) == 0
    capsys.readouterr()
    page = (Path(__file__).parents[1] / "docs" / "command-line.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```console\n\$ hierexport ((?:extract|functions) bert\.onnx.*?)\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 2
    for command, shown in blocks:
        assert main(shlex.split(command)) == 0
        assert capsys.readouterr().out == shown


def test_origins_of_a_shared_body_are_united_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def counting(hierarchy: Hierarchy, origins: Sequence[Origin]) -> Origins:
        made.append(len(origins))
        return order_origins(hierarchy, origins)

    monkeypatch.setattr(outlining, "order_origins", counting)
    names = ["x", *(f"v{i}" for i in range(8))]
    nodes = [helper.make_node("Neg", [names[i]], [names[i + 1]]) for i in range(8)]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in (names[0], names[-1])]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:])
    calls = [Call("", 0, "m.Net", None), *(Call(f"layer.{i}", 0, "m.Layer", "") for i in range(8))]
    origins = {f"v{i}": (Origin(f"layer.{i}", Evidence.TRACED),) for i in range(8)}
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    found = modules_as_functions(proto, Attribution(Hierarchy(calls), origins))
    assert [len(each.calls) for each in found.functions] == [8]
    assert made == [8]
