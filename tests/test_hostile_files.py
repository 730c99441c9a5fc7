"""Files that no exporter writes: each ends in one error of ours, or in a correct answer of bounded size."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from pytest_hierexport._calls.hierarchy import Call, Hierarchy
from pytest_hierexport._errors import TagError
from pytest_hierexport._onnx import sidecar, storage
from pytest_hierexport._onnx.proto_tags import TaggedProto
from pytest_hierexport._pytest.extension import hierarchy_text
from pytest_hierexport.assertions import assert_no_torch_nn_tags, assert_nothing_leaks

Calls = dict[str, list[str | None]]

# Where Python parses JSON that nests so deep, and where it no longer shows it, depends on the frames above it.
NESTINGS = (300, *range(900, 1_000, 4), 5_000)


def nested(depth: int) -> Calls:
    """Return a root, and so many calls below it, each made by the one before."""
    names = ["", *(f"call{i}" for i in range(depth))]
    return {"": [None, "m.Net"], **{name: [caller, "m.Block"] for caller, name in pairwise(names)}}


def write(path: Path, calls: Any, operator: str = "Neg", domain: str = "") -> Path:
    """Write a file of one node, which the root made, with these calls as they stand."""
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in ("x", "y")]
    node = helper.make_node(operator, ["x"], ["y"], domain=domain)
    proto = helper.make_model(helper.make_graph([node], "g", values[:1], values[1:]), ir_version=10)
    set_entries(
        proto, {"hierexport.format": "1", "hierexport.calls": calls if isinstance(calls, str) else json.dumps(calls)}
    )
    set_entries(proto.graph.node[0], {"hierexport.tag": "/Net", "hierexport.origins": '[["","traced"]]'})
    path.write_bytes(proto.SerializeToString())
    return path


def set_entries(message: Any, entries: dict[str, str]) -> None:
    for key, value in entries.items():
        message.metadata_props.add(key=key, value=value)


def lists(depth: int) -> str:
    return "[" * depth + "]" * depth


def sidecar_text(**changed: Any) -> str:
    evidence = ("traced", "merged", "fused", "folded", "derived", "untagged")
    document: dict[str, Any] = {
        "format": 1,
        "sha256": "0" * 64,
        "exporter": "",
        "versions": {},
        "inputs": [],
        "outputs": [],
        "coverage": dict.fromkeys(evidence, 0),
        "keep": [],
        "calls": {"": [None, "m.Net"]},
        "modules": [],
        "nodes": {},
        "initializers": {},
    }
    return json.dumps(document | changed)


class TestDepth:
    def test_deep_hierarchy_is_read_in_linear_memory(self, tmp_path: Path) -> None:
        path = write(tmp_path / "m.onnx", nested(5_000))
        tracemalloc.start()
        hierarchy = storage.read(path).hierarchy
        assert hierarchy.resolve(hierarchy.tag("call4999")).name == "call4999"
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 40e6

    def test_a_snapshot_folds_what_nests_deeper_than_models_run(self, tmp_path: Path) -> None:
        lines = hierarchy_text(write(tmp_path / "m.onnx", nested(300))).splitlines()
        assert len(lines) == 301
        assert lines[-1].count("/") == 301

    def test_a_snapshot_of_what_nests_deeper_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(TagError, match="1,200 levels"):
            hierarchy_text(write(tmp_path / "m.onnx", nested(1_200)))

    def test_rules_on_the_file_alone_hold_at_any_depth(self, tmp_path: Path) -> None:
        path = write(tmp_path / "m.onnx", nested(5_000))
        tracemalloc.start()
        assert_no_torch_nn_tags(path)
        assert_nothing_leaks(path)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 60e6

    def test_a_tag_that_no_call_has_resolves_to_none(self) -> None:
        hierarchy = Hierarchy([Call("", 0, "m.Net", None), Call("a", 0, "m.Block", "")])
        for tag in ("", "/", "Net", "/Net/", "//Net", "x/Net", "/Net/Other", "/Block"):
            with pytest.raises(KeyError):
                hierarchy.resolve(tag)


class TestSnapshotLines:
    @pytest.mark.parametrize(
        ("operator", "domain", "shown"),
        [
            ("N\neg", "", "N%0Aeg 1"),
            ("Neg 1, Add", "", "Neg%201%2C%20Add 1"),
            ("\x1b[31m", "a b", "a%20b::%1B[31m 1"),
            ("Neg", "com.microsoft", "com.microsoft::Neg 1"),
        ],
    )
    def test_an_operator_is_one_word(self, tmp_path: Path, operator: str, domain: str, shown: str) -> None:
        path = write(tmp_path / "m.onnx", {"": [None, "m.Net"]}, operator, domain)
        assert hierarchy_text(path) == f"/Net: {shown}\n"

    def test_a_class_that_is_not_encoded_breaks_no_line(self, tmp_path: Path) -> None:
        path = write(tmp_path / "m.onnx", {"": [None, "m.Net"], "a": ["", "m.A\n/Net/B\x1b"]})
        assert hierarchy_text(path).split("\n") == ["/Net: Neg 1", r"/Net/A\n/Net/B\x1b", ""]


class TestSidecar:
    @pytest.mark.parametrize(
        "shape",
        [f"{2**62}, " * 10_000 + "1", "9" * 4_000, "9" * 5_000, "1e300", "1e999", "NaN", "-1", "[2]", "1.5"],
        ids=["many", "4,000 digits", "5,000 digits", "float", "infinity", "nan", "negative", "list", "half"],
    )
    def test_dimensions_that_no_tensor_has_are_refused(self, shape: str) -> None:
        parameter = {"name": "w", "shape": ["SHAPE"], "dtype": "float32", "trainable": True}
        module = {"path": "", "class": "m.Net", "parameters": [parameter], "count": 0}
        with pytest.raises(TagError) as error:
            sidecar.parse(sidecar_text(modules=[module]).replace('"SHAPE"', shape))
        assert len(str(error.value)) < 600

    def test_dimension_in_the_schema_is_a_whole_number(self) -> None:
        parameter = {"name": "w", "shape": [2.0, 3], "dtype": "float32", "trainable": True}
        module = {"path": "", "class": "m.Net", "parameters": [parameter], "count": 6}
        (found,) = sidecar.parse(sidecar_text(modules=[module])).modules[0].parameters
        assert str(found.shape) == "(2, 3)"

    @pytest.mark.parametrize("place", ["keep", "calls", "format", "modules", "nodes", "sha256"])
    def test_json_that_nests_deep_is_refused(self, place: str) -> None:
        text = sidecar_text(**{place: ["DEEP"]})
        refused(sidecar.parse, (text.replace('"DEEP"', lists(depth)) for depth in NESTINGS))


class TestTags:
    @pytest.mark.parametrize("key", ["hierexport.calls", "hierexport.keep"])
    def test_entries_that_nest_deep_are_refused(self, tmp_path: Path, key: str) -> None:
        proto = storage.load_proto(write(tmp_path / "m.onnx", {"": [None, "m.Net"]}))

        def damaged(depth: int) -> onnx.ModelProto:
            made = onnx.ModelProto()
            made.CopyFrom(proto)
            kept = {entry.key: entry.value for entry in made.metadata_props if entry.key != key}
            del made.metadata_props[:]
            set_entries(made, kept | {key: lists(depth)})
            return made

        refused(lambda proto: TaggedProto(proto).read("metadata"), map(damaged, NESTINGS))

    def test_doc_strings_that_nest_deep_are_no_traceback(self, tmp_path: Path) -> None:
        proto = storage.load_proto(write(tmp_path / "m.onnx", {"": [None, "m.Net"]}))
        path = tmp_path / "deep.onnx"
        for depth in NESTINGS:
            proto.graph.node[0].doc_string = f'{{"hierarchy_tags":["/Net"],"origins":{lists(depth)}}}'
            path.write_bytes(proto.SerializeToString())
            with suppress(TagError):
                storage.read(path)
            assert_no_torch_nn_tags(path)


def refused(read: Any, damaged: Iterable[Any]) -> None:
    """Assert that each is refused in a message of bounded length."""
    for each in damaged:
        with pytest.raises(TagError) as error:
            read(each)
        assert len(str(error.value)) < 1_000
