"""`hierexport analyze`: its formats, its selections, and its lists of nodes."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path
from typing import Any

import jsonschema
import onnx
import pytest
from onnx import TensorProto, helper

from pytest_hierexport._calls.attribution import Attribution, Evidence, Origin
from pytest_hierexport._calls.hierarchy import Call, Hierarchy
from pytest_hierexport._onnx import storage
from pytest_hierexport._onnx.graph import walk
from pytest_hierexport._tools.analysis.rendering import coverage_line
from pytest_hierexport.cli import main
from schemas import strict_schema

MODEL = """
import torch

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(3, 3)
    def forward(self, x):
        return self.fc(x).relu()

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList([Block(), Block()])
    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x

def build():
    torch.manual_seed(0)
    return Net(), (torch.randn(2, 3),)

def other():
    torch.manual_seed(1)
    return Net(), (torch.randn(2, 3),)

def pair():
    return build()
"""

SAME = """
import torch

class Same(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("stored", torch.arange(3.0))
    def forward(self, x):
        return {result}

def build():
    return Same().eval(), (torch.randn(2, 3),)
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A net of two blocks, one with a node that is merged with the other's, and an untagged node."""
    monkeypatch.chdir(tmp_path)
    calls = [
        Call("", 0, "m.Net", None),
        Call("enc", 0, "m.Encoder", ""),
        *(Call(f"enc.{i}", 0, "m.Layer", "enc") for i in (1, 10)),
        Call("head", 0, "m.Head", ""),
        Call("head.norm", 0, "m.Norm", "head"),
    ]
    owners = {
        "a": (Origin("enc.1", Evidence.TRACED), Origin("enc.10", Evidence.MERGED)),
        "b": (Origin("enc.10", Evidence.TRACED),),
        "c": (Origin("head.norm", Evidence.FUSED),),
        "y": (),
    }
    names = ["x", *owners]
    nodes = [helper.make_node("Neg", [names[i]], [name]) for i, name in enumerate(owners)]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in ("x", "y")]
    proto = helper.make_model(
        helper.make_graph(nodes, "g", values[:1], values[1:], [helper.make_tensor("w", 1, [2], [0, 0])]), ir_version=10
    )
    storage.attach_proto(proto, Attribution(Hierarchy(calls), owners, {"w": (Origin("enc", Evidence.TRACED),)}))
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert main(["analyze", *arguments]) == code
    return capsys.readouterr().out


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    """Return the JSON of a run, which follows the schema."""
    loaded = json.loads(run(capsys, *arguments, "--json"))
    jsonschema.validate(loaded, strict_schema("analyze"))
    return loaded


def segments(module: Any) -> list[str]:
    return [module["segment"], *(name for child in module["children"] for name in segments(child))]


@pytest.mark.usefixtures("project")
class TestFormats:
    def test_tree_draws_modules_and_counts_untagged_nodes(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(capsys, "m.onnx", "--format", "tree").splitlines()[:7] == [
            "Net (3 nodes, 2 numbers)",
            "├─ Encoder (2 nodes, 2 numbers)",
            "│  ├─ Layer.1 (1 node, 0 numbers)",
            "│  └─ Layer.10 (1 node, 0 numbers)",
            "└─ Head (1 node, 0 numbers)",
            "   └─ Norm (1 node, 0 numbers)",
            "(untagged) (1 node)",
        ]

    def test_table_has_a_row_for_untagged_nodes(self, capsys: pytest.CaptureFixture[str]) -> None:
        (row,) = [line.split() for line in run(capsys, "m.onnx").splitlines() if line.startswith("(untagged)")]
        assert row == ["(untagged)", "1", "1"]

    def test_csv_has_a_row_per_module_with_its_tag(self, capsys: pytest.CaptureFixture[str]) -> None:
        rows = list(csv.DictReader(io.StringIO(run(capsys, "m.onnx", "--format", "csv", "--depth", "1"))))
        assert [(row["tag"], row["nodes"]) for row in rows] == [
            ("/Net", "3"),
            ("/Net/Encoder", "2"),
            ("/Net/Head", "1"),
            ("(untagged)", "1"),
        ]

    def test_standard_input_is_a_file_too(
        self, project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((project / "m.onnx").read_bytes())))
        assert "sidecar of standard input: missing" in run(capsys, "-")

    def test_two_lists_do_not_fit_one_csv(self, capsys: pytest.CaptureFixture[str]) -> None:
        run(capsys, "m.onnx", "--format", "csv", "--origins", "--untagged", code=4)


