"""Runs what CI systems would run of the files that projects take from here, with GitHub's and GitLab's environment."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from projects import MODEL

ROOT = Path(__file__).parent.parent
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
GITLAB = yaml.safe_load((ROOT / "templates" / "gitlab-ci.yml").read_text(encoding="utf-8"))
EXPRESSION = re.compile(r"\$\{\{(.*?)\}\}")
# What comes after `-m pip` needs the network: it is written down instead.
PYTHON = f"""#!/bin/bash
if [ "$2" = pip ]; then printf '%s\\n' "${{@:3}}" > pip.txt; exit; fi
exec {sys.executable} "$@"
"""
INJECTED = '$(touch injected) `touch injected` "; touch injected; "'


class Job:
    """A scratch project, and the shell of a CI system in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "my_model.py").write_text(MODEL)
        (folder / "bin").mkdir()
        python = folder / "bin" / "python"
        python.write_text(PYTHON)
        python.chmod(0o755)
        for name in ("outputs", "step_summary"):
            (folder / name).touch()

    def run(self, script: str, env: Mapping[str, str], *shell: str) -> int:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "PYTEST_", "CI"))}
        path = f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        environment = {**kept, "PATH": path, "PYTHONPATH": str(ROOT), **env}
        (self.folder / "script").write_text(script)
        done = subprocess.run([*shell, "script"], cwd=self.folder, env=environment, check=False)
        return done.returncode

    def step(self, name: str, **inputs: str) -> int:
        """Run a step of the action as GitHub does."""
        step = next(step for step in ACTION["runs"]["steps"] if step.get("name") == name)
        assert step["shell"] == "bash"
        values = {key: declared["default"] for key, declared in ACTION["inputs"].items()} | inputs
        known = {f"inputs.{key}": value for key, value in values.items()} | {"github.action_path": str(ROOT)}
        env = {key: EXPRESSION.sub(lambda found: known[found[1].strip()], value) for key, value in step["env"].items()}
        github = {
            "GITHUB_ACTION": "hierexport",
            "GITHUB_OUTPUT": str(self.folder / "outputs"),
            "GITHUB_STEP_SUMMARY": str(self.folder / "step_summary"),
            "RUNNER_TEMP": str(self.folder),
        }
        return self.run(step["run"], {**env, **github}, "bash", "--noprofile", "--norc", "-eo", "pipefail")

    def gitlab(self, **variables: str) -> int:
        """Run the script of the template's job as GitLab does."""
        job = GITLAB[".hierexport"]
        return self.run("\n".join(job["script"]), {**job["variables"], **variables}, "sh", "-e")

    def text(self, name: str) -> str:
        return (self.folder / name).read_text(encoding="utf-8")

    def has(self, name: str) -> bool:
        return (self.folder / name).exists()


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


def test_no_expression_is_part_of_a_command() -> None:
    steps = [step for step in ACTION["runs"]["steps"] if "run" in step]
    assert len(steps) == 2
    assert not [step for step in steps if EXPRESSION.search(step["run"])]


def test_every_input_of_the_action_is_used_and_described() -> None:
    used = set(re.findall(r"inputs\.([a-z-]+)", str(ACTION["runs"])))
    assert used == set(ACTION["inputs"])
    described = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `([a-z-]+)` \|", described, re.MULTILINE)) == used


def test_action_installs_the_package_and_quoted_arguments(job: Job) -> None:
    assert job.step("Install", install="-r 'my requirements.txt'\ntorch") == 0
    assert job.text("pip.txt").splitlines() == ["install", str(ROOT), "-r", "my requirements.txt", "torch"]


def test_action_installs_the_package_alone_by_default(job: Job) -> None:
    assert job.step("Install") == 0
    assert job.text("pip.txt").splitlines() == ["install", str(ROOT)]


def test_hostile_inputs_of_the_action_run_no_command(job: Job) -> None:
    assert job.step("Install", install=INJECTED) == 0
    values = dict.fromkeys(("models", "args", "cache", "shard", "report", "require-snapshots"), INJECTED)
    assert job.step("Run", **values) != 0
    assert not job.has("injected")


def test_action_runs_the_models_with_its_inputs(job: Job) -> None:
    code = job.step(
        "Run",
        models="my_model.py::build\n",
        args="-k 'MUST-002 or snapshot' --snapshot-update",
        shard="1/1",
        report="shard.json",
    )
    assert code == 0
    assert job.has("shard.json")
    assert job.has("__hierexport__/build.txt")
    assert list((job.folder / ".hierexport" / "cache").iterdir())
    assert "| build | dynamo | 6 |" in job.text("step_summary")
    outputs = dict(line.split("=", 1) for line in job.text("outputs").splitlines())
    assert outputs["artifact"] == "hierexport-1-1"
    assert "| build | dynamo | 6 |" in Path(outputs["summary"]).read_text(encoding="utf-8")


