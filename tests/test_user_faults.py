"""Faults that users met, tried as they met them: through pytest, the command line and public names alone."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from onnx import TensorProto, helper
from torch import nn
from transformers import PretrainedConfig, PreTrainedModel

from projects import Project
from pytest_hierexport import ExportError, cli, export

X = torch.linspace(-1, 1, 8).reshape(2, 4)
ANY_MODEL = "--hierexport-models=my_model.py::build"

COMPILED = """
import torch
from my_model import Tower

INPUTS = (torch.ones(2, 4),)

def traced():
    return torch.jit.trace(Tower().eval(), INPUTS), INPUTS

def scripted():
    return torch.jit.script(Tower().eval()), INPUTS

def program():
    return torch.export.export(Tower().eval(), INPUTS), INPUTS
"""

EXPORTER = """
import pytest_hierexport
import neighbour

def export(model, args, kwargs, path):
    pytest_hierexport.export(model, args, kwargs, path)

def unused(y):
    return {unused}
"""

NEIGHBOUR = """
def is_block(module):
    return type(module).__name__ == "Block"
"""


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.lin(x))


class Net(nn.Module):
    """Two lists of blocks of one class."""

    def __init__(self, encoders: int, decoders: int) -> None:
        super().__init__()
        self.encoder = nn.ModuleList(Block() for _ in range(encoders))
        self.decoder = nn.ModuleList(Block() for _ in range(decoders))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in (*self.encoder, *self.decoder):
            x = block(x)
        return x


class Branching(PreTrainedModel):
    """A model of transformers that dynamo cannot capture."""

    config_class = PretrainedConfig

    def __init__(self) -> None:
        super().__init__(PretrainedConfig())
        self.lin = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.lin(x) if x.sum() > 0 else x


class Tied(nn.Module):
    """Two linear modules with one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = Block(), Block()
        self.two.lin.weight = self.one.lin.weight

    def forward(self, x: torch.Tensor) -> Any:
        return self.two(self.one(x))


@pytest.mark.parametrize(("before", "after"), [((2, 3), (3, 3)), ((1, 2), (2, 2))])
def test_no_tag_moves_to_another_layer(before: tuple[int, int], after: tuple[int, int]) -> None:
    old, new = paths_by_tag(*before), paths_by_tag(*after)
    moved = {tag: (old[tag], new[tag]) for tag in old.keys() & new.keys() if old[tag] != new[tag]}
    assert not [tag for tag, (path, _) in moved.items() if path in new.values()]


def paths_by_tag(encoders: int, decoders: int) -> dict[str, str]:
    hierarchy = export(Net(encoders, decoders).eval(), (X,)).attribution.hierarchy
    return {hierarchy.tag(name): name for name in hierarchy if hierarchy.is_kept(name)}


IMPORT_TWICE = """
import pytest_hierexport, types

for name in pytest_hierexport.__all__:
    one, two = {}, {}
    exec(f"from pytest_hierexport import {name}", one)
    exec(f"from pytest_hierexport import {name}", two)
    assert one[name] is two[name], name
    assert not isinstance(one[name], types.ModuleType), name
"""


def test_no_public_name_gives_a_module() -> None:
    assert subprocess.run([sys.executable, "-c", IMPORT_TWICE], check=False).returncode == 0


@pytest.mark.parametrize("factory", ["traced", "scripted", "program"])
def test_a_compiled_model_of_a_factory_is_refused_in_words(project: Project, factory: str) -> None:
    project.write("compiled.py", COMPILED)
    result = project.run(f"--hierexport-models=compiled.py::{factory}", "-k", "MUST-002", "-W", "ignore")
    assert result.parseoutcomes()["failed"] == 1
    (found,) = {line for line in result.outlines if line.startswith("  found ")}
    assert "TorchScript compiled the model" in found or "a program has no modules" in found
    assert "Error: " not in found


def test_a_fault_of_ours_is_no_reason_for_another_capture(
    monkeypatch: pytest.MonkeyPatch, hub_exporter: type[Any]
) -> None:
    monkeypatch.setattr(hub_exporter, "export", lambda *_, **__: object())
    model: nn.Module = Branching().eval()  # type: ignore[no-untyped-call]
    with pytest.raises(ExportError, match="a fault of its own: AttributeError"):
        export(model, (X,))


