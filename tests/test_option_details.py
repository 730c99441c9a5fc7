"""Detailed snapshots: the changes that operators alone do not show."""

from __future__ import annotations

import pytest

from projects import Project

NET = """
import torch
from torch import nn

class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(4, 6, 1)
        self.norm = nn.BatchNorm1d(6)
        self.one = nn.Linear(6, 6)
        self.other = self.one
        self.head = Head()
        self.heads = 2

    def forward(self, x):
        x = self.norm(self.conv(x)).transpose(1, 2)
        x = self.other(self.one(x).relu())
        return x.reshape(2, 5, self.heads, -1).transpose(1, 2)

def build():
    return Net().eval(), (torch.ones(2, 4, 5),)
"""
MODELS = "--hierexport-models=net.py::build"
SNAPSHOT = ("-k", "snapshot")
CHANGES: dict[str, tuple[str, str, str]] = {
    "a batch norm is gone": ("self.norm = nn.BatchNorm1d(6)", "self.norm = nn.Identity()", "BatchNorm1d() 1 → 0"),
    "heads": ("self.heads = 2", "self.heads = 3", "Transpose[2×2×5×3] 1 → 0, Transpose[2×3×5×2] 0 → 1"),
    "a module is unshared": (
        "self.other = self.one",
        "self.other = nn.Linear(6, 6)",
        "Linear.weight[6×6]=shared 1 → 0",
    ),
    "a module is gone": ("self.head = Head()", "pass", "uncalled:Head 1 → 0"),
}


@pytest.fixture
def net(project: Project) -> Project:
    project.write("net.py", NET)
    return project


@pytest.mark.parametrize("change", ["a batch norm is gone", "heads", "a module is unshared", "a module is gone"])
def test_change_that_leaves_the_operators_is_seen(net: Project, change: str) -> None:
    old, new, shown = CHANGES[change]
    options = (MODELS, *SNAPSHOT)
    assert net.run(*options, "--hierexport-details", "--snapshot-update").ret == 0
    model = net.path / "net.py"
    assert old in model.read_text()
    model.write_text(model.read_text().replace(old, new))
    changed = net.run(*options, "--hierexport-details")
    assert changed.ret == 1
    assert any(line.startswith("    ~ /Net: ") and shown in line for line in changed.outlines)


def test_manifest_states_detailed_snapshots(net: Project) -> None:
    net.write("models.toml", '[models.net]\nmodel = "net.py::build"\ndetails = true\n')
    assert net.run("--hierexport-models=models.toml", *SNAPSHOT, "--snapshot-update").ret == 0
    (line,) = (net.path / "__hierexport__" / "net.txt").read_text().splitlines()
    listed = set(line.removeprefix("/Net: ").split(", "))
    assert {"Conv1d() 1", "Conv1d.weight[6×4×1] 1", "BatchNorm1d.running_mean[6] 1", "Linear() 2"} <= listed
    assert {"Linear.bias[6] 1", "Linear.bias[6]=shared 1", "uncalled:Head 1", "Head.scale[1] 1"} <= listed
    assert "Relu[2×5×6] 1" in listed


def test_equal_layers_stay_folded(project: Project) -> None:
    options = ("--hierexport-models=my_model.py::build", *SNAPSHOT, "--hierexport-details")
    assert project.run(*options, "--snapshot-update").ret == 0
    assert (project.path / "__hierexport__" / "build.txt").read_text() == (
        "/Tower: ModuleList() 1\n"
        "/Tower/Block.{0..2} ×3: Gemm[2×4] 1, Linear() 1, Linear.bias[4] 1, Linear.weight[4×4] 1, Relu[2×4] 1\n"
    )
    assert project.run(*options, "--hierexport-require-snapshots").ret == 0


def test_snapshot_made_in_the_other_form_names_the_option(project: Project) -> None:
    options = ("--hierexport-models=my_model.py::build", *SNAPSHOT)
    assert project.run(*options, "--snapshot-update", "--hierexport-details").ret == 0
    plain = project.run(*options)
    plain.stdout.fnmatch_lines(
        [
            "the snapshot of build was made with details",
            "  found *a run without details",
            "  to do *repeat it with details, *: pytest *::test_snapshot --hierexport-details",
        ]
    )
    plain.stdout.no_fnmatch_line("*has changed*")
    assert project.run(*options, "--snapshot-update").ret == 0
    detailed = project.run(*options, "--hierexport-details")
    detailed.stdout.fnmatch_lines(
        [
            "the snapshot of build was made without details",
            "  found *a run with details",
            "  to do *leave them out, or write it with details: * --hierexport-details * --snapshot-update",
        ]
    )
