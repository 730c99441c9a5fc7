"""Node names that carry the module: `hierexport rename`, `rename_nodes()` and `export(node_names=)`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import onnx
import onnx_ir as ir
import pytest
import torch
from torch import nn

from named_models import tagged_model
from pytest_hierexport import UsageError, export, read, rename_nodes, walk
from pytest_hierexport._calls.attribution import Attribution
from pytest_hierexport._calls.hierarchy import Call, Hierarchy
from pytest_hierexport._cases import select
from pytest_hierexport._onnx import storage
from pytest_hierexport._onnx.difference import bare
from pytest_hierexport._onnx.proto_tags import TaggedProto
from pytest_hierexport.cli import main

PATHS = {
    "neg": "/layer.1/Neg",
    "chosen": "/If",
    "chosen/then_branch/t": "/layer.1/proj/Abs",
    "chosen/else_branch/e": "/layer.10/Abs",
    "mask": "/layer.1/Exp",
    "twice": "/layer.10/Twice",
    "my::Twice:://sum": "/layer.10/.shared/Add",
    "again": "/layer.1@1/Neg",
}
TAGS = {
    "neg": "/Net/Layer.1/Neg",
    "chosen": "/Net/If",
    "chosen/then_branch/t": "/Net/Layer.1/Abs",
    "chosen/else_branch/e": "/Net/Layer.10/Abs",
    "mask": "/Net/Layer.1/Exp",
    "twice": "/Net/Layer.10/Twice",
    "my::Twice:://sum": "/Net/Layer.10/Norm..shared/Add",
    "again": "/Net/Layer.1@1/Neg",
}


class Pair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.lin(self.lin(x).exp()).exp() + x.exp()
        return found


def names(model: onnx.ModelProto | ir.Model) -> dict[str, str]:
    return {key: node.name for key, node in walk(model)}


def without_names(proto: onnx.ModelProto) -> bytes:
    for _, node in walk(proto):
        node.ClearField("name")
    return bytes(proto.SerializeToString(deterministic=True))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    onnx.save(tagged_model(), path)
    return path


@pytest.mark.parametrize(("style", "expected"), [("path", PATHS), ("tag", TAGS)])
@pytest.mark.parametrize("as_model", [lambda proto: proto, ir.from_proto])
def test_names_carry_the_module_in_subgraphs_and_functions_too(
    style: str, expected: dict[str, str], as_model: Callable[[onnx.ModelProto], onnx.ModelProto | ir.Model]
) -> None:
    proto = tagged_model()
    attribution = storage.read_tagged(TaggedProto(proto), Path("none"))
    model = as_model(proto)
    rename_nodes(model, attribution, style)  # type: ignore[arg-type]  # a parameter of the test
    assert names(model) == expected


def test_the_command_changes_nothing_but_names(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = file.read_bytes()
    target = file.with_name("named.onnx")
    assert main(["rename", str(file), "-o", str(target)]) == 0
    assert "8 nodes named by path" in capsys.readouterr().out
    assert names(onnx.load(target)) == PATHS
    assert without_names(onnx.load(target)) == without_names(onnx.load(file))
    assert file.read_bytes() == before
    assert read(target) == read(file) == read(target, "sidecar")


def test_renaming_a_file_in_place_twice_changes_nothing(file: Path) -> None:
    assert main(["rename", str(file), "-o", str(file), "--style", "tag"]) == 0
    once = file.read_bytes()
    assert names(onnx.load(file)) == TAGS
    assert main(["rename", str(file), "-o", str(file), "--style", "tag"]) == 0
    assert file.read_bytes() == once


def test_the_command_works_in_a_pipe(file: Path) -> None:
    command = [sys.executable, "-m", "pytest_hierexport", "rename", "-", "-o", "-"]
    done = subprocess.run(command, input=file.read_bytes(), capture_output=True, check=True)
    assert names(onnx.load_from_string(done.stdout)) == PATHS


def test_equal_operators_of_a_module_are_numbered() -> None:
    model = export(Pair(), (torch.ones(2, 3),), node_names="path").model
    found = [name for name in names(model).values() if "Exp" in name]
    assert found == ["/Exp", "/Exp_1", "/Exp_2"]
    assert {"/lin/Gemm", "/lin@1/Gemm"} <= set(names(model).values())


def test_a_number_never_meets_an_operator_of_that_name() -> None:
    nodes = [onnx.helper.make_node(op, [], [f"v{i}"], domain="d") for i, op in enumerate(["A", "A_1", "A", "A", "a/b"])]
    graph = onnx.helper.make_graph(nodes, "g", [], [])
    proto = onnx.helper.make_model(graph)
    rename_nodes(proto, Attribution(Hierarchy([Call("", 0, "m.N", None)]), {}))
    assert [node.name for node in proto.graph.node] == ["A", "A_1", "A_2", "A_3", "a%2Fb"]


def test_an_untagged_node_keeps_a_name_of_its_own() -> None:
    proto = tagged_model()
    attribution = storage.read_tagged(TaggedProto(proto), Path("none"))
    nodes = {**attribution.nodes, "neg": (), "again": ()}
    proto.graph.node[0].name = proto.graph.node[-1].name = "mine"
    rename_nodes(proto, Attribution(attribution.hierarchy, nodes))
    assert names(proto) == {**PATHS, "neg": "mine", "again": "mine_1"}


def test_an_export_may_name_its_nodes(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, args = Pair(), (torch.ones(2, 3),)
    for style in (None, "path", "tag"):
        export(model, args, path=tmp_path / f"{style}.onnx", node_names=style)
    plain, path, tag = (bare(onnx.load(tmp_path / f"{s}.onnx"), tmp_path) for s in (None, "path", "tag"))
    assert all(node.name.startswith("/") for node in path.graph.node)
    assert all(node.name.startswith("/Pair/") for node in tag.graph.node)
    assert not any(node.name.startswith("/") for node in plain.graph.node)
    assert without_names(plain) == without_names(path) == without_names(tag)
    assert json.loads((tmp_path / "path.hierarchy.json").read_text())["nodes"]


@pytest.mark.parametrize(
    "arguments", [["rename", "-o", "out.onnx", "--style"], ["export", "-o", "out.onnx", "--node-names"]]
)
def test_an_unknown_style_is_a_usage_error(
    file: Path, arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(file.parent)
    subject = str(file) if arguments[0] == "rename" else "sequential"
    assert main([arguments[0], subject, *arguments[1:], "camel"]) == 4
    assert "'camel'" in capsys.readouterr().err
    assert not (file.parent / "out.onnx").exists()
    with pytest.raises(UsageError, match="camel"):
        rename_nodes(tagged_model(), read(file), "camel")  # type: ignore[arg-type]


def test_exporting_by_command_names_nodes(tmp_path: Path) -> None:
    assert main(["export", "sequential", "-o", str(tmp_path / "s.onnx"), "--node-names", "path"]) == 0
    found = names(onnx.load(tmp_path / "s.onnx")).values()
    assert found
    assert all(name.startswith("/") for name in found)


def test_zoo_models_run_to_the_same_values_under_unique_names(tmp_path: Path) -> None:
    import numpy as np
    import onnxruntime

    for case in select(["bert", "albert"], tmp_path):
        example = case.load()
        exported = export(example.model, example.args, example.kwargs, tmp_path / "before.onnx")
        assert main(["rename", str(tmp_path / "before.onnx"), "-o", str(tmp_path / "after.onnx")]) == 0
        after = onnx.load(tmp_path / "after.onnx")
        onnx.checker.check_model(after, full_check=True)
        assert len(set(names(after).values())) == len(names(after)) == len(exported.attribution.nodes)
        values = [np.asarray(value) for value in (*example.args, *example.kwargs.values())]
        results = []
        for name in ("before", "after"):
            session = onnxruntime.InferenceSession(tmp_path / f"{name}.onnx", providers=["CPUExecutionProvider"])
            feed = dict(zip((value.name for value in session.get_inputs()), values, strict=True))
            results.append(session.run(None, feed))
        for one, other in zip(*results, strict=True):
            np.testing.assert_array_equal(one, other)