def with_exporter(project: Project, unused: str) -> pytest.RunResult:
    """Check an exporter that is installed beside another package."""
    project.write("site-packages/mine/__init__.py", "")
    project.write("site-packages/mine/exporter.py", EXPORTER.format(unused=unused))
    project.write("site-packages/neighbour/__init__.py", NEIGHBOUR)
    own = ("-o", "pythonpath=site-packages", "--hierexport-exporter=mine.exporter:export")
    return project.run(ANY_MODEL, *own, "-k", "MUST-001")


def test_packages_beside_an_installed_exporter_break_no_rule(project: Project) -> None:
    assert with_exporter(project, "y").parseoutcomes() == {"passed": 1, "deselected": 10}


def test_an_exporter_that_nests_too_deeply_is_told_so(project: Project) -> None:
    result = with_exporter(project, " + ".join(["y"] * 900))
    assert result.parseoutcomes()["failed"] == 1
    result.stdout.fnmatch_lines(["*exporter.py*nest too deeply*"])
    assert "RecursionError" not in result.stdout.str()


def test_analyze_counts_a_shared_parameter_once(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    path = project.path / "model.onnx"
    model = Tied().eval()
    export(model, (X,), path=path)
    assert cli.main(["analyze", str(path), "--json"]) == 0
    assert f": {sum(parameter.numel() for parameter in model.parameters())}" in capsys.readouterr().out


def write_hostile(path: Path, depth: int, operator: str) -> str:
    """Write a file of one node and a chain of calls, each made by the one before; return the path."""
    names = ["", *(f"call{i}" for i in range(depth))]
    calls = {"": [None, "m.Net"], **{name: [caller, "m.Block"] for caller, name in pairwise(names)}}
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in ("x", "y")]
    node = helper.make_node(operator, ["x"], ["y"])
    model = helper.make_model(helper.make_graph([node], "g", values[:1], values[1:]), ir_version=10)
    model.metadata_props.add(key="hierexport.format", value="1")
    model.metadata_props.add(key="hierexport.calls", value=json.dumps(calls))
    model.graph.node[0].metadata_props.add(key="hierexport.tag", value="/Net")
    model.graph.node[0].metadata_props.add(key="hierexport.origins", value='[["","traced"]]')
    path.write_bytes(model.SerializeToString())
    return str(path)


