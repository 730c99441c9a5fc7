"""The command line: what it prints, where, and with which exit code."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import textwrap
from importlib.metadata import version
from pathlib import Path

import onnx
import pytest
from onnx import helper

from projects import WEIGHTS_IN_A_FOLDER
from pytest_hierexport._onnx import storage
from pytest_hierexport.cli import main
from test_hostile_files import nested, write

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
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "my_model.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    return tmp_path


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

    def test_own_exporter_with_weights_in_a_folder_repeats(self, project: Path) -> None:
        (project / "own_exporter.py").write_text(WEIGHTS_IN_A_FOLDER)
        arguments = ["export", "my_model.py::build", "-o", "out.onnx", "--exporter", "own_exporter:export"]
        for _ in range(2):
            assert main(arguments) == 0
            assert (project / "weights/all.bin").stat().st_size
            onnx.checker.check_model(project / "out.onnx")


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert (ended.value.code, capsys.readouterr().out) == (0, f"hierexport {version('pytest-hierexport')}\n")


class TestErrors:
    @pytest.mark.parametrize(("name", "code"), [("broken", 4), ("failing", 1)])
    def test_error_of_the_model_names_the_run_that_keeps_it(
        self, name: str, code: int, project: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["export", f"my_model.py::{name}", "-o", "out.onnx", "--opset", "20"]) == code
        (command,) = re.findall(r"; to keep its traceback: python (.*)\n$", capsys.readouterr().err)
        assert command.endswith("--hierexport-opset=20")
        run = [sys.executable, *shlex.split(command), "-n0", "-p", "no:cacheprovider"]
        subprocess.run(run, cwd=project, check=False, capture_output=True)
        assert "my_model.py" in (project / ".hierexport" / name / "traceback.txt").read_text()

    def test_strict_export_names_a_run_that_is_strict(self, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["export", "my_model.py::broken", "-o", "out.onnx", "--strict"]) == 4
        assert capsys.readouterr().err.endswith("--hierexport-models=my_model.py::broken --hierexport-strict\n")

    def test_no_run_is_named_that_would_build_the_weights(
        self, project: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["export", "my_model.py::broken", "-o", "out.onnx", "--no-weights"]) == 4
        assert "traceback" not in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("arguments", "code", "message"),
        [
            ([], 4, "the following arguments are required: COMMAND"),
            (["explain"], 4, "invalid choice"),
            (
                ["analyze", "plain.onnx", "--none"],
                4,
                "unrecognized arguments: --none\nto do: give them as in `hierexport analyze",
            ),
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
            (["export", "my_model.py::build", "-o", "my_model.py"], 4, "name ends in .onnx"),
            (["export", "my_model.py::build", "-o", "out.onnx", "--tags", "everywhere"], 4, "everywhere"),
            (["export", "my_model.py::build", "-o", "out.onnx", "--keep", "torch.nn.Nothing"], 4, "torch.nn.Nothing"),
            (["export", "my_model.py::build", "-o", "out.onnx", "--opset", "999"], 4, "999"),
            (["export", "all", "-o", "out.onnx"], 4, "a selector of one model"),
            (["analyze", "plain.onnx", "--depth", "-1"], 4, "not a whole number, 0 or more: -1"),
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


def test_file_that_cannot_be_written_is_a_short_message(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / ".github").touch()
    monkeypatch.setattr("pytest_hierexport.cli.init._snapshots", lambda *_: False)
    assert main(["init", "my_model.py::build"]) == 1
    error = capsys.readouterr().err
    assert "expected files that can be read and written; found " in error
    assert ".github" in error


def test_full_device_gives_one_message_and_no_traceback() -> None:
    with Path("/dev/full").open("wb") as full:
        result = subprocess.run(
            [sys.executable, "-m", "pytest_hierexport", "zoo"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert result.returncode == 1
    assert len(result.stderr.splitlines()) == 2
    assert "found No space left on device\n" in result.stderr


@pytest.mark.parametrize("command", [["zoo"], ["analyze", "m.onnx"]])
def test_closed_output_is_no_error(command: list[str], tmp_path: Path) -> None:
    write(tmp_path / "m.onnx", nested(1))
    closed = ["sh", "-c", 'exec "$0" -m pytest_hierexport "$@" >&-', sys.executable, *command]
    result = subprocess.run(closed, stderr=subprocess.PIPE, text=True, check=False, cwd=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")


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
