"""MUST-009: file and sidecar agree.

No difference between what the tags in the file say - in metadata and doc strings - and what the sidecar says, and no
violation of the sidecar's schema.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import onnx_ir
import pytest

from pytest_hierexport._calls.attribution import Attribution
from pytest_hierexport._onnx.codec import Tags
from pytest_hierexport._onnx.storage import attach_proto, rewrite, save
from pytest_hierexport._rules.base import ExportedCase
from toys import breaks, damaged, exported, with_metadata


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> ExportedCase:
    return exported(tmp_path_factory.mktemp("whole"))


def sidecar_of(case: ExportedCase) -> Path:
    return case.path.with_name("model.hierarchy.json")


def with_file(whole: ExportedCase, folder: Path, damage: Callable[[onnx.ModelProto], None]) -> ExportedCase:
    """Damage the file, and let the sidecar pass for its own: the SHA-256 would give every change away."""
    case = damaged(whole, folder, damage)
    document = json.loads(sidecar_of(case).read_text(encoding="utf-8"))
    document["sha256"] = hashlib.sha256(case.path.read_bytes()).hexdigest()
    sidecar_of(case).write_text(json.dumps(document), encoding="utf-8")
    return case


def with_sidecar(whole: ExportedCase, folder: Path, damage: Callable[[Any], None]) -> ExportedCase:
    shutil.copytree(whole.path.parent, folder, dirs_exist_ok=True)
    case = ExportedCase(whole.case, folder / whole.path.name, whole.example)
    document = json.loads(sidecar_of(case).read_text(encoding="utf-8"))
    damage(document)
    sidecar_of(case).write_text(json.dumps(document), encoding="utf-8")
    return case


def other_tag(proto: onnx.ModelProto) -> None:
    with_metadata(proto.graph.node[2], "hierexport.tag", "/BertModel")


def other_origins(proto: onnx.ModelProto) -> None:
    with_metadata(proto.graph.node[2], "hierexport.origins", '[["","traced"]]')


def other_namespace(proto: onnx.ModelProto) -> None:
    with_metadata(proto.graph.node[2], "namespace", "elsewhere")


def no_namespace(proto: onnx.ModelProto) -> None:
    with_metadata(proto.graph.node[2], "namespace", None)


def a_tag_twice(proto: onnx.ModelProto) -> None:
    entries = proto.graph.node[2].metadata_props
    entries.add(key="hierexport.tag", value=next(e.value for e in entries if e.key == "hierexport.tag"))


def other_count_in_a_doc_string(proto: onnx.ModelProto) -> None:
    node = proto.graph.node[2]
    node.doc_string = node.doc_string.replace('"hierarchy_count":1', '"hierarchy_count":2')


def other_origins_in_a_doc_string(proto: onnx.ModelProto) -> None:
    proto.graph.node[2].doc_string = proto.graph.node[-1].doc_string


def no_doc_string(proto: onnx.ModelProto) -> None:
    proto.graph.node[2].ClearField("doc_string")


def one_node_more(proto: onnx.ModelProto) -> None:
    proto.graph.node.append(onnx.helper.make_node("Neg", [proto.graph.output[0].name], ["negated"]))


def one_node_less(proto: onnx.ModelProto) -> None:
    del proto.graph.node[-1]


def other_owner_of_an_initializer(proto: onnx.ModelProto) -> None:
    with_metadata(proto.graph.initializer[0], "hierexport.origins", '[["","traced"]]')


def one_initializer_less(proto: onnx.ModelProto) -> None:
    del proto.graph.initializer[0]


def other_initializers_listed(proto: onnx.ModelProto) -> None:
    with_metadata(proto, "hierexport.initializers", "{}")


def other_class_of_a_call(proto: onnx.ModelProto) -> None:
    calls = next(entry.value for entry in proto.metadata_props if entry.key == "hierexport.calls")
    with_metadata(proto, "hierexport.calls", calls.replace("BertPooler", "BertPuller"))


def other_output_name(proto: onnx.ModelProto) -> None:
    proto.graph.output[0].name += "_renamed"


IN_FILE: dict[Callable[[onnx.ModelProto], None], str] = {
    other_tag: "hierexport.tag",
    other_origins: "hierexport.origins",
    other_namespace: "namespace",
    no_namespace: "namespace",
    a_tag_twice: "hierexport.tag",
    other_count_in_a_doc_string: "doc_string",
    other_origins_in_a_doc_string: "doc_string",
    no_doc_string: "doc_string",
    one_node_more: "node negated",
    one_node_less: "node ",
    other_owner_of_an_initializer: "initializer ",
    one_initializer_less: "initializer ",
    other_initializers_listed: "the model, hierexport.initializers",
    other_class_of_a_call: "the model, hierexport.calls",
    other_output_name: "the graph's outputs",
}


def test_file_changed_without_its_sidecar_is_found_with_the_place(whole: ExportedCase, tmp_path: Path) -> None:
    changed, *places = breaks("MUST-009", damaged(whole, tmp_path, other_tag))
    assert "SHA-256" in changed.expected
    assert ["hierexport.tag" in place.where for place in places] == [True]


@pytest.mark.parametrize("damage", IN_FILE, ids=lambda damage: damage.__name__)
def test_changed_file_is_found_with_the_place(
    damage: Callable[[onnx.ModelProto], None], whole: ExportedCase, tmp_path: Path
) -> None:
    violations = breaks("MUST-009", with_file(whole, tmp_path, damage))
    assert len(violations) == 1
    assert IN_FILE[damage] in violations[0].where


def other_shape(document: Any) -> None:
    next(module for module in document["modules"] if module["parameters"])["parameters"][0]["shape"].append(2)


def other_number_of_parameters(document: Any) -> None:
    document["modules"][0]["count"] += 1


def other_class(document: Any) -> None:
    document["modules"][0]["class"] = "toy_models.Other"


def no_module(document: Any) -> None:
    del document["modules"][0]


def other_coverage(document: Any) -> None:
    document["coverage"]["traced"] += 1


def another_key(document: Any) -> None:
    document["comment"] = "looks good"


def no_versions(document: Any) -> None:
    del document["versions"]


def another_format(document: Any) -> None:
    document["format"] = 2


def the_digest_of_another_file(document: Any) -> None:
    document["sha256"] = hashlib.sha256(b"").hexdigest()


def an_origin_that_is_no_call(document: Any) -> None:
    next(iter(document["nodes"].values()))["origins"] = [["no_such_call", "traced"]]


IN_SIDECAR: dict[Callable[[Any], None], str] = {
    other_shape: "something else",
    other_number_of_parameters: "something else",
    other_class: "toy_models.Other in the tree",
    no_module: "nothing in the tree",
    other_coverage: "coverage",
    another_key: "comment",
    no_versions: "versions",
    another_format: "format 2",
    the_digest_of_another_file: "SHA-256",
    an_origin_that_is_no_call: "no_such_call",
}


@pytest.mark.parametrize("damage", IN_SIDECAR, ids=lambda damage: damage.__name__)
def test_changed_sidecar_is_found_with_the_difference(
    damage: Callable[[Any], None], whole: ExportedCase, tmp_path: Path
) -> None:
    violations = breaks("MUST-009", with_sidecar(whole, tmp_path, damage))
    assert IN_SIDECAR[damage] in violations[0].found


def test_a_file_without_its_sidecar_is_found(whole: ExportedCase, tmp_path: Path) -> None:
    case = with_sidecar(whole, tmp_path, lambda document: None)
    sidecar_of(case).unlink()
    (violation,) = breaks("MUST-009", case)
    assert "No such file" in violation.found


def test_a_sidecar_that_is_no_json_is_found(whole: ExportedCase, tmp_path: Path) -> None:
    case = with_sidecar(whole, tmp_path, lambda document: None)
    sidecar_of(case).write_text("{", encoding="utf-8")
    assert breaks("MUST-009", case)


def test_the_export_as_it_is_passes(whole: ExportedCase, tmp_path: Path) -> None:
    assert not breaks("MUST-009", whole)
    assert not breaks("MUST-009", with_file(whole, tmp_path, lambda proto: None))


@pytest.mark.parametrize("tags", ["both", "metadata", "doc_string", "none"])
def test_a_file_says_the_same_wherever_its_tags_stand(tags: Tags, whole: ExportedCase, tmp_path: Path) -> None:
    case = with_sidecar(whole, tmp_path, lambda document: None)
    rewrite(case.path, lambda attribution: attribution, tags=tags)
    assert not breaks("MUST-009", case)


@pytest.mark.parametrize("tags", ["both", "metadata", "doc_string"])
def test_a_graph_without_nodes_passes(tags: Tags, whole: ExportedCase, tmp_path: Path) -> None:
    path, float_ = tmp_path / "model.onnx", onnx.TensorProto.FLOAT
    values = [onnx.helper.make_tensor_value_info("x", float_, [1])]
    model = onnx.helper.make_model(onnx.helper.make_graph([], "empty", values, values))
    attribution = Attribution(whole.attribution.hierarchy, {})
    attach_proto(model, attribution, tags)
    save(onnx_ir.from_proto(model), attribution, path)
    assert not breaks("MUST-009", ExportedCase(whole.case, path, whole.example))


def test_what_others_wrote_on_nodes_is_no_difference(whole: ExportedCase, tmp_path: Path) -> None:
    def damage(proto: onnx.ModelProto) -> None:
        attach_proto(proto, whole.attribution, tags="metadata")
        proto.graph.node[2].doc_string = "the third node"
        with_metadata(proto.graph.node[2], "theirs", "kept")

    assert not breaks("MUST-009", with_file(whole, tmp_path, damage))
