"""`hierexport analyze` on the command line: what it prints, where, and with which exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from onnx import TensorProto, helper

from pytest_hierexport._calls.attribution import Attribution, Evidence, Origin
from pytest_hierexport._calls.hierarchy import Call, Hierarchy
from pytest_hierexport._onnx import storage
from pytest_hierexport.cli import main


@pytest.fixture
def tagged(tmp_path: Path) -> Path:
    """A hand-made file: a node of the root, and one of each of two blocks."""
    calls = [Call("", 0, "m.Net", None), *(Call(f"blocks.{i}", 0, "m.[bold]", "") for i in range(2))]
    names = ["x", "a", "b", "c"]
    nodes = [helper.make_node("Neg", [before], [after]) for before, after in pairwise(names)]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in ("x", "c")]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    origins = [Origin(call.name, Evidence.TRACED) for call in calls]
    attribution = Attribution(Hierarchy(calls), {name: (o,) for name, o in zip("abc", origins, strict=True)})
    storage.attach_proto(proto, attribution)
    path = tmp_path / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


def test_it_prints_the_tree_with_its_figures(tagged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", str(tagged)]) == 0
    printed = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert printed[:4] == [
        ["module", "calls", "nodes", "own", "nodes", "numbers", "held"],
        ["Net", "1", "3", "1", "0"],
        ["[bold].0", "1", "1", "1", "0"],
        ["[bold].1", "1", "1", "1", "0"],
    ]
    assert ["3", "nodes:", "traced", "3"] in printed


def test_parameters_with_a_sidecar_are_those_that_modules_declare(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", "my_model.py::build", "-o", "net.onnx"]) == 0
    capsys.readouterr()
    assert main(["analyze", "net.onnx"]) == 0
    assert capsys.readouterr().out.splitlines()[0].split()[-1] == "parameters"


def test_depth_cuts_the_tree_and_keeps_the_sums(tagged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", str(tagged), "--depth", "0"]) == 0
    printed = capsys.readouterr().out
    assert "bold" not in printed
    assert ["Net", "1", "3", "1", "0"] in [line.split() for line in printed.splitlines()]


def test_json_holds_the_same(tagged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", str(tagged), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["nodes"] == 3
    assert document["coverage"]["traced"] == 3
    assert document["sidecar"] == "missing"
    assert [child["segment"] for child in document["modules"]["children"]] == ["[bold].0", "[bold].1"]


def test_json_is_cut_at_the_same_depth(tagged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", str(tagged), "--json", "--depth", "0"]) == 0
    modules = json.loads(capsys.readouterr().out)["modules"]
    assert (modules["all_nodes"], modules["children"]) == (3, [])


def test_names_from_the_file_reach_the_terminal_escaped(tagged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "\x1b[2J\x07\u202e\n"
    proto = storage.load_proto(tagged)
    proto.graph.node[0].op_type = proto.graph.node[1].domain = proto.opset_import[0].domain = hostile
    (calls,) = (entry for entry in proto.metadata_props if entry.key == "hierexport.calls")
    calls.value = calls.value.replace("m.[bold]", json.dumps(f"m.{hostile}")[1:-1])
    for node in proto.graph.node[1:]:
        node.ClearField("doc_string")
        node.ClearField("metadata_props")
    tagged.write_bytes(proto.SerializeToString())
    assert main(["analyze", str(tagged)]) == 0
    printed = capsys.readouterr().out
    shown = r"\x1b[2J\x07\u202e\n"
    assert all(character.isprintable() for line in printed.split("\n") for character in line)
    assert f"  {shown}.0 " in printed
    encoded = "%1B[2J%07%E2%80%AE%0A"
    assert f"operators: {encoded} 1, {encoded}::Neg 1" in printed
    assert main(["analyze", str(tagged), "--json"]) == 0
    printed = capsys.readouterr().out
    assert printed.isascii()
    document = json.loads(printed)
    assert document["modules"]["children"][0]["segment"] == f"{hostile}.0"
    assert encoded in document["operators"]


def test_messages_with_names_from_the_file_stay_two_lines(tagged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    proto = storage.load_proto(tagged)
    (version,) = (entry for entry in proto.metadata_props if entry.key == "hierexport.format")
    version.value = "2\x1b[2J\n::error::"
    tagged.write_bytes(proto.SerializeToString())
    assert main(["analyze", str(tagged)]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert r"format 2\x1b[2J\n::error::" in lines[0]


@pytest.mark.parametrize("length", [255, 300])
def test_a_file_name_too_long_ends_in_a_message(tagged: Path, length: int, capsys: pytest.CaptureFixture[str]) -> None:
    path = tagged.with_name(f"{'x' * (length - len('.onnx'))}.onnx")
    if length == 255:
        tagged.rename(path)
    assert main(["analyze", str(path)]) == (0 if length == 255 else 4)
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("heavy", ["torch", "onnx_ir", "onnxruntime"])
def test_nothing_heavy_is_imported(tagged: Path, heavy: str) -> None:
    code = (
        "import sys; from pytest_hierexport.cli import main;"
        f"code = main(['analyze', {str(tagged)!r}]); sys.exit(code or {heavy!r} in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode == 0


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_who_leaves_early_gets_no_traceback(unbuffered: str, tagged: Path) -> None:
    command = f"from pytest_hierexport.cli import main; main(['analyze', '--json', {str(tagged)!r}])"
    # Unbuffered, print() itself fails; else what is left in the buffer does, at the end.
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with subprocess.Popen(
        [sys.executable, "-c", command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""


def test_csv_of_an_empty_list_has_its_heading(tagged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", str(tagged), "--format", "csv", "--untagged"]) == 0
    assert capsys.readouterr().out == "key,operator\n"
    assert main(["analyze", str(tagged), "--format", "csv", "--origins"]) == 0
    assert capsys.readouterr().out.startswith("kind,key,operator,origins\nnode,a,Neg,")


def test_characters_that_the_console_lacks_are_escaped(tagged: Path) -> None:
    tree = [sys.executable, "-m", "pytest_hierexport", "analyze", str(tagged), "--format", "tree"]
    environment = {**os.environ, "PYTHONIOENCODING": "cp1252"}
    result = subprocess.run(tree, capture_output=True, check=True, env=environment)
    assert b"\\u251c" in result.stdout
    assert b"[bold].0" in result.stdout
    assert result.stderr == b""


def test_an_interrupt_is_no_failure_of_ours(
    tagged: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pytest_hierexport._tools.analysis.figures.analyze", interrupted)
    assert main(["analyze", str(tagged)]) == 130
    assert capsys.readouterr().err == ""
