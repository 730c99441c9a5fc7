"""Two files compared: what is said to be added, moved, renamed and changed, and with which exit code."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from pytest_hierexport._calls.attribution import Attribution, Evidence, Origin
from pytest_hierexport._calls.hierarchy import Call, Hierarchy
from pytest_hierexport._onnx import storage
from pytest_hierexport._onnx.graph import walk
from pytest_hierexport._tools.comparing.comparison import Comparison, compare
from pytest_hierexport._tools.comparing.folding import some
from pytest_hierexport._tools.comparing.rendering import as_dict, as_lines, as_markdown
from pytest_hierexport._tools.tagged_file import load_tagged
from pytest_hierexport.cli import main
from schemas import strict_schema

# Each module with its class and the nodes that it owns; a path's parent is the path without its last part.
BEFORE: dict[str, tuple[str, list[str]]] = {
    "": ("m.Net", []),
    "a": ("m.Block", ["MatMul", "Relu"]),
    "b": ("m.Block", ["MatMul", "Relu"]),
    "head": ("m.Head", ["Softmax"]),
}
LIST: dict[str, tuple[str, list[str]]] = {"layers": ("torch.nn.modules.container.ModuleList", [])}


def save(
    path: Path, modules: Mapping[str, tuple[str, Sequence[str]]], *, prefix: str = "", weight: float = 1.0
) -> onnx.ModelProto:
    """Write a chain of the modules' nodes; a MatMul takes an initializer of its module."""
    calls = [Call(name, 0, cls, name.rpartition(".")[0] if name else None) for name, (cls, _) in modules.items()]
    owned = [(module, operator) for module, (_, operators) in modules.items() for operator in operators]
    names = ["x", *(f"{prefix}v_{i}" for i in range(len(owned) - 1)), "y"]
    nodes, weights, owners = [], [], {}
    for (module, operator), (taken, made) in zip(owned, pairwise(names), strict=True):
        inputs = [taken]
        if operator == "MatMul":
            weights.append(numpy_helper.from_array(np.full((2, 2), weight, np.float32), f"{module}.w"))
            inputs.append(weights[-1].name)
        attributes: Any = {"axis": -1} if operator == "Softmax" else {}
        nodes.append(helper.make_node(operator, inputs, [made], f"{prefix}node_{made}", **attributes))
        owners[made] = (Origin(module, Evidence.TRACED),)
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 2]) for name in ("x", "y")]
    proto = helper.make_model(
        helper.make_graph(nodes, "g", values[:1], values[1:], weights),
        opset_imports=[helper.make_opsetid("", 20)],
        ir_version=10,
    )
    write(proto, Attribution(Hierarchy(calls), owners), path)
    return proto


def write(proto: onnx.ModelProto, attribution: Attribution, path: Path) -> None:
    storage.attach_proto(proto, attribution)
    path.write_bytes(proto.SerializeToString())


def compared(before: Path, after: Path) -> Comparison:
    return compare(load_tagged(before), load_tagged(after))


def text(comparison: Comparison) -> str:
    return "\n".join(as_lines(comparison, "a", "b", 50))


@pytest.fixture
def before(tmp_path: Path) -> Path:
    save(tmp_path / "before.onnx", BEFORE)
    return tmp_path / "before.onnx"


@pytest.fixture
def after(tmp_path: Path) -> Path:
    return tmp_path / "after.onnx"


