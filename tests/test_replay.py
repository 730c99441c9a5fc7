"""`benchmarks/replay.py`: what it keeps of an export, and that it finds what differs."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from benchmarks import replay, replay_case
from benchmarks.replay_formats import fx_from_json, fx_to_json
from pytest_hierexport._cases import Case

NAME = "toy/toy"


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(32, 32)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        mask = torch.where(lengths > 0, 0.5, -0.5)
        return torch.relu(self.linear(x)) + mask


class Toy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Layer(), Layer()])

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x, lengths)
        return x


def toy() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    return Toy(), (torch.randn(2, 32), torch.arange(32))


CASE = Case("toy", toy, "toy", exporter="dynamo")


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("net")
    replay_case.record(NAME, CASE, folder)
    return folder


@pytest.fixture
def copied(net: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(net, tmp_path / "net"))


def test_unchanged_code_gives_what_was_recorded(net: Path) -> None:
    assert replay.recorded(net) == [NAME]
    assert replay_case.check(NAME, CASE, net, capture=True) == []


def test_recorded_origins_hold_the_merged_mask_of_both_layers(net: Path) -> None:
    origins = _read(net, "observed.json")["origins after"].values()
    assert [["layers.0", "traced"], ["layers.1", "merged"]] in origins


def test_weights_of_the_model_are_not_stored(net: Path) -> None:
    assert not list(net.glob("blobs/*"))
    with zipfile.ZipFile(net / f"{NAME}.zip") as stored:
        assert max(stored.getinfo(name).file_size for name in ("before.onnx", "after.onnx")) < 4 * 32 * 32


def test_tampered_origin_is_found(copied: Path) -> None:
    observed = _read(copied, "observed.json")
    node = next(node for node, origins in observed["origins after"].items() if len(origins) > 1)
    observed["origins after"][node].pop()
    _write(copied, "observed.json", observed)
    (difference,) = replay_case.check(NAME, CASE, copied, capture=False)
    assert difference.startswith(f"origins after: {node}: ")
    assert '["layers.1", "merged"]' in difference


def test_tampered_call_of_a_captured_node_changes_verdicts_too(copied: Path) -> None:
    captured = _read(copied, "captured.json")
    for node in captured["nodes"]:
        if node[1] == "layers.0.linear":
            node[1] = "layers.1"
    _write(copied, "captured.json", captured)
    sections = {line.partition(":")[0] for line in replay_case.check(NAME, CASE, copied, capture=False)}
    assert {"origins before", "origins after", "verdicts"} <= sections


def test_changed_call_of_a_captured_node_is_found(copied: Path) -> None:
    observed = _read(copied, "observed.json")
    node, calls = next(iter(observed["captured nodes"].items()))
    observed["captured nodes"][node] = ["elsewhere"]
    _write(copied, "observed.json", observed)
    assert replay_case.check(NAME, CASE, copied, capture=False) == []
    expected = f"captured nodes: {node}: {json.dumps(['elsewhere'])} became {json.dumps(calls)}"
    assert replay_case.check(NAME, CASE, copied, capture=True) == [expected]


def test_differences_are_printed_by_model_and_fail(capsys: pytest.CaptureFixture[str]) -> None:
    results = [replay.Result("zoo/a", 1.0, []), replay.Result("zoo/b", 1.0, ["verdicts: root: 1 became 2"])]
    for result in results:
        replay.print_differences(result)
    assert replay.summarize(results[:1], 1.0) == 0
    assert replay.summarize(results, 2.0) == 1
    assert "zoo/b: 1 differ\n  verdicts: root: 1 became 2\n" in capsys.readouterr().out


def test_case_that_cannot_be_checked_fails() -> None:
    assert replay.summarize([replay.Result("zoo/a", 1.0, [], "ended by SIGKILL")], 1.0) == 1


def test_empty_folder_fails() -> None:
    assert replay.summarize([], 0.0) == 1


def test_commands_record_resume_and_check(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    only = ["--only", "zoo/sequential", "--jobs", "1"]
    assert replay.main(["check", str(tmp_path), *only]) == 1
    assert replay.main(["record", str(tmp_path), *only]) == 0
    assert replay.main(["record", str(tmp_path), *only]) == 0
    assert replay.main(["check", str(tmp_path), *only]) == 0
    printed = capfd.readouterr().out
    assert printed.count("zoo/sequential: dynamo") == 1
    assert "0 cases to record, 1 are there" in printed


def test_case_that_takes_too_long_is_skipped_once(tmp_path: Path) -> None:
    only = ["--only", "zoo/swin", "--jobs", "1", "--timeout", "1"]
    for _ in range(2):
        assert replay.main(["record", str(tmp_path), *only]) == 0
    skipped = (tmp_path / "skipped.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in skipped] == [["zoo/swin", "took too much processor time"]]


def test_names_are_of_zoo_seeds_types_and_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    made = {"make": "torch.nn:Linear", "args": [3, 2], "inputs": ["1x3"]}
    monkeypatch.setattr("benchmarks.libraries.models", lambda: {"torch/Linear": made, "not_installed/Net": made})
    names = replay_case.all_names(seeds=2)
    assert {"zoo/bert", "seed/0", "seed/1", "type/bert", "library/torch.Linear"} <= set(names)
    assert "library/not_installed.Net" not in names
    assert isinstance(replay_case.case_of("library/torch.Linear").load().model, nn.Linear)
    assert "seed/2" not in names
    assert names == replay_case.all_names(seeds=2)


def test_failure_to_keep_a_graph_does_not_change_the_capture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> bytes:
        raise OSError("no space left")

    monkeypatch.setattr(replay_case, "pack", failing)
    with pytest.raises(OSError, match="no space left"):
        replay_case.record(NAME, Case("toy", toy, "toy"), tmp_path)
    assert replay.recorded(tmp_path) == []


def test_constants_are_kept_while_torch_traces() -> None:
    root = nn.Module()
    root.register_buffer("kept", torch.ones(2))
    with torch._subclasses.FakeTensorMode():
        root.register_buffer("traced", torch.ones(2))
    graph = torch.fx.Graph(owning_module=root)  # type: ignore[arg-type]  # it is only asked for attributes
    graph.get_attr("kept")
    graph.get_attr("traced")
    with torch._subclasses.FakeTensorMode():
        constants = fx_to_json(graph)["constants"]
    assert constants["kept"]["elements"] == [1.0, 1.0]
    assert constants["traced"] is None


def test_fx_graph_is_the_same_after_json() -> None:
    program = torch.export.export(Toy(), toy()[1])
    stored = json.loads(json.dumps(fx_to_json(program.graph)))
    graph, nodes = fx_from_json(stored)
    assert list(nodes) == [node.name for node in program.graph.nodes]
    assert [node.target for node in graph.nodes] == [node.target for node in program.graph.nodes]
    assert json.loads(json.dumps(fx_to_json(graph)))["nodes"] == stored["nodes"]


def _read(folder: Path, name: str) -> Any:
    with zipfile.ZipFile(folder / f"{NAME}.zip") as stored:
        return json.loads(stored.read(name))


def _write(folder: Path, name: str, content: Any) -> None:
    path = folder / f"{NAME}.zip"
    with zipfile.ZipFile(path) as stored:
        members = {member: stored.read(member) for member in stored.namelist()}
    members[name] = json.dumps(content).encode()
    with zipfile.ZipFile(path, "w") as stored:
        for member, data in members.items():
            stored.writestr(member, data)