@pytest.mark.usefixtures("project")
class TestSelection:
    @pytest.mark.parametrize(
        ("arguments", "shown"),
        [
            (["--tag", "/Net/Encoder"], ["Net", "Encoder", "Layer.1", "Layer.10"]),
            (["--tag", "/Net/*/Layer.1"], ["Net", "Encoder", "Layer.1"]),
            (["--tag", "Layer.1?"], ["Net", "Encoder", "Layer.10"]),
            (["--class", "Norm"], ["Net", "Head", "Norm"]),
            (["--class", "m.La*"], ["Net", "Encoder", "Layer.1", "Layer.10"]),
            (["--class", "Layer", "--tag", "*.10"], ["Net", "Encoder", "Layer.10"]),
            (["--class", "Norm", "--tag", "Head"], ["Net", "Head", "Norm"]),
        ],
    )
    def test_selected_modules_stand_below_those_above_them(
        self, capsys: pytest.CaptureFixture[str], arguments: list[str], shown: list[str]
    ) -> None:
        assert segments(document(capsys, "m.onnx", *arguments)["modules"]) == shown

    @pytest.mark.parametrize("arguments", [["--tag", "/Encoder"], ["--class", "Encoder", "--tag", "Head"]])
    def test_a_pattern_that_matches_nothing_is_an_error(
        self, capsys: pytest.CaptureFixture[str], arguments: list[str]
    ) -> None:
        run(capsys, "m.onnx", *arguments, code=4)

    def test_evidence_and_operators_are_those_of_selected_modules(self, capsys: pytest.CaptureFixture[str]) -> None:
        printed = run(capsys, "m.onnx", "--tag", "Head").splitlines()
        assert "1 of 4 nodes: fused 1" in printed
        assert "operators: Neg 1" in printed
        assert not [line for line in printed if line.startswith("(untagged)")]
        found = document(capsys, "m.onnx", "--class", "Encoder")
        assert (found["nodes"], found["coverage"]["traced"], found["operators"]) == (4, 2, {"Neg": 2})
        assert "4 nodes: traced 2, fused 1, untagged 1" in run(capsys, "m.onnx")

    def test_origins_are_those_of_selected_modules(self, capsys: pytest.CaptureFixture[str]) -> None:
        listed = document(capsys, "m.onnx", "--origins", "--tag", "Encoder")["origins"]
        assert [each["key"] for each in listed] == ["a", "b", "w"]