class TestModules:
    def test_inserted_module_is_one_addition_and_one_changed_input(self, before: Path, after: Path) -> None:
        save(after, {**BEFORE, "b": ("m.Block", ["MatMul", "Relu"]), "head": ("m.Head", ["Softmax"])})
        assert compared(before, after).same
        save(after, {"": BEFORE[""], "a": BEFORE["a"], "b": BEFORE["b"], "c": BEFORE["b"], "head": BEFORE["head"]})
        found = compared(before, after)
        assert [each.tag for each in found.modules.added] == ["/Net/Block.c"]
        assert [(each.kind, each.operator) for each in found.nodes] == [
            ("added", "MatMul"),
            ("added", "Relu"),
            ("changed", "Softmax"),
        ]
        assert found.nodes[2].changes == ["input 0: v_3 → v_5"]
        assert [(each.kind, each.name) for each in found.initializers] == [("added", "c.w")]

    def test_renamed_class_is_one_line_for_all_instances(self, before: Path, after: Path) -> None:
        renamed = {name: (cls.replace("Block", "Unit"), nodes) for name, (cls, nodes) in BEFORE.items()}
        save(after, renamed)
        found = compared(before, after)
        assert [*found.modules.added, *found.modules.removed, *found.nodes] == []
        assert "= renamed m.Block → m.Unit: 2 instances, operators equal: /Net/Unit.a, /Net/Unit.b" in text(found)

    def test_module_under_another_path_was_moved(self, before: Path, after: Path) -> None:
        moved = {"": BEFORE[""], "a": BEFORE["a"], "b": BEFORE["b"], "top": ("m.Top", []), "top.head": BEFORE["head"]}
        save(after, moved)
        found = compared(before, after)
        assert [(old.path, new.path) for old, new in found.modules.moved] == [("head", "top.head")]
        assert [each.path for each in found.modules.added] == ["top"]
        assert found.nodes == []

    def test_moved_module_with_those_below_is_paired_whole(self, before: Path, after: Path) -> None:
        leaf, box = ("m.Leaf", ["MatMul"]), ("m.Box", ["Relu"])
        save(before, {"": BEFORE[""], "x": leaf, "y": box, "y.c": leaf})
        save(after, {"": BEFORE[""], "p": box, "p.c": leaf, "q": leaf})
        found = compared(before, after).modules
        assert [(old.path, new.path) for old, new in found.moved] == [("x", "q"), ("y", "p")]
        assert [*found.added, *found.removed] == []

    def test_equal_changes_of_many_modules_are_one_line(self, before: Path, after: Path) -> None:
        changed = {name: (cls, [o.replace("Relu", "Tanh") for o in nodes]) for name, (cls, nodes) in BEFORE.items()}
        save(after, changed)
        assert "~ /Net/Block.a, /Net/Block.b: Relu 1 → 0, Tanh 0 → 1" in text(compared(before, after))

    def test_modules_in_another_order_are_named(self, before: Path, after: Path) -> None:
        save(after, {name: BEFORE[name] for name in ("", "b", "a", "head")})
        (pair,) = compared(before, after).modules.reordered
        assert [each.path for each in pair] == ["b", "a"]

    def test_each_module_in_another_order_is_told_once(self, before: Path, after: Path) -> None:
        root = {"": BEFORE[""], "b": ("torch.nn.modules.container.Sequential", [])}
        save(before, {**root, **{f"b.{i}": BEFORE["a"] for i in range(4)}})
        save(after, {**root, **{f"b.{i}": BEFORE["a"] for i in (1, 0, 3, 2)}})
        found = compared(before, after)
        assert [(one.path, other.path) for one, other in found.modules.reordered] == [("b.1", "b.0"), ("b.3", "b.2")]
        tag = "/Net/Block"
        assert f"> {tag}.1 now before {tag}.0, {tag}.3 now before {tag}.2\n" in text(found)

    def test_removed_module_with_those_below_is_one_line(self, before: Path, after: Path) -> None:
        save(before, {**BEFORE, "head.inner": ("m.Inner", ["Tanh"]), "head.inner.act": ("m.Act", ["Neg"])})
        save(after, BEFORE)
        (line,) = [line for line in text(compared(before, after)).splitlines() if line.startswith("  - /Net")]
        assert line == "  - /Net/Head/Inner (m.Inner) with 1 module below: Neg 1, Tanh 1"


