"""What viewers show of a tagged file: the statements of docs/viewers.md."""

from __future__ import annotations

import importlib
import importlib.util
import json
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import onnx
import pytest
import torch
from torch import nn

from pytest_hierexport import export, profile, read
from pytest_hierexport._onnx.sidecar import read_sidecar
from pytest_hierexport._tools.profiling.viewers import node_data

NETRON = importlib.util.find_spec("netron")
SCRIPT = Path(__file__).parent / "data" / "netron.mjs"


@pytest.fixture(scope="session")
def adapter() -> ModuleType:
    """Give Model Explorer's ONNX adapter."""
    reason = "model-explorer-onnx is not installed; it is in the extra `tools`"
    module: ModuleType = pytest.importorskip("model_explorer_onnx.main", reason=reason)
    return module


class Block(nn.Module):
    def __init__(self, shared: nn.Module) -> None:
        super().__init__()
        self.inner = nn.ModuleDict({"up/down": nn.Linear(4, 4), "out": nn.Linear(4, 4)})
        self.norm = shared

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x + self.inner["out"](self.inner["up/down"](x).relu()))  # type: ignore[no-any-return]


class Net(nn.Module):
    """A list, a dictionary with a slash in a key, a shared module, and a branch."""

    def __init__(self) -> None:
        super().__init__()
        shared = nn.LayerNorm(4)
        self.blocks = nn.ModuleList(Block(shared) for _ in range(2))
        self.yes, self.no = nn.Linear(4, 4), nn.Tanh()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)

        def yes(x: torch.Tensor) -> Any:
            return self.yes(x)

        def no(x: torch.Tensor) -> Any:
            return self.no(x)

        return torch.cond(x.sum() > 0, yes, no, (x,))  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("net") / "net.onnx"
    export(Net().eval(), (torch.ones(2, 4),), path=path)
    return path


def explored(adapter: Any, path: Path) -> list[Any]:
    """Return the graphs that Model Explorer shows of a file."""
    graphs: list[Any] = adapter.ONNXAdapter().convert(str(path), {})["graphs"]
    return graphs


def groups(namespaces: Iterable[str]) -> set[str]:
    """Return the groups that namespaces unfold to: a group per part."""
    parts = [namespace.split("/") for namespace in namespaces if namespace]
    return {"/".join(split[:count]) for split in parts for count in range(1, len(split) + 1)}


def test_groups_of_model_explorer_are_the_module_tree(adapter: ModuleType, net: Path) -> None:
    (graph,) = explored(adapter, net)
    shown = groups(node.namespace.removeprefix(graph.id).strip("/") for node in graph.nodes)
    attribution = read(net)
    called = {attribution.hierarchy[origins[0].call].path for origins in attribution.nodes.values()}
    # The adapter moves a branch into the graph around it, with groups of its own for the If and its branches.
    outside = {group for group in shown if "If <" not in group}
    in_branch = {group.partition("_branch/")[2] for group in shown if "_branch/" in group}
    assert groups(path.replace(".", "/") for path in called) == outside | in_branch
    modules = {module.path.replace(".", "/") for module in read_sidecar(net).modules}
    assert outside | in_branch <= modules


def test_model_explorer_has_no_groups_without_metadata(adapter: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    export(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), (torch.ones(2, 4),), path=path, tags="doc_string")
    (graph,) = explored(adapter, path)
    assert {node.namespace for node in graph.nodes if not node.id.startswith("[value]")} == {graph.id}


def test_node_data_of_a_profile_names_every_node_shown(adapter: ModuleType, net: Path, tmp_path: Path) -> None:
    path = tmp_path / "optimized.onnx"
    found = profile(net, runs=1, optimized=path)
    content = node_data(found)
    (graph,) = explored(adapter, path)
    shown = {node.id for node in graph.nodes if not node.id.startswith("[value]")}
    named = set(content[graph.id]["results"])
    assert named <= shown
    assert len(named) == len(found.nodes)
    # Only one branch ran.
    (branch,) = {name.split("/")[1] for name in named if "/" in name}
    other = {"then_branch", "else_branch"} - {branch}
    assert {name for name in shown - named if not name.endswith("_phi")} == {
        n for n in shown if other & {*n.split("/")}
    }