def test_action_fails_with_a_missing_snapshot_and_shows_it(job: Job) -> None:
    assert job.step("Run", models="my_model.py::build", args="-k snapshot", cache="") == 1
    assert "build has no snapshot" in job.text("step_summary")
    assert job.has("hierexport.html")
    assert not job.has(".hierexport/cache")


def test_action_requires_no_snapshots_where_told(job: Job) -> None:
    inputs = {"models": "my_model.py::build", "args": "-k snapshot", "cache": "", "require-snapshots": "false"}
    assert job.step("Run", **inputs) == 0


def test_gitlab_job_installs_and_runs_the_models(job: Job) -> None:
    arguments = "-k 'MUST-002 or snapshot' --snapshot-update"
    code = job.gitlab(HIEREXPORT_MODELS="my_model.py::build", HIEREXPORT_ARGS=arguments, HIEREXPORT_INSTALL="'a b' c")
    assert code == 0
    assert job.text("pip.txt").splitlines() == ["install", "a b", "c"]
    assert all(map(job.has, ("hierexport.html", "hierexport.xml", "__hierexport__/build.txt", ".hierexport/cache")))


def test_gitlab_job_shards_by_the_jobs_own_number(job: Job) -> None:
    (job.folder / "other.py").write_text(MODEL.replace("def build", "def other"))
    variables = {"HIEREXPORT_MODELS": "my_model.py::build\nother.py::other\n", "HIEREXPORT_ARGS": "-k MUST-002"}
    parts = {"HIEREXPORT_SHARD": "auto", "CI_NODE_INDEX": "2", "CI_NODE_TOTAL": "2", "GITLAB_CI": "true"}
    assert job.gitlab(**variables, **parts, HIEREXPORT_INSTALL="none", HIEREXPORT_REPORT="hierexport-2.json") == 0
    report: dict[str, Any] = yaml.safe_load(job.text("hierexport-2.json"))
    assert report["shard"]["index"] == 2
    assert len(report["models"]) == 1
    assert not job.has("pip.txt")


def test_hostile_variables_of_the_gitlab_job_run_no_command(job: Job) -> None:
    names = [name for name in GITLAB[".hierexport"]["variables"] if name != "HIEREXPORT_INSTALL"]
    assert job.gitlab(**dict.fromkeys(names, INJECTED), HIEREXPORT_INSTALL=INJECTED) != 0
    assert not job.has("injected")


@pytest.fixture(scope="module")
def hook_repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a repository with the hook as pre-commit would fetch it, by a commit."""
    folder = tmp_path_factory.mktemp("hook")
    shutil.copy(ROOT / ".pre-commit-hooks.yaml", folder)
    _git(folder, "init", "-q")
    _git(folder, "add", ".")
    _git(folder, "commit", "-qm", "The hook")
    return folder


def _git(folder: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", *identity, *arguments]
    return subprocess.run(command, cwd=folder, env={**kept, **env}, capture_output=True, text=True, check=False)


def test_commit_that_changes_a_hierarchy_is_stopped_by_the_hook(tmp_path: Path, hook_repository: Path) -> None:
    pytest.importorskip("pre_commit")
    revision = _git(hook_repository, "rev-parse", "HEAD").stdout.strip()
    config = f"""
    repos:
      - repo: {hook_repository}
        rev: {revision}
        hooks:
          - id: hierexport
            args: [--hierexport-models=my_model.py::build, -k, MUST-002 or snapshot]
    """
    (tmp_path / ".pre-commit-config.yaml").write_text(textwrap.dedent(config))
    model, snapshot = tmp_path / "my_model.py", tmp_path / "__hierexport__" / "build.txt"
    model.write_text(MODEL)
    snapshot.parent.mkdir()
    snapshot.write_text("/Tower\n/Tower/Block.{0..2} ×3: Gemm 1, Relu 1\n")
    env = {
        "PRE_COMMIT_HOME": str(tmp_path / ".home"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
    }
    (tmp_path / ".gitignore").write_text(".home\n.hierexport\n*.log\n")
    _git(tmp_path, "init", "-q")
    installed = subprocess.run(
        [sys.executable, "-m", "pre_commit", "install"], cwd=tmp_path, env={**os.environ, **env}, check=False
    )
    assert installed.returncode == 0
    _git(tmp_path, "add", ".")
    good = _git(tmp_path, "commit", "-m", "A model", **env)
    assert good.returncode == 0, good.stderr + good.stdout
    model.write_text(MODEL.replace("torch.relu", "torch.tanh"))
    _git(tmp_path, "add", ".")
    stopped = _git(tmp_path, "commit", "-m", "Another operator", **env)
    assert stopped.returncode == 1
    assert "~ /Tower/Block.{0..2}: Relu 1 → 0, Tanh 0 → 1" in stopped.stderr + stopped.stdout
    assert _git(tmp_path, "log", "--format=%s").stdout.split("\n")[0] == "A model"