class TestNodes:
    def test_renamed_values_are_no_changed_nodes(self, before: Path, after: Path) -> None:
        save(after, BEFORE, prefix="other_")
        found = compared(before, after)
        assert (found.nodes, found.initializers, found.same) == ([], [], False)
        assert [(each.before, each.after) for each in found.values] == [(f"v_{i}", f"other_v_{i}") for i in range(4)]
        assert len(found.node_names) == 5

    def test_names_that_shifted_are_seen_by_value(self, before: Path, after: Path) -> None:
        save(after, {"": ("m.Net", ["Tanh"]), **{name: BEFORE[name] for name in ("a", "b", "head")}})
        found = compared(before, after)
        assert [(each.kind, each.operator, each.changes) for each in found.nodes] == [
            ("added", "Tanh", ()),
            ("changed", "MatMul", ["input 0: x → v_0"]),
        ]

    def test_changed_attribute_is_named_with_both_values(self, before: Path, after: Path) -> None:
        proto = save(after, BEFORE)
        proto.graph.node[4].attribute[0].i = 0
        after.write_bytes(proto.SerializeToString())
        (node,) = compared(before, after).nodes
        assert (node.node, node.changes) == ("y", ["attribute axis: -1 → 0"])

    def test_input_of_the_same_name_is_told_as_another_value(self, before: Path, after: Path) -> None:
        save(before, BEFORE)
        save(after, {**BEFORE, "a": ("m.Block", ["MatMul", "Tanh"])})
        assert "~ v_2 MatMul: /Net/Block.b; input 0: v_1 is another value" in text(compared(before, after))

    def test_retagged_node_is_named_with_both_tags(self, before: Path, after: Path) -> None:
        save(after, {**BEFORE, "b": ("m.Block", ["MatMul"]), "head": ("m.Head", ["Relu", "Softmax"])})
        (node,) = compared(before, after).nodes
        assert node.changes == ["tag: /Net/Block.b → /Net/Head"]

    def test_lost_owner_is_a_change(self, before: Path, after: Path) -> None:
        proto = save(after, BEFORE)
        tagged = storage.read(after)
        nodes = {**tagged.nodes, "v_1": (*tagged.nodes["v_1"], Origin("b", Evidence.MERGED))}
        write(proto, Attribution(tagged.hierarchy, nodes), after)
        (node,) = compared(before, after).nodes
        assert node.changes == ["owners: none → b"]

    def test_untagged_nodes_are_counted_apart(self, before: Path, after: Path) -> None:
        proto = save(after, BEFORE)
        tagged = storage.read(after)
        write(proto, Attribution(tagged.hierarchy, {**tagged.nodes, "v_1": ()}), after)
        assert "~ (untagged): Relu 0 → 1" in text(compared(before, after))


class TestSubgraphs:
    @staticmethod
    def branches(path: Path, operator: str, name: str = "t") -> None:
        def body(made: str, kind: str) -> onnx.GraphProto:
            output = helper.make_tensor_value_info(made, TensorProto.FLOAT, [2])
            return helper.make_graph([helper.make_node(kind, ["x"], [made])], "body", [], [output])

        node = helper.make_node(
            "If", ["c"], [f"{name}_y"], then_branch=body(name, operator), else_branch=body("e", "Neg")
        )
        values = [helper.make_tensor_value_info(*each) for each in (("c", 9, []), ("x", 1, [2]), (f"{name}_y", 1, [2]))]
        proto = helper.make_model(helper.make_graph([node], "g", values[:2], values[2:]), ir_version=10)
        hierarchy = Hierarchy([Call("", 0, "m.Net", None)])
        write(proto, Attribution(hierarchy, {key: (Origin("", Evidence.TRACED),) for key, _ in walk(proto)}), path)

    def test_change_within_a_branch_is_named_there(self, before: Path, after: Path) -> None:
        self.branches(before, "Relu")
        self.branches(after, "Tanh")
        found = compared(before, after)
        assert [(each.kind, each.node, each.operator) for each in found.nodes] == [
            ("removed", "t_y/then_branch/t", "Relu"),
            ("changed", "t_y", "If"),
            ("added", "t_y/then_branch/t", "Tanh"),
        ]
        assert found.nodes[1].changes == ["output 0 of subgraph then_branch: t is another value"]

    def test_renamed_values_within_a_branch_are_seen(self, before: Path, after: Path) -> None:
        self.branches(before, "Relu")
        self.branches(after, "Relu", "renamed")
        found = compared(before, after)
        assert found.nodes == []
        assert {(each.before, each.after) for each in found.values} == {("t", "renamed"), ("t_y", "renamed_y")}


