"""`hierexport carry`: the file that a tool wrote gets the tags of the one that the tool was given."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx.inliner
import onnx_ir as ir
import pytest
import torch

from pytest_hierexport import attach, carry, export, read, save, walk
from pytest_hierexport._errors import UsageError
from pytest_hierexport._tools.modules.outlining import modules_as_functions
from pytest_hierexport.cli import main


class Tower(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = torch.relu(block(x))
        return x


@pytest.fixture(scope="module")
def tagged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tagged") / "tower.onnx"
    torch.manual_seed(0)
    export(Tower(), (torch.rand(2, 8),), path=path)
    return path


@pytest.fixture
def stripped(tagged: Path, tmp_path: Path) -> Path:
    """Return what a tool leaves: other node names, no metadata."""
    model = onnx.load(tagged)
    for i, node in enumerate(model.graph.node):
        node.name, node.doc_string = f"n{i}", ""
        del node.metadata_props[:]
    del model.metadata_props[:]
    onnx.save(model, tmp_path / "other.onnx")
    return tmp_path / "other.onnx"


def test_carry_writes_the_tags_and_a_sidecar(
    tagged: Path, stripped: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content, out = stripped.read_bytes(), tmp_path / "out.onnx"
    assert main(["carry", str(tagged), str(stripped), "-o", str(out)]) == 0
    assert read(out).nodes == read(tagged).nodes
    assert read(out, "sidecar").nodes == read(tagged).nodes
    assert f"{len(read(tagged).nodes)} nodes: traced" in capsys.readouterr().out
    assert stripped.read_bytes() == content


def test_carry_copies_external_data_to_another_folder(tagged: Path, stripped: Path, tmp_path: Path) -> None:
    model = onnx.load(stripped)
    onnx.save(model, stripped, save_as_external_data=True, location="other.data", size_threshold=0)
    (tmp_path / "elsewhere").mkdir()
    out = tmp_path / "elsewhere" / "out.onnx"
    assert main(["carry", str(tagged), str(stripped), "-o", str(out)]) == 0
    weights = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in onnx.load(out).graph.initializer}
    for tensor in model.graph.initializer:
        assert np.array_equal(weights[tensor.name], onnx.numpy_helper.to_array(tensor, str(tmp_path)))


def test_result_of_carry_in_python_is_written_by_save(tagged: Path, stripped: Path, tmp_path: Path) -> None:
    import onnx_ir as ir

    model = ir.load(stripped)
    attribution = carry(tagged, read(tagged), model)
    attach(model, attribution)
    assert read(save(model, attribution, tmp_path / "out.onnx")).nodes == read(tagged).nodes


def test_invalid_model_raises_error_with_the_value(tagged: Path, stripped: Path) -> None:
    model = onnx.load(stripped)
    model.graph.node.append(model.graph.node[-1])
    onnx.save(model, stripped)
    for invalid in (model, stripped):
        with pytest.raises(UsageError, match=f"'{model.graph.node[-1].output[0]}' is redeclared"):
            carry(tagged, read(tagged), invalid)


@pytest.mark.parametrize("damage", ["no data", "not onnx", "tagless", "unrelated", "missing"])
def test_carry_names_what_is_wrong_with_a_file(
    damage: str, tagged: Path, stripped: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [str(tagged), str(stripped)]
    if damage == "no data":
        onnx.save(onnx.load(stripped), stripped, save_as_external_data=True, location="other.data", size_threshold=0)
        (tmp_path / "other.data").unlink()
    elif damage == "not onnx":
        stripped.write_text("no model", encoding="utf-8")
    elif damage == "tagless":
        files.reverse()
    elif damage == "unrelated":
        text = '<ir_version: 10, opset_import: ["": 20]> g (float[3] q) => (float[3] r) { r = Exp(q) }'
        onnx.save(onnx.parser.parse_model(text), stripped)
    else:
        stripped.unlink()
    assert main(["carry", *files, "-o", str(tmp_path / "out.onnx")]) == (1 if damage == "tagless" else 4)
    assert "expected" in capsys.readouterr().err
    assert not (tmp_path / "out.onnx").exists()


@pytest.mark.parametrize("arguments", [["carry", "-", "-", "-o", "out.onnx"], ["diff", "-", "-"]])
def test_standard_input_is_one_file(
    arguments: list[str], tagged: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(tagged.read_bytes())))
    assert main(arguments) == (2 if arguments[0] == "diff" else 4)
    assert "one ONNX file on standard input" in capsys.readouterr().err


def test_carry_says_what_speaks_against_the_second_file(
    tagged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = onnx.load(tagged)
    for tensor in model.graph.initializer:
        tensor.name = f"other {tensor.name}"
    for node in model.graph.node:
        node.input[:] = [f"other {name}" if name.startswith("blocks") else name for name in node.input]
    text = '<ir_version: 10, opset_import: ["": 20]> g (float[3] x) => () { lost = Exp(x) }'
    model.graph.node.append(onnx.parser.parse_model(text).graph.node[0])
    onnx.save(model, tmp_path / "other.onnx")
    assert main(["carry", str(tagged), str(tmp_path / "other.onnx"), "-o", str(tmp_path / "out.onnx")]) == 0
    assert "of its weights" not in capsys.readouterr().err
    for i, tensor in enumerate(model.graph.initializer):
        for node in model.graph.node:
            node.input[:] = [f"c{i}" if name == tensor.name else name for name in node.input]
        tensor.name = f"c{i}"
    onnx.save(model, tmp_path / "other.onnx")
    assert main(["carry", str(tagged), str(tmp_path / "other.onnx"), "-o", str(tmp_path / "out.onnx")]) == 0
    assert "of its weights" not in capsys.readouterr().err
    for tensor in model.graph.initializer:
        other = onnx.numpy_helper.to_array(tensor) + 1
        tensor.CopyFrom(onnx.numpy_helper.from_array(other, tensor.name))
    onnx.save(model, tmp_path / "other.onnx")
    assert main(["carry", str(tagged), str(tmp_path / "other.onnx"), "-o", str(tmp_path / "out.onnx")]) == 0
    printed = capsys.readouterr().err
    assert "few of its weights are those of the tagged file" in " ".join(printed.split())
    assert "of 5 nodes are derived" in " ".join(printed.split())


def test_carry_gives_a_call_of_a_function_its_own_tag(tagged: Path) -> None:
    made = modules_as_functions(tagged, read(tagged), module="**")
    carried = carry(tagged, read(tagged), made.model)
    assert {key: carried.tag(key) for key in carried.nodes} == {key: made.attribution.tag(key) for key in carried.nodes}
    assert carried.coverage()["derived"] == 0


def test_inlined_functions_give_each_call_its_own_nodes(tagged: Path) -> None:
    made = modules_as_functions(tagged, read(tagged), module="**")
    inlined = onnx.inliner.inline_local_functions(ir.to_proto(made.model))
    carried = carry(made.model, made.attribution, inlined)
    gemms = [carried.nodes[key] for key, node in walk(inlined) if node.op_type == "Gemm"]
    assert [[origin.call for origin in origins] for origins in gemms] == [["blocks.0"], ["blocks.1"]]
