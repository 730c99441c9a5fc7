"""MUST-010: nothing leaks.

No absolute path of the exporting machine (home, working, temporary and package folders), and no user or host name as
part of a path or an address, in the file or its sidecar.
"""

from __future__ import annotations

import getpass
import json
import shutil
import socket
import sysconfig
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch

from pytest_hierexport._files.machine import Machine
from pytest_hierexport._rules.base import ExportedCase
from toys import breaks, damaged, exported, with_metadata

HOST = socket.gethostname()
USER = getpass.getuser()
TOLD = {
    "home": f"{Path.home()}/models/net.py",
    "home itself": str(Path.home()),
    "working folder": f"{Path.cwd()}/net.py",
    "temporary folder": f"{tempfile.gettempdir()}/model.onnx",
    "package folder": f"{sysconfig.get_paths()['purelib']}/torch/nn/modules/linear.py",
    "file address": f"file://{Path.home()}/net.py",
    "stack trace": f'File "{Path.cwd()}/net.py", line 7, in forward\n    return x + 1',
    "option": f"--cache={Path.home()}/cache",
    "user in a path": f"/mnt/{USER}/net.py",
    "user in an option": f"--data=/mnt/{USER}/net.bin",
    "user in a path of a host": f"storage:/mnt/{USER}/net.bin",
    "user in a quoted path": f"`/mnt/{USER}/net.bin`",
    "user in an address": f"ssh://{USER}@build/net",
    "user of a shell": f"~{USER}/net.py",
    "host in an address": f"http://{HOST}:8080/net",
    "host and folder": f"someone@{HOST}:/net",
}
UNTOLD = {
    "relative path": "models/net.py",
    "other path": "/opt/models/net.py",
    "longer name": f"{Path.home()}less/net.py",
    "address": "https://onnx.ai/docs",
    "word": f"{USER} {HOST}",
    "tag": "/BertModel/BertEncoder/BertLayer.0",
    "value": f"author={USER}",
    "nothing": "",
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> ExportedCase:
    return exported(tmp_path_factory.mktemp("whole"))


def in_doc_string(proto: onnx.ModelProto, text: str) -> None:
    proto.graph.node[3].doc_string = text


def in_metadata_of_a_node(proto: onnx.ModelProto, text: str) -> None:
    with_metadata(proto.graph.node[3], "pkg.torch.onnx.stack_trace", text)


def in_metadata_of_an_initializer(proto: onnx.ModelProto, text: str) -> None:
    with_metadata(proto.graph.initializer[0], "source", json.dumps({"from": [text]}))


def in_metadata_of_an_output(proto: onnx.ModelProto, text: str) -> None:
    with_metadata(proto.graph.output[0], "source", text)


def in_metadata_of_the_model(proto: onnx.ModelProto, text: str) -> None:
    with_metadata(proto, "source", text)


def in_an_attribute(proto: onnx.ModelProto, text: str) -> None:
    proto.graph.node[3].attribute.append(onnx.helper.make_attribute("note", text.encode()))


def in_a_subgraph(proto: onnx.ModelProto, text: str) -> None:
    inner = onnx.helper.make_node("Constant", [], ["told"], doc_string=text, value_float=1.0)
    graph = onnx.helper.make_graph([inner], "body", [], [])
    other = onnx.helper.make_graph([], "other", [], [])
    proto.graph.node.append(onnx.helper.make_node("If", ["c"], ["chosen"], then_branch=graph, else_branch=other))


def on_a_subgraph(proto: onnx.ModelProto, text: str) -> None:
    graphs = [onnx.helper.make_graph([], "body", [], [], doc_string=doc) for doc in (text, "")]
    node = onnx.helper.make_node("If", ["c"], ["chosen"], then_branch=graphs[0], else_branch=graphs[1])
    proto.graph.node.append(node)


def in_a_function(proto: onnx.ModelProto, text: str) -> None:
    node = onnx.helper.make_node("Relu", ["x"], ["y"], doc_string=text)
    opsets = [onnx.helper.make_opsetid("", 20)]
    proto.functions.append(onnx.helper.make_function("my", "told", ["x"], ["y"], [node], opsets))


def in_a_tensor_of_strings(proto: onnx.ModelProto, text: str) -> None:
    tensor = onnx.helper.make_tensor("words", onnx.TensorProto.STRING, [1], [text.encode()])  # type: ignore[list-item]  # bytes are what it takes for strings
    proto.graph.initializer.append(tensor)


def in_external_data(proto: onnx.ModelProto, text: str) -> None:
    tensor = proto.graph.initializer[0]
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=text)