class TestInitializers:
    def test_other_weights_are_changes_of_initializers_alone(self, before: Path, after: Path) -> None:
        save(after, BEFORE, weight=1.5)
        found = compared(before, after)
        assert found.nodes == []
        assert [(each.name, each.change) for each in found.initializers] == [
            ("a.w", "4 of 4 elements, by at most 0.5"),
            ("b.w", "4 of 4 elements, by at most 0.5"),
        ]

    def test_equal_nan_is_no_changed_element(self, before: Path, after: Path) -> None:
        for path, last in ((before, 1.0), (after, 3.0)):
            proto = save(path, BEFORE)
            values = np.array([np.nan, 1, 2, last], np.float32).reshape(2, 2)
            proto.graph.initializer[0].CopyFrom(numpy_helper.from_array(values, "a.w"))
            path.write_bytes(proto.SerializeToString())
        (found,) = compared(before, after).initializers
        assert found.change == "1 of 4 elements, by at most 2"

    def test_imaginary_parts_differ_too(self, before: Path, after: Path) -> None:
        for path, last in ((before, 1 + 1j), (after, 1 + 5j)):
            proto = save(path, BEFORE)
            values = np.array([1j, 2j, 3j, last], np.complex64).reshape(2, 2)
            proto.graph.initializer[0].CopyFrom(numpy_helper.from_array(values, "a.w"))
            path.write_bytes(proto.SerializeToString())
        (found,) = compared(before, after).initializers
        assert found.change == "1 of 4 elements, by at most 4"

    def test_renamed_initializer_is_found_by_its_content(self, before: Path, after: Path) -> None:
        proto = save(after, BEFORE)
        proto.graph.initializer[0].name = proto.graph.node[0].input[1] = "other"
        after.write_bytes(proto.SerializeToString())
        found = compared(before, after)
        assert found.nodes == []
        assert [(each.kind, each.name, each.change) for each in found.initializers] == [
            ("changed", "other", "renamed from a.w")
        ]

    def test_name_of_another_module_is_another_initializer(self, before: Path, after: Path) -> None:
        layer = ("m.Layer", ["MatMul"])
        for path, modules in ((before, ["b", "c"]), (after, ["a", "b", "c"])):
            proto = save(path, {"": BEFORE[""], **dict.fromkeys(modules, layer)})
            for i, module in enumerate(modules):
                weight = np.random.default_rng(ord(module)).random((2, 2), np.float32)
                proto.graph.initializer[i].CopyFrom(numpy_helper.from_array(weight, f"val_{i}"))
                proto.graph.node[i].input[1] = f"val_{i}"
            stored = {f"val_{i}": (Origin(module, Evidence.FOLDED),) for i, module in enumerate(modules)}
            write(proto, replace(load_tagged(path).attribution, initializers=stored), path)
        found = compared(before, after)
        assert [(each.kind, each.tag, each.changes) for each in found.nodes] == [
            ("added", "/Net/Layer.a", ()),
            ("changed", "/Net/Layer.b", ["input 0: x → v_0"]),
        ]
        assert [(each.name, each.change) for each in found.initializers] == [
            ("val_1", "renamed from val_0"),
            ("val_2", "renamed from val_1"),
            ("val_0", ""),
        ]

    @pytest.mark.parametrize(
        ("data_type", "dims", "data"),
        [
            (TensorProto.BFLOAT16, [2], b"\x80\x3f\x00\x40"),
            (TensorProto.FLOAT8E4M3FN, [2], b"\x38\x40"),
            (TensorProto.INT4, [2], b"\x21"),
            (TensorProto.FLOAT, [3, 0], b""),
        ],
        ids=["bfloat16", "float8", "int4", "empty"],
    )
    def test_renamed_initializer_of_any_type_is_found(
        self, before: Path, after: Path, data_type: int, dims: list[int], data: bytes
    ) -> None:
        for path, name in ((before, "mask"), (after, "other")):
            proto = save(path, BEFORE)
            proto.graph.initializer.append(helper.make_tensor(name, data_type, dims, data, raw=True))
            path.write_bytes(proto.SerializeToString())
        assert [each.change for each in compared(before, after).initializers] == ["renamed from mask"]

    def test_equal_data_in_another_form_is_no_change(self, before: Path, after: Path) -> None:
        proto = save(after, BEFORE)
        tensor = proto.graph.initializer[0]
        tensor.ClearField("raw_data")
        tensor.float_data.extend([1.0] * 4)
        onnx.external_data_helper.set_external_data(proto.graph.initializer[1], "w.data")
        proto.graph.initializer[1].ClearField("raw_data")
        (after.parent / "w.data").write_bytes(np.ones(4, np.float32).tobytes())
        after.write_bytes(proto.SerializeToString())
        assert compared(before, after).same