@pytest.mark.usefixtures("project")
class TestLists:
    def test_origins_name_evidence_and_co_owners(self, capsys: pytest.CaptureFixture[str]) -> None:
        printed = run(capsys, "m.onnx", "--origins").splitlines()
        start = printed.index("origins:")
        assert printed[start + 1 :] == [
            "  a  Neg  /Net/Encoder/Layer.1 (enc.1, traced)  /Net/Encoder/Layer.10 (enc.10, merged)",
            "  b  Neg  /Net/Encoder/Layer.10 (enc.10, traced)",
            "  c  Neg  /Net/Head/Norm (head.norm, fused)",
            "  w  /Net/Encoder (enc, traced)",
        ]
        (first, *_) = csv.DictReader(io.StringIO(run(capsys, "m.onnx", "--origins", "--format", "csv")))
        assert json.loads(first["origins"])[1] == {
            "call": "enc.10",
            "tag": "/Net/Encoder/Layer.10",
            "evidence": "merged",
        }

    def test_untagged_nodes_are_listed(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert document(capsys, "m.onnx", "--untagged")["untagged"] == [{"key": "y", "operator": "Neg"}]
        assert run(capsys, "m.onnx", "--untagged").endswith("untagged:\n  y  Neg\n")


class TestContamination:
    @pytest.fixture
    def swapped(self, project: Path, capsys: pytest.CaptureFixture[str]) -> Path:
        """An export whose two blocks have changed their tags, beside the right one."""
        (project / "my_model.py").write_text(MODEL)
        assert main(["export", "my_model.py::build", "-o", "net.onnx", "--no-optimize"]) == 0
        capsys.readouterr()
        proto = storage.load_proto(project / "net.onnx")
        attribution = storage.read(project / "net.onnx")
        nodes = {
            key: tuple(Origin(f"blocks.{1 - int(o.call[7])}{o.call[8:]}", o.evidence) for o in origins)
            for key, origins in attribution.nodes.items()
        }
        storage.attach_proto(proto, Attribution(attribution.hierarchy, nodes))
        (project / "swapped.onnx").write_bytes(proto.SerializeToString())
        return project

    def test_nodes_of_another_layer_are_named_with_it(self, swapped: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert document(capsys, "net.onnx", "--contamination", "my_model.py::build")["contamination"] == []
        found = document(capsys, "swapped.onnx", "--contamination", "my_model.py::build")["contamination"]
        assert found[-1] == {
            "key": "linear_1",
            "operator": "Gemm",
            "tag": "/Net/Block.0",
            "returned_by": ["/Net/Block.1"],
        }
        assert [each["key"] for each in found] == ["linear", "relu", "linear_1"]

    def test_another_model_than_the_exported_one_is_refused(
        self, swapped: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["analyze", "net.onnx", "--contamination", "my_model.py::other"]) == 4
        assert "the model that the file was exported from" in capsys.readouterr().err

    @pytest.mark.parametrize("result", ["x", "self.stored * 2"])
    def test_model_without_a_provable_call_is_taken(
        self, project: Path, capsys: pytest.CaptureFixture[str], result: str
    ) -> None:
        (project / "same.py").write_text(SAME.format(result=result))
        assert main(["export", "same.py::build", "-o", "same.onnx"]) == 0
        capsys.readouterr()
        assert document(capsys, "same.onnx", "--contamination", "same.py::build")["contamination"] == []


def test_whole_tags_of_deep_modules_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [".".join(["c"] * i) for i in range(300)]
    calls = [Call(name, 0, "m.Net", names[i - 1] if i else None) for i, name in enumerate(names)]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", values[:1], values[1:])
    proto: onnx.ModelProto = helper.make_model(graph, ir_version=10)
    storage.attach_proto(proto, Attribution(Hierarchy(calls), {"y": (Origin(names[-1], Evidence.TRACED),)}))
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    for options in (["--origins"], ["--format", "csv"]):
        run(capsys, str(tmp_path / "m.onnx"), *options, code=4)
    tree = run(capsys, str(tmp_path / "m.onnx"), "--format", "tree").splitlines()
    assert tree[299].endswith("[299] Net.c (1 node, 0 numbers)") or "[299]" in tree[299]
    assert max(map(len, tree)) < 250


def test_coverage_counts_one_node_in_the_singular() -> None:
    assert coverage_line({"fused": 1}) == "1 node: fused 1"
    assert coverage_line({"fused": 1}, 1_200) == "1 of 1,200 nodes: fused 1"


def test_module_that_calls_itself_is_one_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    calls = [
        Call("", 0, "m.Net", None),
        Call("r", 0, "m.Rec", ""),
        Call("r.f", 0, "m.Fc", "r"),
        Call("r", 1, "m.Rec", "r.f"),
        Call("r.f", 1, "m.Fc", "r@1"),
    ]
    names = ["x", *(call.name for call in calls[1:])]
    nodes = [helper.make_node("Neg", [names[i]], [call.name]) for i, call in enumerate(calls[1:])]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in ("x", names[-1])]
    proto = helper.make_model(helper.make_graph(nodes, "g", values[:1], values[1:]), ir_version=10)
    origins = {key: (Origin(name, Evidence.TRACED),) for (key, _), name in zip(walk(proto), names[1:], strict=True)}
    storage.attach_proto(proto, Attribution(Hierarchy(calls), origins))
    (tmp_path / "r.onnx").write_bytes(proto.SerializeToString())
    rows = list(csv.DictReader(io.StringIO(run(capsys, str(tmp_path / "r.onnx"), "--format", "csv"))))
    assert [(row["tag"], row["calls"], row["nodes"], row["own_nodes"]) for row in rows] == [
        ("/Net", "1", "4", "0"),
        ("/Net/Rec", "2", "4", "2"),
        ("/Net/Rec/Fc", "2", "2", "2"),
    ]