PLACES: dict[Callable[[onnx.ModelProto, str], None], str] = {
    in_doc_string: "doc_string",
    in_metadata_of_a_node: "metadata_props",
    in_metadata_of_an_initializer: "metadata_props",
    in_metadata_of_an_output: "output[0], metadata_props",
    in_metadata_of_the_model: "the model, metadata_props",
    in_an_attribute: "attribute",
    in_a_subgraph: "told, doc_string",
    on_a_subgraph: "graph body, doc_string",
    in_a_function: "my::told:://y, doc_string",
    in_a_tensor_of_strings: "string_data",
    in_external_data: "external_data",
}


@pytest.mark.parametrize("text", TOLD.values(), ids=TOLD.keys())
def test_whatever_tells_of_the_machine_is_found(text: str, whole: ExportedCase, tmp_path: Path) -> None:
    violations = breaks("MUST-010", damaged(whole, tmp_path, lambda proto: in_doc_string(proto, text)))
    assert len(violations) == 1


@pytest.mark.parametrize("text", UNTOLD.values(), ids=UNTOLD.keys())
def test_what_tells_nothing_passes(text: str, whole: ExportedCase, tmp_path: Path) -> None:
    assert not breaks("MUST-010", damaged(whole, tmp_path, lambda proto: in_doc_string(proto, text)))


@pytest.mark.parametrize("put", PLACES, ids=lambda put: put.__name__)
def test_it_is_found_wherever_it_stands_and_the_place_named(
    put: Callable[[onnx.ModelProto, str], None], whole: ExportedCase, tmp_path: Path
) -> None:
    (violation,) = breaks("MUST-010", damaged(whole, tmp_path, lambda proto: put(proto, TOLD["home"])))
    assert PLACES[put] in violation.where
    assert TOLD["home"] in violation.found
    assert not breaks("MUST-010", damaged(whole, tmp_path, lambda proto: put(proto, UNTOLD["other path"])))


def with_sidecar(whole: ExportedCase, folder: Path, change: Callable[[Any], None]) -> ExportedCase:
    shutil.copytree(whole.path.parent, folder, dirs_exist_ok=True)
    sidecar = folder / "model.hierarchy.json"
    document = json.loads(sidecar.read_text(encoding="utf-8"))
    change(document)
    sidecar.write_text(json.dumps(document), encoding="utf-8")
    return ExportedCase(whole.case, folder / whole.path.name, whole.example)


def test_it_is_found_in_the_sidecar_too(whole: ExportedCase, tmp_path: Path) -> None:
    case = with_sidecar(whole, tmp_path, lambda document: document["versions"].update(torch=TOLD["package folder"]))
    (violation,) = breaks("MUST-010", case)
    assert violation.where == "model.hierarchy.json, versions, torch"
    assert not breaks("MUST-010", with_sidecar(whole, tmp_path, lambda document: None))


def test_the_export_as_it_is_passes(whole: ExportedCase) -> None:
    assert not breaks("MUST-010", whole)


class Inner(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x)


def build_with_names_of_folders() -> object:
    """A root class that is called like the first folder of the home path, and attributes like the others."""
    names = [*Path.home().parts[1:], USER, HOST, "tmp"]
    model = type(names[0], (torch.nn.Sequential,), {})()
    for name in dict.fromkeys(name.replace(".", "_") for name in names):
        model.add_module(name, type(name, (Inner,), {})())
    return model, (torch.ones(2),)


def test_a_model_may_call_its_modules_like_folders_and_users(tmp_path: Path) -> None:
    case = exported(tmp_path, build_with_names_of_folders)
    assert any(tag.startswith(f"/{Path.home().parts[1]}/") for tag in map(case.attribution.tag, case.attribution.nodes))
    assert not breaks("MUST-010", case)


def test_path_like_name_counts_only_if_it_exists(whole: ExportedCase, tmp_path: Path) -> None:
    def named(name: str) -> ExportedCase:
        def damage(proto: onnx.ModelProto) -> None:
            proto.graph.node[3].name = name

        return damaged(whole, tmp_path, damage)

    assert not breaks("MUST-010", named(f"{tempfile.gettempdir()}/no/such/MatMul"))
    assert breaks("MUST-010", named(str(tmp_path)))


def test_no_folder_is_so_short_that_it_is_everywhere() -> None:
    assert "/" not in Machine.this().folders
