"""MUST-003: universal.

Every selected model goes the same way; each node has an origin; no `derived` origin beyond the case's stated allowance
(default 0): an honest `derived` is a finding, a wrong `fused` a worse one, for it is unproven.
"""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from pytest_hierexport._calls.attribution import Attribution, Evidence, Origin
from pytest_hierexport._onnx.storage import attach_proto
from pytest_hierexport._rules.base import ExportedCase
from toys import breaks, damaged, exported, with_metadata


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> ExportedCase:
    return exported(tmp_path_factory.mktemp("whole"))


def bare(proto: onnx.ModelProto, *, metadata: bool = True, doc_string: bool = True) -> None:
    """Take the third node's tag away."""
    node = proto.graph.node[2]
    if metadata:
        with_metadata(node, "hierexport.tag", None)
        with_metadata(node, "hierexport.origins", None)
    if doc_string:
        node.ClearField("doc_string")


def test_a_node_without_an_origin_is_found(whole: ExportedCase, tmp_path: Path) -> None:
    (violation,) = breaks("MUST-003", damaged(whole, tmp_path, bare))
    node = whole.proto.graph.node[2]
    assert violation.where == f"{node.output[0]} (untagged), a {node.op_type}"
    assert violation.found == "none in its metadata and doc_string"


@pytest.mark.parametrize("place", ["metadata", "doc_string"])
def test_node_without_one_of_its_origins_is_found(place: str, whole: ExportedCase, tmp_path: Path) -> None:
    case = damaged(whole, tmp_path, lambda proto: bare(proto, **{"metadata": False, "doc_string": False, place: True}))
    (violation,) = breaks("MUST-003", case)
    assert violation.found == f"none in its {place}"


def test_a_node_that_something_added_after_the_export_is_found(whole: ExportedCase, tmp_path: Path) -> None:
    def damage(proto: onnx.ModelProto) -> None:
        proto.graph.node.append(onnx.helper.make_node("Neg", [proto.graph.output[0].name], ["negated"]))

    (violation,) = breaks("MUST-003", damaged(whole, tmp_path, damage))
    assert violation.where == "negated (untagged), a Neg"


def test_the_file_as_it_was_exported_passes(whole: ExportedCase, tmp_path: Path) -> None:
    assert not breaks("MUST-003", whole)
    assert not breaks("MUST-003", damaged(whole, tmp_path, lambda proto: None))


def test_stripped_file_is_reported_as_untagged(whole: ExportedCase, tmp_path: Path) -> None:
    def damage(proto: onnx.ModelProto) -> None:
        attach_proto(proto, whole.attribution, tags="none")

    (violation,) = breaks("MUST-003", damaged(whole, tmp_path, damage))
    assert (violation.expected, violation.found) == ("tags in the file", "none")


def test_tag_that_contradicts_its_origins_is_found(whole: ExportedCase, tmp_path: Path) -> None:
    def damage(proto: onnx.ModelProto) -> None:
        with_metadata(proto.graph.node[0], "hierexport.tag", "/BertModel/BertPooler")

    (violation,) = breaks("MUST-003", damaged(whole, tmp_path, damage))
    assert "/BertModel/BertPooler" in violation.found


def with_derived(whole: ExportedCase, proto: onnx.ModelProto) -> None:
    """Say of two nodes that their origins were derived from their neighbours'."""
    nodes = dict(whole.attribution.nodes)
    for key in list(nodes)[:2]:
        nodes[key] = tuple(Origin(origin.call, Evidence.DERIVED) for origin in nodes[key])
    attach_proto(proto, Attribution(whole.attribution.hierarchy, nodes, whole.attribution.initializers))


@pytest.mark.parametrize("allowed", [0, 1])
def test_more_derived_origins_than_allowed_are_found(allowed: int, whole: ExportedCase, tmp_path: Path) -> None:
    case = damaged(whole, tmp_path, lambda proto: with_derived(whole, proto), allow_derived=allowed)
    violations = breaks("MUST-003", case)
    assert [violation.where for violation in violations] == [
        case.node(key) for key in list(whole.attribution.nodes)[:2]
    ]


def test_as_many_as_allowed_are_not(whole: ExportedCase, tmp_path: Path) -> None:
    case = damaged(whole, tmp_path, lambda proto: with_derived(whole, proto), allow_derived=2)
    assert not breaks("MUST-003", case)
