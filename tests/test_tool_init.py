"""`hierexport init`: a project that has never been checked, and what it has afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from projects import MODEL
from pytest_hierexport._cases import select
from pytest_hierexport._cases.manifest import read_selectors
from pytest_hierexport._cases.searching import read_sources
from pytest_hierexport._tools.starting import add_models, distinct_names, manifest_text, to_configure, workflow_of
from pytest_hierexport.cli import main
from pytest_hierexport.cli.init import _named

ROOT = Path(__file__).parent.parent
FOREIGN = b"caf\xe9.py"
"""A file's name that is not in UTF-8."""
NAMED = [f"{os.fsdecode(FOREIGN)}::build"]
UV = "python -m uv pip install --system --torch-backend cpu"
OTHER = """
import my_model

def build():
    raise SystemExit("a helper of the project that must not run")

def head():
    tower = my_model.Tower()
    tower = tower.eval()
    return {"model": tower, "args": my_model.torch.ones(1, 4)}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a repository with a model, to work in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    for name in [name for name in os.environ if name.startswith(("GITHUB_", "PYTEST_"))]:
        monkeypatch.delenv(name)
    (tmp_path / ".git").mkdir()
    (tmp_path / "my_model.py").write_text(MODEL)
    return tmp_path


def files(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file() and ".pytest_cache" not in path.parts)
    return {str(path.relative_to(folder)): path.read_bytes() for path in found if path.suffix not in {".pyc", ".log"}}


def test_new_project_has_what_its_workflow_then_checks(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "other.py").write_text(OTHER)
    (folder / "requirements.txt").touch()
    assert main(["init"]) == 0
    printed = capsys.readouterr().out
    assert "wrote models.toml: build, head\n" in printed
    assert "wrote the snapshot of build: 6 nodes, dynamo\n" in printed
    assert "git add models.toml __hierexport__ .github/workflows/hierexport.yml\n" in printed
    assert {"__hierexport__/build.txt", "__hierexport__/head.txt"} <= set(files(folder))
    workflow = yaml.safe_load((folder / ".github/workflows/hierexport.yml").read_text())
    install, run = (step["run"] for step in workflow["jobs"]["hierexport"]["steps"] if "run" in step)
    assert install.splitlines() == ["python -m pip install uv", f"{UV} pytest-hierexport -r requirements.txt"]
    environment = {
        **os.environ,
        "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTEST_ADDOPTS": "-k 'snapshot or MUST-002'",
    }
    checked = subprocess.run(["bash", "-eo", "pipefail", "-c", run], env=environment, check=False)
    assert checked.returncode == 0
    assert "| head | dynamo | 6 |" in (folder / "summary.md").read_text()


def test_results_of_steps_get_their_snapshots(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steps = 'after = ["onnxruntime:basic"]\n'
    entries = [f'[models.{name}]\nmodel = "my_model.py::build"\n{steps}' for name in ("whole", "empty")]
    (folder / "models.toml").write_text(f'{entries[0]}{entries[1]}weights = "none"\n')
    assert main(["init"]) == 0
    assert "no snapshot of empty@onnxruntime:basic: not run: no weights\n" in capsys.readouterr().out
    written = sorted(path.name for path in (folder / "__hierexport__").glob("*.txt"))
    assert written == ["empty.txt", "whole.txt", "whole@onnxruntime%3Abasic.txt"]


def test_second_init_changes_no_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "models.toml").write_text('[models.mine]\nmodel = "my_model.py::build"\n')
    (folder / "__hierexport__").mkdir()
    (folder / "__hierexport__" / "mine.txt").write_text("/Mine\n")
    (folder / ".github" / "workflows").mkdir(parents=True)
    (folder / ".github" / "workflows" / "hierexport.yml").write_text("on: push\n")
    before = files(folder)
    assert main(["init"]) == 0
    assert files(folder) == before
    assert main(["init", "my_model.py::build"]) == 0
    assert files(folder) == before
    printed = capsys.readouterr().out
    assert printed.count("kept") == 6
    assert "kept 1 snapshot in __hierexport__, which was there\n" in printed
    assert "read the snapshots" not in printed
    assert printed.count('add hierexport_models = ["models.toml"] to [tool.pytest.ini_options]') == 2
    (folder / "pytest.ini").write_text("[pytest]\nhierexport_models = models.toml\n")
    assert main(["init"]) == 0
    assert "hierexport_models" not in capsys.readouterr().out


def test_named_model_is_added_to_the_manifest(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = "# ours\r\n[models.mine]\r\nmodel = 'my_model.py::build'"
    (folder / "models.toml").write_bytes(kept.encode())
    (folder / "bad.py").write_text("def make():\n    raise ValueError('no weights')\n")
    assert main(["init", "my_model.py::build", "bad.py::make"]) == 1
    shown = capsys.readouterr()
    assert "added to models.toml: make\n" in shown.out
    assert "wrote the snapshot of mine: 6 nodes, dynamo\n" in shown.out
    assert "✓" not in shown.err
    added = '\n\n[models.make]\nmodel = "bad.py::make"\n'
    assert (folder / "models.toml").read_bytes().decode() == kept + added
    (folder / "other.py").write_text("def make(): ...\n")
    assert main(["init", "other.py::make"]) == 4
    assert "init NAME=other.py::make" in capsys.readouterr().err
    assert (folder / "models.toml").read_bytes().decode() == kept + added


def test_model_is_added_to_a_manifest_with_byte_order_mark(tmp_path: Path) -> None:
    manifest = tmp_path / "models.toml"
    manifest.write_text("[models.mine]\nmodel = 'my_model.py::build'\n", encoding="utf-8-sig")
    add_models(manifest, {"other": "other.py::make"})
    assert read_selectors(manifest) == {"mine": "my_model.py::build", "other": "other.py::make"}


@pytest.mark.parametrize(
    "kept", ["models = {mine = {model = 'my_model.py::build'}}\n", "[models]\nmine.model = 'm.py::b'\nx ="]
)
def test_manifest_that_takes_no_table_is_left_as_it_is(
    kept: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "models.toml").write_text(kept)
    (folder / "other.py").write_text("def make(): ...\n")
    before = sorted(folder.rglob("*"))
    assert main(["init", "other.py::make"]) == 4
    assert "models.toml" in capsys.readouterr().err
    assert (folder / "models.toml").read_text() == kept
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize(
    ("stated", "installed"),
    [
        ({}, ""),
        ({"pyproject.toml": "[tool.ruff]\n"}, ""),
        ({"pyproject.toml": "[project]\nname = 'x'\n"}, " -r pyproject.toml"),
        ({"pyproject.toml": "[project]\nname = 'x'\n[build-system]\n"}, " ."),
        ({"setup.py": "", "requirements.txt": ""}, " -r requirements.txt ."),
    ],
)
def test_workflow_installs_what_the_project_states(stated: dict[str, str], installed: str, tmp_path: Path) -> None:
    for name, text in stated.items():
        (tmp_path / name).write_text(text)
    (install, _) = (
        step["run"]
        for step in yaml.safe_load(workflow_of(tmp_path).text)["jobs"]["hierexport"]["steps"]
        if "run" in step
    )
    assert install.splitlines()[-1] == f"{UV} pytest-hierexport{installed}"


@pytest.mark.parametrize(
    ("recorded", "installed"),
    [
        (None, "pytest-hierexport"),
        ('{"url": "file:///home/me/source", "dir_info": {}}', "pytest-hierexport"),
        ('{"url": "https://x.org/a.whl", "archive_info": {}}', "https://x.org/a.whl"),
        ('{"url": "https://x.org/a", "vcs_info": {"vcs": "git", "commit_id": "0a1b"}}', "git+https://x.org/a@0a1b"),
    ],
)
def test_workflow_installs_the_package_from_where_it_came(
    recorded: str | None, installed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = SimpleNamespace(read_text=lambda _: recorded)
    monkeypatch.setattr("importlib.metadata.distribution", lambda _: found)
    assert f"{UV} {installed}\n" in workflow_of(tmp_path).text


def test_workflow_of_a_checkpoint_installs_transformers(folder: Path) -> None:
    (folder / "tiny").mkdir()
    (folder / "tiny" / "config.json").write_text('{"model_type": "bert"}')
    (folder / "__hierexport__").mkdir()
    (folder / "__hierexport__" / "tiny.txt").touch()
    (folder / "requirements.txt").touch()
    assert main(["init", "tiny"]) == 0
    installed = f"{UV} pytest-hierexport transformers -r requirements.txt\n"
    assert installed in (folder / ".github/workflows/hierexport.yml").read_text()


def test_uv_knows_the_options_of_the_workflow() -> None:
    shown = subprocess.run([sys.executable, "-m", *UV.split()[2:], "--help"], capture_output=True, check=False)
    assert shown.returncode == 0


def test_model_that_cannot_be_exported_is_shown_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "bad.py").write_text("def make():\n    raise ValueError('no weights')\n")
    assert main(["init", "bad.py::make"]) == 1
    printed = capsys.readouterr().out
    assert printed.count("no weights") == 1
    assert "fix the models above" in printed
    assert '[models.make]\nmodel = "bad.py::make"\n' in (folder / "models.toml").read_text()


def test_output_of_pytest_may_be_in_any_encoding(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "conftest.py").write_text("import atexit, os\natexit.register(os.write, 2, b'\\xff')\n")
    assert main(["init"]) == 0
    assert "wrote the snapshot of build" in capsys.readouterr().out


def test_options_of_the_project_do_not_leave_out_its_models(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -m 'not hierexport'\n")
    assert main(["init"]) == 0
    assert "wrote the snapshot of build" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("stated", "shown"),
    [
        ({}, 'hierexport_models = ["models.toml"] to [tool.pytest.ini_options]'),
        ({"pyproject.toml": "[tool.pytest]"}, 'hierexport_models = ["models.toml"] to [tool.pytest]'),
        ({"pyproject.toml": "[tool.pytest.ini_options]\nhierexport_models = 1"}, ""),
        ({"pytest.ini": ""}, "hierexport_models = models.toml to [pytest] of pytest.ini"),
        (
            {"pytest.ini": "", "pyproject.toml": "[tool.pytest.ini_options]\nhierexport_models = 1"},
            "hierexport_models = models.toml to [pytest] of pytest.ini",
        ),
        (
            {"tox.ini": "[tox]", "setup.cfg": "[tool:pytest]"},
            "hierexport_models = models.toml to [tool:pytest] of setup.cfg",
        ),
    ],
)
def test_line_for_a_plain_pytest_goes_where_pytest_reads_it(tmp_path: Path, stated: dict[str, str], shown: str) -> None:
    for name, text in stated.items():
        (tmp_path / name).write_text(text)
    assert to_configure(tmp_path) == shown


def test_project_without_a_factory_gets_no_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "my_model.py").write_text(MODEL.replace("def build():", "def build(width):"))
    before = files(folder)
    assert main(["init"]) == 4
    assert files(folder) == before
    shown = capsys.readouterr().err
    assert "found none in 1 Python file; modules there: Block, Tower" in shown
    (folder / "package").mkdir()
    assert main(["init", "package"]) == 4
    assert "or a function: file.py::factory" in capsys.readouterr().err
    assert "hierexport init my_model.py::build" in shown


SOURCES = """
import torch
import torch.nn as layers
from torch import nn
from torch.nn import Linear, Module
from pytest_hierexport import Example
from .base import Base

