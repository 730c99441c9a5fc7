"""The figures of a tagged file, module by module."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import helper, numpy_helper
from torch import nn

from pytest_hierexport import export
from pytest_hierexport._calls.attribution import Attribution, Evidence, Origin, Origins
from pytest_hierexport._calls.hierarchy import Call, Hierarchy
from pytest_hierexport._errors import TagError, UsageError
from pytest_hierexport._onnx import sidecar, storage
from pytest_hierexport._tools.analysis import figures
from pytest_hierexport._tools.analysis.figures import Analysis, ModuleFigures
from pytest_hierexport._tools.analysis.rendering import as_dict, as_lines
from pytest_hierexport._tools.tagged_file import load_tagged

LINEAR = "torch.nn.modules.linear.Linear"


def analyze(path: Path) -> Analysis:
    return figures.analyze(load_tagged(path))


def origins(*names: str, evidence: Evidence = Evidence.TRACED) -> Origins:
    return tuple(Origin(name, evidence) for name in names)


def write(path: Path, hierarchy: Hierarchy, nodes: dict[str, Origins], weights: dict[str, tuple[int, Origins]]) -> None:
    """Write a chain of nodes named as `nodes`, with an initializer of so many elements for each of `weights`."""
    before = ["x", *nodes]
    chain = [helper.make_node("Neg", [before[i]], [name]) for i, name in enumerate(nodes)]
    shape = [1]
    graph = helper.make_graph(
        chain,
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(before[-1], onnx.TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(np.ones(size, np.float32), name) for name, (size, _) in weights.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    attribution = Attribution(hierarchy, nodes, {name: owners for name, (_, owners) in weights.items()})
    storage.attach_proto(proto, attribution)
    path.write_bytes(proto.SerializeToString())


def rows(figures: ModuleFigures, above: str = "") -> Iterator[tuple[str, int, int, int, int, int]]:
    """Yield tag, calls, own nodes, all nodes, own parameters, all parameters, top down."""
    tag = f"{above}/{figures.segment}" if figures.segment != "/" else above
    f = figures
    yield tag or "/", f.calls, f.nodes, f.all_nodes, f.parameters, f.all_parameters
    for child in figures.children:
        yield from rows(child, tag)


def test_node_and_parameter_counts_add_up_to_the_root(tmp_path: Path) -> None:
    hierarchy = Hierarchy(
        [
            Call("", 0, "m.Net", None),
            Call("layer.0", 0, "m.Layer", ""),
            Call("layer.0.fc", 0, LINEAR, "layer.0"),
            Call("layer.0.norm", 0, "m.Norm", "layer.0"),
            Call("layer.1", 0, "m.Layer", ""),
        ]
    )
    nodes = {
        "a": origins(""),
        "b": origins("layer.0.fc"),
        "c": origins("layer.0.norm", "layer.1"),
        "d": origins("layer.1", evidence=Evidence.FUSED),
        "e": (),
    }
    weights = {"w": (6, origins("layer.0.fc")), "v": (4, origins("layer.0.norm")), "unowned": (100, ())}
    write(tmp_path / "m.onnx", hierarchy, nodes, weights)
    analysis = analyze(tmp_path / "m.onnx")
    assert list(rows(analysis.modules)) == [
        ("/Net", 1, 1, 4, 0, 10),
        ("/Net/Layer.0", 1, 1, 2, 6, 10),
        ("/Net/Layer.0/Norm", 1, 1, 1, 4, 4),
        ("/Net/Layer.1", 1, 1, 1, 0, 0),
    ]
    assert analysis.nodes == 5
    assert analysis.initializers == 3
    assert (analysis.coverage["traced"], analysis.coverage["fused"], analysis.coverage["untagged"]) == (3, 1, 1)
    assert analysis.operators == {"Neg": 5}
    assert analysis.opsets == {"": 20}


def test_the_calls_of_a_shared_module_are_taken_together(tmp_path: Path) -> None:
    calls = [Call("", 0, "m.Net", None)]
    for i in range(3):
        calls += [Call("b", i, "m.Block", ""), Call("b.c", i, "m.Core", f"b@{i}" if i else "b")]
    nodes = {"x0": origins("b.c"), "x1": origins("b.c@1"), "x2": origins("b@2")}
    write(tmp_path / "m.onnx", Hierarchy(calls), nodes, {})
    assert list(rows(analyze(tmp_path / "m.onnx").modules)) == [
        ("/Net", 1, 0, 3, 0, 0),
        ("/Net/Block", 3, 1, 3, 0, 0),
        ("/Net/Block/Core", 3, 2, 2, 0, 0),
    ]


def test_torch_nn_root_holds_nodes_without_another_module(tmp_path: Path) -> None:
    hierarchy = Hierarchy(
        [
            Call("", 0, "torch.nn.modules.container.Sequential", None),
            Call("0", 0, LINEAR, ""),
            Call("1", 0, "m.Block", ""),
        ]
    )
    write(tmp_path / "m.onnx", hierarchy, {"a": origins("0"), "b": origins("1")}, {})
    assert list(rows(analyze(tmp_path / "m.onnx").modules)) == [("/", 1, 1, 2, 0, 0), ("/Block.1", 1, 1, 1, 0, 0)]


def test_module_that_calls_itself_has_one_row(tmp_path: Path) -> None:
    hierarchy = Hierarchy(
        [Call("", 0, "m.Net", None), Call("t", 0, "m.Tree", ""), Call("t", 1, "m.Tree", "t"), Call("", 1, "m.Net", "t")]
    )
    write(tmp_path / "m.onnx", hierarchy, {"a": origins("t@1"), "b": origins("@1")}, {})
    assert [row[:3] for row in rows(analyze(tmp_path / "m.onnx").modules)] == [
        ("/Net", 2, 1),
        ("/Net/Tree", 2, 1),
    ]


class TestSidecar:
    def test_it_tells_the_exporter_where_it_fits(self, tmp_path: Path) -> None:
        path = tmp_path / "m.onnx"
        write(path, Hierarchy([Call("", 0, "m.Net", None)]), {"a": origins("")}, {})
        assert analyze(path).sidecar == "missing"
        import onnx_ir as ir

        storage.save(ir.load(path), storage.read(path), path, exporter="torchscript")
        assert (analyze(path).sidecar, analyze(path).exporter) == ("fits", "torchscript")

    def test_one_of_another_file_is_left_out_and_named(self, tmp_path: Path) -> None:
        path = tmp_path / "m.onnx"
        write(path, Hierarchy([Call("", 0, "m.Net", None)]), {"a": origins("")}, {})
        sidecar.sidecar_path(path).write_text("{}")
        assert analyze(path).exporter == ""
        assert analyze(path).sidecar.startswith("not used: ")


def nested(depth: int, cls: str = "m.Block") -> Hierarchy:
    """Return a root, and so many calls below it, each made by the one before."""
    names = ["", *(f"call{i}" for i in range(depth))]
    return Hierarchy(
        [Call("", 0, "m.Net", None), *(Call(name, 0, cls, caller) for caller, name in pairwise(names))],
    )


class TestHostileFiles:
    def test_nested_calls_take_memory_per_call(self, tmp_path: Path) -> None:
        write(tmp_path / "m.onnx", nested(5_000), {"x0": origins("call9")}, {})
        tracemalloc.start()
        lines = sum(1 for _ in as_lines(analyze(tmp_path / "m.onnx"), "m.onnx"))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert lines > 5_000
        assert peak < 40e6

    def test_rows_far_below_the_root_show_their_level(self, tmp_path: Path) -> None:
        write(tmp_path / "m.onnx", nested(1_200), {"x0": origins("")}, {})
        table = list(as_lines(analyze(tmp_path / "m.onnx"), "m.onnx"))
        assert table[1 + 1_200].lstrip().startswith("[1200] Block..call1199 ")
        assert max(map(len, table)) < 200

    def test_json_too_deep_for_parsers_is_refused_without_a_depth(self, tmp_path: Path) -> None:
        write(tmp_path / "m.onnx", nested(1_200), {"x0": origins("")}, {})
        found = analyze(tmp_path / "m.onnx")
        with pytest.raises(UsageError, match="1,200 levels"):
            as_dict(found)
        document = json.loads(json.dumps(as_dict(found, 200), indent=1))
        modules = document["modules"]
        for _ in range(200):
            (modules,) = modules["children"]
        assert modules["children"] == []

    def test_rows_are_streamed_however_many(self, tmp_path: Path) -> None:
        calls = [Call("", 0, "m.Net", None), *(Call(f"b.{i}", 0, "m.Block", "") for i in range(20_000))]
        write(tmp_path / "m.onnx", Hierarchy(calls), {"x0": origins("")}, {})
        rows = as_lines(analyze(tmp_path / "m.onnx"), "m.onnx")
        assert next(rows).split()[0] == "module"
        assert sum("Block." in row for row in rows) == 20_000

    def test_a_long_name_does_not_widen_the_other_rows(self, tmp_path: Path) -> None:
        write(tmp_path / "m.onnx", nested(2, f"m.{'B' * 100_000}"), {"x0": origins("")}, {})
        table = list(as_lines(analyze(tmp_path / "m.onnx"), "m.onnx"))
        assert len(table[0]) < 200
        assert "B" * 100_000 in table[2]

    @pytest.mark.parametrize("dims", [[2**62] * 5_000, [2**32, 2**32], [-3, 5]], ids=["many", "two", "negative"])
    def test_dimensions_that_no_tensor_has_are_named(self, tmp_path: Path, dims: list[int]) -> None:
        path = tmp_path / "m.onnx"
        write(path, nested(1), {"x0": origins("")}, {"w": (1, origins(""))})
        proto = storage.load_proto(path)
        proto.graph.initializer[0].dims[:] = dims
        path.write_bytes(proto.SerializeToString())
        with pytest.raises(UsageError, match="'w'"):
            analyze(path)

    def test_a_class_name_with_separators_has_a_row(self, tmp_path: Path) -> None:
        calls = [Call("", 0, "m.Net", None), Call("a", 0, "m.A/B", ""), Call("b", 0, "m.C@1", "a")]
        write(tmp_path / "m.onnx", Hierarchy(calls), {"x0": origins("b")}, {})
        assert [figures.cls for _, figures in analyze(tmp_path / "m.onnx").modules.rows()] == [
            "m.Net",
            "m.A/B",
            "m.C@1",
        ]


def test_what_has_no_tags_has_no_figures(tmp_path: Path) -> None:
    (tmp_path / "text.onnx").write_text("text")
    with pytest.raises(UsageError):
        analyze(tmp_path / "text.onnx")
    write(tmp_path / "m.onnx", Hierarchy([Call("", 0, "m.Net", None)]), {"a": origins("")}, {})
    proto = storage.load_proto(tmp_path / "m.onnx")
    storage.attach_proto(proto, Attribution(Hierarchy(())), "none")
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    with pytest.raises(TagError):
        analyze(tmp_path / "m.onnx")


def test_parameters_come_from_the_modules_in_the_sidecar(tmp_path: Path) -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.norm = nn.Linear(4, 4), nn.BatchNorm1d(3)
            self.norm.bias.data.zero_()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.norm(self.linear(x))
            return out

    model = nn.Sequential(Block(), Block()).eval()
    export(model, (torch.randn(2, 3, 4),), path=tmp_path / "m.onnx")
    figures = analyze(tmp_path / "m.onnx").modules
    assert figures.all_parameters == sum(parameter.numel() for parameter in model.parameters())
    assert [child.parameters for child in figures.children] == [26, 26]


def test_shared_parameters_count_once_for_the_first_called_module(tmp_path: Path) -> None:
    class Block(nn.Module):
        def __init__(self, weight: torch.Tensor | None = None) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)
            self.linear.weight = self.linear.weight if weight is None else weight

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.linear(x)
            return out

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.unused, self.first = Block(), Block()
            self.tied = Block(self.first.linear.weight)
            self.again = self.first
            self.first.linear.bias = self.unused.linear.bias

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.again(self.tied(self.first(x)))
            return out

    model = Net().eval()
    export(model, (torch.randn(2, 4),), path=tmp_path / "m.onnx")
    figures = analyze(tmp_path / "m.onnx").modules
    assert figures.all_parameters == sum(parameter.numel() for parameter in model.parameters())
    # The weight of the block that never runs is the root's; its bias counts for the first block that has it and runs.
    assert figures.parameters == 16
    assert {child.path: child.parameters for child in figures.children} == {"first": 20, "tied": 4, "again": 0}
    counts = {module["path"]: module["count"] for module in _sidecar(tmp_path / "m.onnx")["modules"]}
    assert sum(counts.values()) == figures.all_parameters
    assert (counts["unused.linear"], counts["again.linear"]) == (20, 0)


def _sidecar(path: Path) -> Any:
    return json.loads(sidecar.sidecar_path(path).read_text(encoding="utf-8"))