def test_node_data_is_what_model_explorer_reads(adapter: ModuleType, net: Path) -> None:
    node_data_builder: Any = importlib.import_module("model_explorer.node_data_builder")

    content = json.loads(json.dumps(node_data(profile(net, runs=1))))
    graphs = {
        name: node_data_builder.GraphNodeData(
            results={key: node_data_builder.NodeDataResult(**result) for key, result in graph.pop("results").items()},
            gradient=[node_data_builder.GradientItem(**item) for item in graph.pop("gradient")],
            **graph,
        )
        for name, graph in node_data(profile(net, runs=1)).items()
    }
    written = json.loads(node_data_builder.ModelNodeData(graphs).to_json_string())
    assert written.keys() == content.keys()
    (name, *_) = content
    assert content[name].keys() <= written[name].keys()


def test_model_explorer_shows_tags_as_attributes_of_a_node(adapter: ModuleType, net: Path) -> None:
    (graph,) = explored(adapter, net)
    tags = {
        node.id: attribute.value
        for node in graph.nodes
        for attribute in node.attrs
        if attribute.key == "[metadata] hierexport.tag"
    }
    main = {node.name: node for node in onnx.load(net).graph.node}
    attribution = read(net)
    assert all(tags[name] == attribution.tag(node.output[0]) for name, node in main.items())


@pytest.fixture(scope="session")
def netron(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a copy of Netron whose search can be called."""
    if NETRON is None or NETRON.origin is None:
        pytest.skip("netron is not installed; it is in the extra `tools`")
    if shutil.which("node") is None:
        pytest.skip("node is not installed; Netron is written in JavaScript")
    folder = tmp_path_factory.mktemp("netron") / "netron"
    shutil.copytree(Path(NETRON.origin).parent, folder)
    (folder / "package.json").write_text('{"type": "module"}')
    with (folder / "view.js").open("a") as file:
        file.write("\nexport const FindSidebar = view.FindSidebar;\n")
    return folder


def in_netron(netron: Path, path: Path, *queries: str) -> dict[str, Any]:
    command = ["node", str(SCRIPT), str(netron), str(path), *queries]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    content: dict[str, Any] = json.loads(result.stdout)
    return content


def test_netron_shows_tags_in_a_node_s_properties(netron: Path, net: Path) -> None:
    shown, attribution = in_netron(netron, net), read(net)
    assert {"hierexport.format", "hierexport.calls"} <= set(shown["model"])
    nodes = {node.name: node for node in onnx.load(net).graph.node}
    for node in shown["nodes"]:
        tag = attribution.tag(nodes[node["name"]].output[0])
        assert set(node["metadata"]) == {"hierexport.tag", "hierexport.origins", "namespace"}
        assert node["metadata"]["hierexport.tag"] == tag
        assert json.loads(node["description"])["hierarchy_path"] == tag
    (branch,) = (node for node in shown["nodes"] if "graph" in node["attributes"].values())
    assert branch["attributes"] == {"then_branch": "graph", "else_branch": "graph"}


def test_netron_s_search_finds_names_but_no_tags(netron: Path, net: Path, tmp_path: Path) -> None:
    assert in_netron(netron, net, "Block.1", "gemm")["found"] == {
        "Block.1": [],
        "gemm": [node.name for node in onnx.load(net).graph.node if node.op_type == "Gemm"],
    }
    model, attribution = onnx.load(net), read(net)
    names = []
    for node in model.graph.node:
        node.name = f"{attribution.tag(node.output[0])}/{node.name}"
        names.append(node.name)
    onnx.save(model, tmp_path / "renamed.onnx")
    found = in_netron(netron, tmp_path / "renamed.onnx", "/Net/Block.1/")["found"]
    assert found["/Net/Block.1/"] == [name for name in names if name.startswith("/Net/Block.1/")] != []