class Net(Base): ...
class Plain: ...

def pair(): return Net(), (1,)
def chained(width=3): return nn.Sequential(Linear(width, 1)).eval().half(), (1,)
def renamed():
    net = layers.Linear(3, 3)
    net.eval()
    return net, torch.ones(3)
def mapping(): return {"model": Net(), "kwargs": {}}
def called_mapping(): return dict(model=Net(), args=(1,))
def example(): return Example(Net(), (1,))
def named(): return Example(model=Net(), args=(1,))
def typed():
    net: Module = Net()
    return net, (1,)
def wrapped(): return layers.utils.parametrizations.weight_norm(Linear(3, 1)), (1,)
def of_class_method(): return Net.from_config(3).eval(), (1,)
def one_of_two(flag=True):
    if flag:
        return Net(), (1,)
    return None

def needs_an_argument(width): return Net(), (1,)
def model_alone(): return Net()
def other_class(): return Plain(), (1,)
def other_method(): return Plain.from_config(3), (1,)
def unknown(): return make(), (1,)
def batch(): return nn.functional.one_hot(torch.arange(3)), torch.ones(3)
def circular():
    a = b
    b = a
    return a, 1
def empty(): return {}
def _private(): return Net(), (1,)
@fixture
def decorated(): return Net(), (1,)
"""


def test_search_finds_what_returns_a_module_with_inputs(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "nets.py").write_text(SOURCES)
    (tmp_path / "package" / "base.py").write_text("from torch import nn\nclass Base(nn.Module): ...\n")
    (tmp_path / "broken.py").write_text("def (")
    (tmp_path / "env" / "lib").mkdir(parents=True)
    (tmp_path / "env" / "pyvenv.cfg").touch()
    (tmp_path / "env" / "lib" / "found.py").write_text(SOURCES)
    found = ["pair", "chained", "renamed", "mapping", "called_mapping", "example", "named", "typed", "wrapped"]
    found += ["of_class_method", "one_of_two"]
    assert read_sources(tmp_path).factories() == [f"package/nets.py::{name}" for name in found]


def test_search_leaves_out_what_building_the_project_copied(tmp_path: Path) -> None:
    for folder in ("package", "build/lib/package"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "nets.py").write_text("from torch import nn\ndef net(): return nn.Linear(3, 1), (1,)\n")
    assert read_sources(tmp_path).factories() == ["package/nets.py::net"]


def test_equal_function_names_are_told_apart_by_their_files() -> None:
    selectors = ["a/net.py::build", "b/net.py::build", "b/head.py::build", "b/head.py::make"]
    assert list(distinct_names(selectors)) == ["a.net.build", "b.net.build", "head.build", "make"]


def test_equal_names_of_any_selector_are_told_apart() -> None:
    assert list(distinct_names(["pkg.enc:build", "pkg.dec:build"])) == ["enc.build", "dec.build"]
    assert list(distinct_names(["a/final-1.5", "b/final-1.5", "final-1.5"])) == [
        "a.final-1.5",
        "b.final-1.5",
        "final-1.5",
    ]


def test_models_of_one_name_and_place_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "other.py").write_text("def build(): ...\n")
    for models in (["my_model.py::build", "my_model:build"], ["x=my_model.py::build", "x=other.py::build"]):
        assert main(["init", *models]) == 4
        error = capsys.readouterr().err
        assert "a different name for each model; found " in error
        assert "NAME=SELECTOR" in error
    assert not (folder / "models.toml").exists()


def test_given_name_stays_beside_equal_names(folder: Path) -> None:
    (folder / "other.py").write_text("def build(): ...\n")
    cases = ["mine=my_model.py::build", "my_model.py::build", "other.py::build"]
    assert _named(cases, folder) == dict(zip(["mine", "my_model.build", "other.build"], cases, strict=True))


@pytest.mark.parametrize(
    ("selectors", "there"),
    [([], None), (NAMED, None), (NAMED, "[models.one]\nmodel = 'my_model.py::build'\n")],
    ids=["found", "named", "added"],
)
def test_file_name_outside_utf_8_is_refused_in_words(
    folder: Path, capsys: pytest.CaptureFixture[str], selectors: list[str], there: str | None
) -> None:
    (folder / os.fsdecode(FOREIGN)).write_text(MODEL)
    if there:
        (folder / "models.toml").write_text(there)
    before = files(folder)
    assert main(["init", *selectors]) == 4
    assert "expected models whose files have names in UTF-8; found caf\\udce9.py::build" in capsys.readouterr().err
    assert files(folder) == before


def test_any_name_and_path_reads_back_from_the_manifest(tmp_path: Path) -> None:
    file = tmp_path / 'a "b"\\c\x7f.py'
    file.write_text("def build(): ...\n")
    (tmp_path / "models.toml").write_text(manifest_text({"größe.1": f"{file.name}::build"}), encoding="utf-8")
    (case,) = select(["models.toml"], tmp_path)
    assert (case.name, case.factory.args[0]) == ("größe.1", file)  # type: ignore[attr-defined]  # a partial


def test_workflow_of_a_folder_in_a_repository_runs_there(tmp_path: Path) -> None:
    below = tmp_path / "models" / "a: b"
    below.mkdir(parents=True)
    (tmp_path / ".git").touch()
    workflow = workflow_of(below)
    assert workflow.path == tmp_path / ".github" / "workflows" / "hierexport.yml"
    job = yaml.safe_load(workflow.text)["jobs"]["hierexport"]
    assert job["defaults"]["run"]["working-directory"] == "models/a: b"
    assert "models/a: b/hierexport.html\n" in job["steps"][-1]["with"]["path"]


def test_repository_of_gitlab_gets_a_job_to_include(tmp_path: Path) -> None:
    below = tmp_path / "a: b"
    below.mkdir()
    (tmp_path / ".git").touch()
    (tmp_path / ".gitlab-ci.yml").touch()
    (below / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    workflow = workflow_of(below)
    assert workflow.path == tmp_path / ".gitlab" / "hierexport.yml"
    assert workflow.to_do == "add to .gitlab-ci.yml: include: [.gitlab/hierexport.yml]"
    job = yaml.safe_load(workflow.text)["hierexport"]
    enter, uv, install, run = job["script"]
    assert (enter, uv) == ("cd 'a: b'", "python -m pip install uv")
    assert install == f"{UV} pytest-hierexport -r pyproject.toml"
    assert run.startswith("python -m pytest models.toml -m hierexport --hierexport-models=models.toml ")
    assert job["artifacts"]["reports"]["junit"] == "a: b/hierexport.xml"