class TestCommand:
    def test_exit_codes_are_those_of_diff(
        self, before: Path, after: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        save(after, BEFORE, weight=2.0)
        monkeypatch.chdir(before.parent)
        assert main(["diff", "before.onnx", "before.onnx"]) == 0
        assert capsys.readouterr().out == "before.onnx and before.onnx are the same\n"
        assert main(["diff", "before.onnx", "after.onnx"]) == 1
        assert capsys.readouterr().out.startswith("--- before.onnx\n+++ after.onnx\ninitializers (2)\n")
        assert main(["diff", "before.onnx", "missing.onnx"]) == 2
        assert main(["diff", "before.onnx"]) == 2
        assert main(["diff", "before.onnx", "after.onnx", "--format", "html"]) == 2

    def test_missing_external_data_is_trouble(
        self, before: Path, after: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        proto = save(after, BEFORE)
        onnx.external_data_helper.set_external_data(proto.graph.initializer[0], "gone.data")
        proto.graph.initializer[0].ClearField("raw_data")
        after.write_bytes(proto.SerializeToString())
        assert main(["diff", str(before), str(after)]) == 2
        assert "the data of every stored tensor of after.onnx" in capsys.readouterr().err

    def test_json_follows_its_schema_and_lists_everything(
        self, before: Path, after: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        changed: dict[str, Any] = {
            "": BEFORE[""],
            "b": ("m.Unit", ["MatMul", "Tanh"]),
            "a": BEFORE["a"],
            "c": BEFORE["b"],
            "t": ("m.Top", []),
            "t.head": BEFORE["head"],
        }
        save(after, changed, prefix="n", weight=3.0)
        assert main(["diff", str(before), str(after), "--format", "json", "--limit", "0"]) == 1
        document = json.loads(capsys.readouterr().out)
        jsonschema.validate(document, strict_schema("diff"))
        assert document == json.loads(json.dumps(as_dict(compared(before, after))))
        assert [each["tag"] for each in document["modules"]["added"]] == ["/Net/Block.c", "/Net/Top"]
        assert document["nodes"]
        assert document["renamed_nodes"]

    def test_equal_differences_of_repeated_layers_are_one_line(self, before: Path, after: Path) -> None:
        plain = {"": BEFORE[""], **LIST, **{f"layers.{i}": BEFORE["a"] for i in range(12)}}
        save(before, plain)
        save(after, {name: (cls, [*nodes, "Neg"] if nodes else nodes) for name, (cls, nodes) in plain.items()})
        found = compared(before, after)
        assert len(found.nodes) == 23
        lines = text(found).splitlines()
        assert lines[lines.index("nodes (23)") :][:3] == [
            "nodes (23)",
            "  + v_2, v_5, v_8 and 9 more Neg: /Net/Block.{0..11}",
            "  ~ v_3, v_6, v_9 and 8 more MatMul: /Net/Block.{1..11}; input 0: v_1 → v_2",
        ]
        assert lines[3] == "  ~ /Net/Block.{0..11}: Neg 0 → 1"
        assert "- `+ v_2, v_5, v_8 and 9 more Neg`: `/Net/Block.{0..11}`" in list(as_markdown(found, "a", "b", 50))

    def test_differences_with_other_values_stay_apart(self, before: Path, after: Path) -> None:
        layers = {"": BEFORE[""], **LIST, **{f"layers.{i}": BEFORE["head"] for i in range(4)}}
        save(before, layers)
        proto = save(after, layers)
        for i, node in enumerate(proto.graph.node):
            node.attribute[0].i = 0 if i < 3 else -2
        after.write_bytes(proto.SerializeToString())
        assert text(compared(before, after)).splitlines()[2:] == [
            "nodes (4)",
            "  ~ v_{0..2} Softmax: /Net/Head.{0..2}; attribute axis: -1 → 0",
            "  ~ y Softmax: /Net/Head.3; attribute axis: -1 → -2",
        ]

    def test_runs_are_folded_at_each_level_of_a_name(self) -> None:
        names = [f"/Net/Stage.{i}/Block.{j}" for i in range(2) for j in range(3)]
        assert some(names) == "/Net/Stage.{0..1}/Block.{0..2}"
        assert some(["add", "add_1", "add_2", "add_4"]) == "add, add_{1..2}, add_4"
        assert some(["w_1", "w_3", "w_5", "w_7", "w_8"]) == "w_1, w_3, w_5 and 2 more"
        assert some(["Conv1d.w", "Conv2d.w", f"x.{'9' * 5000}"]) == f"Conv1d.w, Conv2d.w, x.{'9' * 5000}"

    def test_lines_beyond_the_limit_are_counted(self, before: Path, after: Path) -> None:
        save(after, {**BEFORE, "b": ("m.Unit", ["MatMul", "Tanh"])})
        lines = list(as_lines(compared(before, after), "a", "b", 1))
        assert lines[2:5] == [
            "modules (2)",
            "  = renamed m.Block → m.Unit: 1 instance, operators changed: /Net/Unit",
            "  … and 1 more",
        ]

    def test_markdown_shows_hostile_names_literally(self, before: Path, after: Path) -> None:
        save(after, {**BEFORE, "z": ("m.<b>`x`|[l](u)\x1b[31m", ["Neg"])})
        shown = "\n".join(as_markdown(compared(before, after), "a", "b", 50))
        assert "## a → b" in shown
        assert "- ``+ /Net/<b>`x`|[l](u)\\x1b[31m (m.<b>`x`|[l](u)\\x1b[31m)``: Neg 1" in shown


@pytest.mark.parametrize("depth", [299, 400])
def test_deep_files_are_compared_or_refused(tmp_path: Path, depth: int, capsys: pytest.CaptureFixture[str]) -> None:
    names = [".".join(["c"] * i) for i in range(depth)]
    save(tmp_path / "deep.onnx", {name: ("m.Net", ["Neg"]) for name in names})
    save(tmp_path / "flat.onnx", BEFORE)
    code = main(["diff", str(tmp_path / "deep.onnx"), str(tmp_path / "flat.onnx")])
    assert (code, "at most 300 levels" in capsys.readouterr().err) == ((1, False) if depth < 300 else (2, True))