@pytest.mark.parametrize("depth", [1_200, 20_000])
def test_analyze_takes_calls_of_any_depth(tmp_path: Path, depth: int, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_hostile(tmp_path / "model.onnx", depth, "Neg")
    assert cli.main(["analyze", path]) == 0
    assert "Net" in capsys.readouterr().out


def test_analyze_survives_dimensions_that_no_tensor_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "model.onnx"
    export(Tied().eval(), (X,), path=path)
    sidecar = path.with_name("model.hierarchy.json")
    document = json.loads(sidecar.read_text())
    document["modules"][-1]["parameters"] = [
        {"name": "any", "shape": [2**62] * 10_000, "dtype": "float32", "trainable": True}
    ]
    sidecar.write_text(json.dumps(document))
    assert cli.main(["analyze", str(path)]) in {0, 1}
    assert len(capsys.readouterr().err.splitlines()) <= 1


def test_an_operator_reaches_the_terminal_without_its_escapes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_hostile(tmp_path / "\x1b[31mmodel.onnx", 0, "\x1b[31mNeg")
    assert cli.main(["analyze", path]) == 0
    assert "\x1b" not in capsys.readouterr().out


WAITS = """
import time
from pathlib import Path

def build():
    Path(__file__).with_name("waits").touch()
    time.sleep(600)
"""


def test_sigterm_leaves_nothing_in_the_temporary_folder(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.write("waits.py", WAITS)
    temporary = project.path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--hierexport-models=waits.py::build"]
    with subprocess.Popen(command, cwd=project.path, stdout=subprocess.DEVNULL) as process:
        while not (project.path / "waits").exists() and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert process.wait(300) == 128 + signal.SIGTERM
    assert not list(temporary.glob("hierexport*"))


def without_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "onnxruntime"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)


def test_missing_runtime_breaks_no_rule(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    without_runtime(monkeypatch)
    result = project.run(ANY_MODEL, "-k", "MUST-004 or MUST-006 or MUST-007")
    result.stdout.fnmatch_lines_random(
        [
            *(f"build: MUST-00{number} could not be checked" for number in (4, 6, 7)),
            "*found *onnxruntime cannot be imported (ModuleNotFoundError: *",
            "*to do *reinstall it (onnxruntime, *",
        ]
    )
    assert "Traceback" not in result.stdout.str()
    assert "breaks it" not in result.stdout.str()


def test_commands_tell_of_a_missing_runtime(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, model = tmp_path / "net.onnx", tmp_path / "models.py"
    export(Net(1, 1), (X,), path=path)
    text = "import torch\ndef build():\n    return torch.nn.Linear(4, 4), (torch.ones(2, 4),)\n"
    model.write_text(text, encoding="utf-8")
    without_runtime(monkeypatch)
    monkeypatch.syspath_prepend(str(tmp_path))
    for command in (
        ["profile", str(path)],
        ["validate", str(path)],
        ["diverge", str(path), "--model", f"{model}::build"],
        ["analyze", str(path), "--contamination", f"{model}::build"],
        ["extract", str(path), "encoder.0", "-o", str(tmp_path / "part.onnx"), "--model", f"{model}::build"],
        ["select", str(path), "Block", "--format", "nodes_to_exclude"],
    ):
        assert cli.main(command) == 4, command
        assert "onnxruntime cannot be imported" in capsys.readouterr().err, command


OUTCOMES = """
import pytest
import torch

X = (torch.ones(2, 4),)

class Raises(torch.nn.Module):
    def __init__(self, error):
        super().__init__()
        self.error = error

    def forward(self, x):
        raise self.error

def skips():
    pytest.skip("needs a GPU")

def lacks():
    pytest.importorskip("no_such_package", reason="needs a GPU")

def skips_later():
    return Raises(pytest.skip.Exception("needs a GPU")), X

def fails():
    pytest.fail("my own words")

def fails_later():
    return Raises(pytest.fail.Exception("my own words")), X

def raises():
    return Raises(BaseException("my own words")), X

def exits():
    return Raises(SystemExit("my own words")), X

def interrupts():
    return Raises(KeyboardInterrupt()), X
"""


@pytest.mark.parametrize("factory", ["skips", "lacks", "skips_later"])
def test_model_that_skips_has_all_its_tests_skipped(project: Project, factory: str) -> None:
    project.write("outcomes.py", OUTCOMES)
    result = project.run(f"--hierexport-models=outcomes.py::{factory}", "--hierexport-fast", "-rs")
    assert set(result.parseoutcomes()) == {"skipped"}
    result.stdout.fnmatch_lines([f"{factory}: skipped: needs a GPU", "SKIPPED * skipped: needs a GPU"])
    assert result.stdout.str().count("needs a GPU") == 2


def test_export_in_a_test_of_the_users_lets_it_skip(project: Project) -> None:
    project.write("outcomes.py", OUTCOMES)
    project.write(
        "test_own.py",
        """
        import outcomes

        def test_own(hierexport):
            hierexport(*outcomes.skips_later())
        """,
    )
    project.run("test_own.py").assert_outcomes(skipped=1)


@pytest.mark.parametrize("factory", ["fails", "fails_later", "raises"])
def test_model_that_ends_its_test_fails_in_its_own_words(project: Project, factory: str) -> None:
    project.write("outcomes.py", OUTCOMES)
    result = project.run(f"--hierexport-models=outcomes.py::{factory}", "-k", "MUST-002 or MUST-003")
    assert result.parseoutcomes()["failed"] == 1
    result.stdout.fnmatch_lines(["  found *my own words (outcomes.py, line *)"])


@pytest.mark.parametrize(
    ("factory", "code", "words"),
    [("skips", 1, "needs a GPU"), ("interrupts", 130, "")]
    + [(name, 1, "my own words") for name in ("fails_later", "raises", "exits")],
)
def test_command_tells_what_ends_a_test(
    project: Project, factory: str, code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    model = project.write("outcomes.py", OUTCOMES)
    assert cli.main(["export", f"{model}::{factory}", "-o", "model.onnx"]) == code
    assert words in capsys.readouterr().err
