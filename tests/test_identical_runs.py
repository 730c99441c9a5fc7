"""Snapshots and reports are the same bytes, times aside, however a run is spread and in whatever order sets iterate."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from projects import Project
from pytest_hierexport.cli import main

FACTORIES = """
import torch
from my_model import Block, Tower

class Shared(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.block, self.norm = Block(), torch.nn.LayerNorm(4)

    def forward(self, x):
        return self.norm(self.block(self.block(x))) + self.block(x)

def tower():
    return Tower().eval(), (torch.ones(2, 4),)

def shared():
    return Shared().eval(), (torch.randn(2, 4),)

def broken():
    raise ValueError("no weights")
"""
TIMES = {"seconds", "stages", "started", "ended", "shard", "start", "stop", "duration"}
FAST = ("--hierexport-fast", "--snapshot-update")
"""The rules that read the file, and new snapshots."""
NAMES = ("tower", "shared", "broken")


@pytest.fixture
def three(project: Project) -> Project:
    """Give a project of two models and one that cannot be built."""
    project.write("factories.py", FACTORIES)
    project.write("models.toml", "".join(f'[models.{name}]\nmodel = "factories.py::{name}"\n' for name in NAMES))
    return project


def run(project: Project, name: str, *arguments: str) -> None:
    """Run rules, and write reports of this name, and keep its snapshots."""
    reports = (
        f"--hierexport-report={name}.json",
        f"--hierexport-report={name}.html",
        f"--hierexport-report={name}.ctrf.json",
        f"--hierexport-summary={name}.md",
    )
    result = project.process("--hierexport-models=models.toml", *reports, *arguments)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    (project.path / "__hierexport__").rename(project.path / f"snapshots-{name}")


def timeless(content: Any) -> Any:
    """Return the content of a report without its times."""
    if isinstance(content, dict):
        return {key: timeless(value) for key, value in content.items() if key not in TIMES}
    return [timeless(each) for each in content] if isinstance(content, list) else content


def written(project: Project, name: str) -> dict[str, str]:
    """Return what a run wrote, by the name of the file, without times."""
    folder: Path = project.path / f"snapshots-{name}"
    snapshots = {file.name: file.read_text() for file in folder.iterdir()}
    report, ctrf = (
        json.dumps(timeless(json.loads((project.path / f"{name}{kind}").read_text())))
        for kind in (".json", ".ctrf.json")
    )
    page = timeless_page((project.path / f"{name}.html").read_text())
    return {**snapshots, "json": report, "ctrf": ctrf, "html": page, "md": (project.path / f"{name}.md").read_text()}


def timeless_page(page: str) -> str:
    """Return a page without the times in its data."""
    before, start, rest = page.partition('id="data">')
    text, end, after = rest.partition("</script>")
    data = timeless(json.loads(text))
    for model in data["models"]:
        # A check is a list of its status, its seconds and more.
        model["checks"] = [[check[0], *check[2:]] for check in model["checks"]]
    return "".join([before, start, json.dumps(data), end, after])


def test_workers_and_hash_seeds_change_nothing(three: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    run(three, "alone", *FAST, "-n0")
    monkeypatch.setenv("PYTHONHASHSEED", "1")
    run(three, "spread", *FAST, "-n2")
    alone = written(three, "alone")
    assert {"tower.txt", "shared.txt"} < alone.keys()
    assert written(three, "spread") == alone


def test_every_rule_and_a_changed_snapshot_are_told_equally(three: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = "/Tower\n/Tower/Brick.{0..2} ×3: Gemm 1, Tanh 1\n"
    monkeypatch.setenv("PYTHONHASHSEED", "random")
    for name, workers in (("alone", "-n0"), ("spread", "-n2")):
        for model in ("tower", "shared"):
            three.write(f"__hierexport__/{model}.txt", changed)
        run(three, name, workers)
    alone = written(three, "alone")
    assert "Brick" in alone["md"]
    assert json.loads(alone["json"])["verdicts"]["passed"] == 2 * 10
    assert written(three, "spread") == alone


def test_merged_shards_are_the_whole_run(three: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(three.path)
    run(three, "whole", *FAST, "-n0")
    for index in (1, 2):
        shard = three.run(
            "--hierexport-models=models.toml",
            *FAST,
            f"--hierexport-shard={index}/2",
            f"--hierexport-report=shard-{index}.json",
        )
        assert shard.ret in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}
    assert main(["merge", "shard-1.json", "shard-2.json", "-o", "merged.json"]) == 1
    for kind in ("html", "md", "ctrf.json"):
        assert main(["merge", "shard-1.json", "shard-2.json", "-o", f"merged.{kind}"]) == 1
    Path("__hierexport__").rename("snapshots-merged")
    whole, merged = (without_options(written(three, name)) for name in ("whole", "merged"))
    assert merged == whole


def without_options(texts: dict[str, str]) -> dict[str, str]:
    """Take the shard out of the commands that repeat a failing test."""
    return {name: re.sub(r" --hierexport-shard=\d/\d", "", text) for name, text in texts.items()}
