"""The nodes of modules for tools that take node names: `hierexport select` and `select_nodes()`."""

from __future__ import annotations

import fnmatch
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import onnx
import onnx_ir as ir
import pytest
import torch
from onnx import helper
from torch import nn

from named_models import tagged_model
from pytest_hierexport import TagError, UsageError, carry, export, read, select_nodes, walk
from pytest_hierexport._calls.attribution import Attribution
from pytest_hierexport._cases import select
from pytest_hierexport.cli import main
from schemas import strict_schema


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.lin(x).relu()
        return found


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(12))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    onnx.save(tagged_model("a.[{}]*"), path)
    return path


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of twelve blocks, each a Gemm and a Relu."""
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("net") / "net.onnx"
    export(Net().eval(), (torch.randn(2, 8),), path=path)
    return path


def printed(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    capsys.readouterr()
    assert main(["select", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def test_a_selection_reaches_into_subgraphs_and_functions(file: Path) -> None:
    keys = {node.name: key for key, node in walk(onnx.load(file))}

    def selected(*patterns: str, **options: Any) -> list[str]:
        return [keys[name] for name in select_nodes(file, patterns, **options)]

    assert selected("layer.1") == ["neg", "chosen/then_branch/t", "mask", "again"]
    assert selected("layer.1@1") == ["again"]
    assert selected("shared") == ["my::Twice:://sum"]
    assert selected("layer.10") == ["chosen/else_branch/e", "mask", "twice", "my::Twice:://sum"]
    assert selected("layer.10", origins="primary") == ["chosen/else_branch/e", "twice", "my::Twice:://sum"]
    assert selected("class:Norm", "layer.1.proj") == ["chosen/then_branch/t", "my::Twice:://sum"]
    assert selected("/Net") == [key for key, _ in walk(onnx.load(file))]


def test_a_model_may_be_a_file_or_in_memory(file: Path) -> None:
    proto = onnx.load(file)
    expected = select_nodes(str(file), "layer.10")
    assert expected
    assert select_nodes(proto, "layer.10") == expected
    assert select_nodes(ir.from_proto(proto), ["layer.10"]) == expected
    for _, node in walk(proto):
        node.ClearField("doc_string")
        node.ClearField("metadata_props")
    assert select_nodes(proto, "layer.10", attribution=read(file)) == expected
    with pytest.raises(TagError):
        select_nodes(proto, "layer.10")
    attribution = read(file)
    onnx.save(proto, file)
    assert select_nodes(file, "layer.10", attribution=attribution) == expected


@pytest.mark.parametrize("consumer", ["regex", "glob"])
def test_expressions_match_the_selected_names_alone(file: Path, consumer: Any) -> None:
    every = [node.name for _, node in walk(onnx.load(file))]
    every += [f"{name}0" for name in every] + [f"x{name}" for name in every]
    expressions = select_nodes(file, "layer.1", consumer=consumer)
    match = re.match if consumer == "regex" else lambda pattern, name: fnmatch.fnmatchcase(name, pattern)
    found = [name for name in every if any(match(expression, name) for expression in expressions)]
    assert found == select_nodes(file, "layer.1")


def test_a_module_is_not_taken_for_one_whose_name_continues(net: Path) -> None:
    one, eleven = select_nodes(net, "blocks.1"), select_nodes(net, "blocks.11")
    assert one
    assert not set(one) & set(eleven)
    assert len(select_nodes(net, "blocks.1*")) == 3 * len(one)


def test_a_pattern_without_nodes_is_an_error(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["select", str(file), "layer.1", "class:Drop"]) == 4
    assert "nodes of 'class:Drop'; found none in 1 call: " in capsys.readouterr().err
    assert main(["select", str(file), "layer.1", "layer.2"]) == 4
    error = capsys.readouterr().err
    assert "'layer.2'" in error
    assert "layer.1" in error.splitlines()[1]
    with pytest.raises(UsageError, match="none"):
        select_nodes(file, [])


@pytest.mark.parametrize("name", ["", "same"])
def test_a_name_that_says_nothing_is_an_error(file: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(tagged_model(name), file)
    for kind in ("names", "regex", "nodes_to_exclude"):
        assert main(["select", str(file), "layer.1", "--format", kind]) == 4
        assert "hierexport rename" in capsys.readouterr().err
    document = json.loads(printed(capsys, file, "layer.1", "--format", "json"))
    assert [node["name"] for node in document["nodes"]] == [name] * 4


def test_a_file_of_a_tool_is_named_as_one(net: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from onnxruntime.quantization import quantize_dynamic

    made = tmp_path / "int8.onnx"
    quantize_dynamic(net, made)
    untagged = [key for key, node in walk(onnx.load(made)) if not node.metadata_props]
    counted = (
        f"hierexport: {made}: {len(untagged)} of {len(list(walk(onnx.load(made))))} nodes have no tag: {untagged[0]}"
    )
    assert main(["select", str(made), "blocks.1"]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(counted)
    assert line.endswith(f"; carry the tags first (hierexport carry TAGGED.onnx {made})")
    carried = tmp_path / "carried.onnx"
    assert main(["carry", str(made), str(net), "-o", str(carried)]) == 0
    assert f"; give the tagged file that the tool was given before {net}\n" in capsys.readouterr().err
    assert main(["carry", str(net), str(made), "-o", str(carried)]) == main(["select", str(carried), "blocks.1"]) == 0
    assert main(["select", str(net), "blocks.1"]) == 0
    assert "no tag" not in capsys.readouterr().err


def test_json_fits_its_schema(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    schema = strict_schema("select")
    document = json.loads(printed(capsys, file, "layer.1", "shared", "--format", "json", "--origins", "primary"))
    jsonschema.validate(document, schema)
    assert document["patterns"] == {"layer.1": ["layer.1", "layer.1@1"], "shared": ["shared"]}
    assert document["origins"] == "primary"
    (mask,) = (node for node in document["nodes"] if node["key"] == "mask")
    assert mask == {
        "key": "mask",
        "name": "a.[5]*",
        "operator": "Exp",
        "tag": "/Net/Layer.1",
        "origins": [["layer.1", "traced"], ["layer.10", "traced"]],
    }


def test_every_format_prints_what_its_tool_takes(net: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = select_nodes(net, "blocks.1")
    assert printed(capsys, net, "blocks.1").split() == names
    assert printed(capsys, net, "blocks.1", "--format", "regex").split() == [f"^{re.escape(name)}$" for name in names]
    assert json.loads(printed(capsys, net, "blocks.1", "--format", "node_block_list")) == names
    excluded = json.loads(printed(capsys, net, "blocks.1", "--format", "nodes_to_exclude"))
    assert set(names) < set(excluded)
    assert json.loads(printed(capsys, net, "blocks.1", "--format", "transformers")) == {"nodes_to_exclude": excluded}


def test_control_characters_of_names_are_escaped(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(tagged_model("\x1b[2J{}"), file)
    assert "\x1b" not in printed(capsys, file, "layer.1")
    assert json.loads(printed(capsys, file, "layer.1", "--format", "json"))["nodes"][0]["name"].startswith("\x1b[2J")


def operators_by_block(path: Path, attribution: Attribution) -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = {}
    for key, node in walk(onnx.load(path)):
        block = ".".join(attribution.nodes[key][0].call.split(".")[:2])
        found.setdefault(block, Counter())[node.op_type] += 1
    return found


def test_excluded_modules_stay_float_where_the_quantizer_renames(net: Path, tmp_path: Path) -> None:
    from onnxruntime.quantization import quantize_dynamic

    proto, quantized = onnx.load(net), tmp_path / "quantized.onnx"
    assert "Gemm" in {node.op_type for _, node in walk(proto)}
    proto.graph.ClearField("value_info")
    lost = {}
    for consumer in ("names", "nodes_to_exclude"):
        excluded = select_nodes(net, "blocks.1", consumer=consumer)
        quantize_dynamic(proto, quantized, nodes_to_exclude=excluded)
        operators = operators_by_block(quantized, carry(net, read(net), quantized))
        lost[consumer] = [block for block, counts in operators.items() if counts["MatMulInteger"]]
    # By the names in the file alone the exclusion is lost without a word: the quantizer has split the Gemm before.
    assert len(lost["names"]) == 12
    assert len(lost["nodes_to_exclude"]) == 11
    assert "blocks.1" not in lost["nodes_to_exclude"]


def test_static_quantization_leaves_excluded_modules_float(net: Path, tmp_path: Path) -> None:
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static

    class Data(CalibrationDataReader):  # type: ignore[misc]  # onnxruntime ships no types
        def __init__(self) -> None:
            self.feeds = iter([{onnx.load(net).graph.input[0].name: np.ones((2, 8), np.float32)}])

        def get_next(self) -> Any:
            return next(self.feeds, None)

    excluded = select_nodes(net, "blocks.1", consumer="nodes_to_exclude")
    for form in (QuantFormat.QDQ, QuantFormat.QOperator):
        path = tmp_path / "static.onnx"
        quantize_static(str(net), path, Data(), quant_format=form, nodes_to_exclude=excluded)
        names = {node.name: node.op_type for _, node in walk(onnx.load(path))}
        consumed = {
            name for _, node in walk(onnx.load(path)) if node.op_type == "DequantizeLinear" for name in node.output
        }
        kept = [
            node for _, node in walk(onnx.load(path)) if node.name in excluded and node.op_type in {"Gemm", "MatMul"}
        ]
        assert len(kept) == 1, names
        assert kept[0].input[1] not in consumed


def test_float16_conversion_leaves_a_blocked_module_float(net: Path) -> None:
    from onnxruntime.transformers.float16 import convert_float_to_float16

    blocked = select_nodes(net, "blocks.1", consumer="node_block_list")
    converted = convert_float_to_float16(onnx.load(net), node_block_list=blocked)
    to_float = {
        node.output[0]
        for node in converted.graph.node
        if node.op_type == "Cast" and node.attribute[0].i == onnx.TensorProto.FLOAT
    }
    fed = [node.name for node in converted.graph.node if node.op_type != "Cast" and to_float.issuperset(node.input)]
    assert fed == blocked


@pytest.mark.filterwarnings("ignore")  # transformers' exporter and torch's, of one another
def test_the_quantizer_of_transformers_takes_the_selection(tmp_path: Path) -> None:
    exporters = pytest.importorskip("transformers.exporters")
    (case,) = select(["bert"], tmp_path)
    example = case.load()
    exported = export(example.model, example.args, example.kwargs, tmp_path / "bert.onnx", exporter="transformers")
    excluded = select_nodes(tmp_path / "bert.onnx", ["pooler", "encoder.layer.0"], consumer="nodes_to_exclude")
    quantizer = exporters.OnnxRuntimeQuantizer(exporters.OnnxRuntimeDynamicConfig(nodes_to_exclude=excluded))
    result = exporters.OnnxExporter().export(
        example.model, dict(example.kwargs), exporters.OnnxConfig(quantizer=quantizer)
    )
    quantized = result.program
    attribution = carry(exported.model, exported.attribution, quantized)
    integer = [attribution.nodes[key][0].call for key, node in walk(quantized) if node.op_type == "MatMulInteger"]
    assert integer
    assert all(call.startswith("encoder.layer.1.") for call in integer)


def test_a_node_that_holds_graphs_is_not_split(file: Path) -> None:
    proto = onnx.load(file)
    gemm = helper.make_node("Gemm", ["neg", "neg"], ["t"], name="gemm")
    held = proto.graph.node[1].attribute[0].g.node[0]
    gemm.doc_string = held.doc_string
    held.CopyFrom(gemm)
    assert {"gemm", "gemm_MatMul"} <= set(select_nodes(proto, "/Net", consumer="nodes_to_exclude"))
