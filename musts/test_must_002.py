"""MUST-002: no `torch.nn` class in a tag.

A tag says where an operation comes from, and every model is built of the same Linear and LayerNorm: a segment that
resolves to a class which `torch.nn` defines is a violation, unless the user asked to keep it.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_hierexport import Attribution, Hierarchy, rewrite
from pytest_hierexport._rules.base import ExportedCase
from toys import breaks, damaged, exported, with_metadata

if TYPE_CHECKING:
    import onnx

KEPT = "/BertModel/BertEmbeddings"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> ExportedCase:
    return exported(tmp_path_factory.mktemp("whole"))


def tagged(tag: str) -> Callable[[onnx.ModelProto], None]:
    """Write a tag on the first node."""
    return lambda proto: with_metadata(proto.graph.node[0], "hierexport.tag", tag)


def documented(tag: str) -> Callable[[onnx.ModelProto], None]:
    """Write a tag in the first node's doc string."""

    def damage(proto: onnx.ModelProto) -> None:
        node = proto.graph.node[0]
        document = json.loads(node.doc_string)
        document["hierarchy_tags"] = [tag]
        node.doc_string = json.dumps(document, separators=(",", ":"))

    return damage


def initialised(tag: str) -> Callable[[onnx.ModelProto], None]:
    """Write a tag on the first initializer."""
    return lambda proto: with_metadata(proto.graph.initializer[0], "hierexport.tag", tag)


@pytest.mark.parametrize("write", [tagged, documented, initialised])
@pytest.mark.parametrize("segment", ["LayerNorm", "Linear.query", "Embedding.0@1", "Conv2d"])
def test_torch_nn_class_at_the_tag_end_is_found(
    write: Callable[[str], Callable[[onnx.ModelProto], None]], segment: str, whole: ExportedCase, tmp_path: Path
) -> None:
    (violation,) = breaks("MUST-002", damaged(whole, tmp_path, write(f"{KEPT}/{segment}")))
    assert f"({KEPT}/{segment})" in violation.where
    assert f"the segment {segment}, which is torch.nn.modules." in violation.found


@pytest.mark.parametrize("write", [tagged, documented, initialised])
def test_the_same_tag_without_it_is_not(
    write: Callable[[str], Callable[[onnx.ModelProto], None]], whole: ExportedCase, tmp_path: Path
) -> None:
    assert not breaks("MUST-002", damaged(whole, tmp_path, write(KEPT)))


def test_torch_nn_class_inside_a_tag_is_found(whole: ExportedCase, tmp_path: Path) -> None:
    damage = tagged("/BertModel/BertEncoder/ModuleList/BertLayer.0")
    (violation,) = breaks("MUST-002", damaged(whole, tmp_path, damage))
    assert "the segment ModuleList" in violation.found


def test_own_class_named_like_torch_nn_passes(tmp_path: Path) -> None:
    import torch

    class Linear(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

    assert not breaks("MUST-002", exported(tmp_path, lambda: (Linear(), (torch.ones(2),))))


def without_modules(attribution: Attribution) -> Attribution:
    """Write classes by their names alone."""
    calls = [dataclasses.replace(call, cls=call.class_name) for call in attribution.hierarchy.values()]
    return dataclasses.replace(attribution, hierarchy=Hierarchy(calls))


def test_torch_nn_class_without_its_module_is_found(whole: ExportedCase, tmp_path: Path) -> None:
    case = damaged(whole, tmp_path, lambda _: None)
    rewrite(case.path, without_modules)
    segments = {violation.found.split(",")[0] for violation in breaks("MUST-002", case)}
    assert "the segment LayerNorm" in segments
    assert "the segment BertModel" not in segments


def test_a_class_that_the_user_keeps_is_not(tmp_path: Path) -> None:
    case = exported(tmp_path, keep=("torch.nn.LayerNorm",))
    assert any("LayerNorm" in case.attribution.tag(key) for key in case.attribution.nodes)
    assert not breaks("MUST-002", case)


def test_a_file_that_lists_no_calls_is_said_to(whole: ExportedCase, tmp_path: Path) -> None:
    case = damaged(whole, tmp_path, lambda proto: with_metadata(proto, "hierexport.format", None))
    (violation,) = breaks("MUST-002", case)
    assert "hierexport.format" in violation.expected


def test_many_violations_are_counted_not_listed(whole: ExportedCase, tmp_path: Path) -> None:
    def damage(proto: onnx.ModelProto) -> None:
        for node in proto.graph.node:
            with_metadata(node, "hierexport.tag", f"{KEPT}/LayerNorm")

    nodes = len(whole.proto.graph.node)
    assert nodes > 20
    *listed, last = breaks("MUST-002", damaged(whole, tmp_path, damage))
    assert (len(listed), last.where) == (20, f"and {nodes - 20} more")
