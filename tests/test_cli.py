"""The command line: what it prints, where, and with which exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path

import pytest
from onnx import TensorProto, helper

from pytest_hierexport._calls.attribution import Attribution, Evidence, Origin
from pytest_hierexport._calls.hierarchy import Call, Hierarchy
from pytest_hierexport._onnx import storage
from pytest_hierexport.cli import main

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
    net = Net()
    with torch.no_grad():
        net.blocks[0].fc.weight.fill_(0.25)
    return net, (torch.ones(2, 3),)

def broken():
    raise ValueError("no such file: weights.bin")

def failing():
    return Net(), (torch.ones(2, 7),)
"""


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


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "my_model.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    return tmp_path


class TestAnalyze:
    def test_it_prints_the_tree_with_its_figures(self, tagged: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
        self, project: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["export", "my_model.py::build", "-o", "net.onnx"]) == 0
        capsys.readouterr()
        assert main(["analyze", "net.onnx"]) == 0
        assert capsys.readouterr().out.splitlines()[0].split()[-1] == "parameters"

    def test_depth_cuts_the_tree_and_keeps_the_sums(self, tagged: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["analyze", str(tagged), "--depth", "0"]) == 0
        printed = capsys.readouterr().out
        assert "bold" not in printed
        assert ["Net", "1", "3", "1", "0"] in [line.split() for line in printed.splitlines()]

    def test_json_holds_the_same(self, tagged: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["analyze", str(tagged), "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert document["nodes"] == 3
        assert document["coverage"]["traced"] == 3
        assert document["sidecar"] == "missing"
        assert [child["segment"] for child in document["modules"]["children"]] == ["[bold].0", "[bold].1"]

    def test_json_is_cut_at_the_same_depth(self, tagged: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["analyze", str(tagged), "--json", "--depth", "0"]) == 0
        modules = json.loads(capsys.readouterr().out)["modules"]
        assert (modules["all_nodes"], modules["children"]) == (3, [])

    def test_names_from_the_file_reach_the_terminal_escaped(
        self, tagged: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
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

    def test_messages_with_names_from_the_file_stay_two_lines(
        self, tagged: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        proto = storage.load_proto(tagged)
        (version,) = (entry for entry in proto.metadata_props if entry.key == "hierexport.format")
        version.value = "2\x1b[2J\n::error::"
        tagged.write_bytes(proto.SerializeToString())
        assert main(["analyze", str(tagged)]) == 1
        lines = capsys.readouterr().err.splitlines()
        assert len(lines) == 2
        assert r"format 2\x1b[2J\n::error::" in lines[0]

    @pytest.mark.parametrize("length", [255, 300])
    def test_a_file_name_too_long_ends_in_a_message(
        self, tagged: Path, length: int, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tagged.with_name(f"{'x' * (length - len('.onnx'))}.onnx")
        if length == 255:
            tagged.rename(path)
        assert main(["analyze", str(path)]) == (0 if length == 255 else 4)
        assert "Traceback" not in capsys.readouterr().err

    @pytest.mark.parametrize("heavy", ["torch", "onnx_ir", "onnxruntime"])
    def test_nothing_heavy_is_imported(self, tagged: Path, heavy: str) -> None:
        code = (
            "import sys; from pytest_hierexport.cli import main;"
            f"code = main(['analyze', {str(tagged)!r}]); sys.exit(code or {heavy!r} in sys.modules)"
        )
        assert subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode == 0

    @pytest.mark.parametrize("unbuffered", ["", "1"])
    def test_a_reader_who_leaves_early_gets_no_traceback(self, unbuffered: str, tagged: Path) -> None:
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


class TestExport:
    def test_export_writes_model_and_sidecar_and_prints_the_result(
        self, project: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["export", "my_model.py::build", "-o", "out.onnx"]) == 0
        captured = capsys.readouterr()
        assert "out.onnx (dynamo), with out.hierarchy.json" in captured.out
        assert "4 nodes: traced 2, fused 2" in captured.out or "4 nodes: traced 4" in captured.out
        assert "the model was in training mode" in captured.out
        for stage in ("find the model", "build build", "export to out.onnx"):
            assert stage in captured.err
        attribution = storage.read(project / "out.onnx")
        assert {attribution.tag(node) for node in attribution.nodes} == {"/Net/Block.0", "/Net/Block.1"}

    def test_a_model_keeps_its_own_weights(self, project: Path) -> None:
        import numpy as np
        from onnx import numpy_helper

        assert main(["export", "my_model.py::build", "-o", "out.onnx", "--no-optimize"]) == 0
        weights = [numpy_helper.to_array(t) for t in storage.load_proto(project / "out.onnx").graph.initializer]
        assert any(np.all(weight == np.float32(0.25)) for weight in weights)

    def test_options_reach_the_exporter(self, project: Path) -> None:
        arguments = ["--opset", "19", "--tags", "metadata", "--external-data", "--keep", "torch.nn.Linear"]
        assert main(["export", "my_model.py::build", "-o", "out.onnx", "--exporter", "dynamo", *arguments]) == 0
        proto = storage.load_proto(project / "out.onnx")
        assert [opset.version for opset in proto.opset_import if not opset.domain] == [19]
        assert not any(node.doc_string for node in proto.graph.node)
        attribution = storage.read(project / "out.onnx", "metadata")
        assert "/Net/Block.0/Linear" in {attribution.tag(node) for node in attribution.nodes}

    def test_an_exporter_of_ones_own_serves_too(self, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
        source = """
            import pytest_hierexport

            def export(model, args, kwargs, path):
                pytest_hierexport.export(model, args, kwargs, path, opset=19)
        """
        (project / "own_exporter.py").write_text(textwrap.dedent(source))
        assert main(["export", "my_model.py::build", "-o", "out.onnx", "--exporter", "own_exporter:export"]) == 0
        assert "out.onnx (own_exporter:export)" in capsys.readouterr().out
        arguments = ["--exporter", "own_exporter:export", "--no-optimize"]
        assert main(["export", "my_model.py::build", "-o", "other.onnx", *arguments]) == 4
        assert "found --no-optimize" in capsys.readouterr().err
        assert not (project / "other.onnx").exists()


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert (ended.value.code, capsys.readouterr().out) == (0, f"hierexport {version('pytest-hierexport')}\n")


class TestErrors:
    @pytest.mark.parametrize(
        ("arguments", "code", "message"),
        [
            ([], 4, "the following arguments are required: COMMAND"),
            (["explain"], 4, "invalid choice"),
            (
                ["export", "my_model.py::build"],
                4,
                "arguments are required: -o/--output\nto do: give them as in",
            ),
            (["export", "no_such_model", "-o", "out.onnx"], 4, "no_such_model"),
            (["export", "my_model.py::biuld", "-o", "out.onnx"], 4, "build"),
            (["export", "my_model.py::broken", "-o", "out.onnx"], 4, "no such file: weights.bin"),
            (["export", "my_model.py::failing", "-o", "out.onnx"], 1, "to do:"),
            (["export", "my_model.py::build", "-o", "missing/out.onnx"], 1, "no missing"),
            (["export", "my_model.py::build", "-o", "my_model.py"], 4, "an ONNX file to replace"),
            (["export", "my_model.py::build", "-o", "."], 4, "found a folder"),
            (["export", "my_model.py::build", "-o", "out.onnx", "--tags", "everywhere"], 4, "everywhere"),
            (["export", "my_model.py::build", "-o", "out.onnx", "--keep", "torch.nn.Nothing"], 4, "torch.nn.Nothing"),
            (["export", "my_model.py::build", "-o", "out.onnx", "--opset", "999"], 4, "999"),
            (["export", "all", "-o", "out.onnx"], 4, "a selector of one model"),
            (["analyze", "plain.onnx", "--depth", "-1"], 4, "no whole number: -1"),
            (["analyze", "missing.onnx"], 4, "No such file"),
            (["analyze", "my_model.py"], 4, "to be an ONNX file"),
            (["analyze", "plain.onnx"], 1, "an ONNX model with tags"),
        ],
    )
    def test_a_failure_is_a_short_message_and_an_exit_code(
        self, project: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, message: str
    ) -> None:
        graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", [], [])
        (project / "plain.onnx").write_bytes(helper.make_model(graph, ir_version=10).SerializeToString())
        assert main(arguments) == code
        error = capsys.readouterr().err
        assert message in error
        assert "hierexport: expected" in error
        assert "Traceback" not in error
        assert "\\n" not in error
        assert sorted(path.name for path in project.glob("*.*")) == ["my_model.py", "plain.onnx"]

    def test_an_interrupt_is_no_failure_of_ours(
        self, tagged: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def interrupted(*_: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("pytest_hierexport._tools.analysis.analyze", interrupted)
        assert main(["analyze", str(tagged)]) == 130
        assert capsys.readouterr().err == ""


def test_python_dash_m_runs_the_command_line() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "pytest_hierexport", "--version"], capture_output=True, text=True, check=True
    )
    assert result.stdout == f"hierexport {version('pytest-hierexport')}\n"


@pytest.mark.parametrize("option", ["--tags=no", "--keep=torch.nn.NoSuch", "--node-names=x", "--exporter=no:one"])
def test_wrong_option_is_found_before_the_model_is_built(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text("def build():\n    raise SystemExit('built')\n")
    assert main(["export", "model.py::build", "-o", "out.onnx", option]) == 4
    assert "built" not in capsys.readouterr().err
    assert not (tmp_path / "out.onnx").exists()
