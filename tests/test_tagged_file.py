"""Files for tools: where their tags come from, and what is refused."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from pytest_hierexport import export
from pytest_hierexport._calls.attribution import Attribution
from pytest_hierexport._errors import TagError, UsageError
from pytest_hierexport._onnx import sidecar, storage
from pytest_hierexport._tools.tagged_file import load_tagged, parse_tagged


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.fc(x))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Block(), Block()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.second(self.first(x)) * 2
        return out


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same model, exported by us and by torch alone."""
    made, net, args = tmp_path_factory.mktemp("files"), Net().eval(), (torch.randn(2, 3),)
    export(net, args, path=made / "tagged.onnx")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(net, args, dynamo=True, verbose=False)
    assert program is not None
    program.save(str(made / "plain.onnx"))
    return made


def scopes(name_scopes: str, classes: str) -> bytes:
    """Return a model of one node with these scopes of torch."""
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in ("x", "y")]
    proto = helper.make_model(helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", values[:1], values[1:]))
    for key, value in (("name_scopes", name_scopes), ("class_hierarchy", classes)):
        proto.graph.node[0].metadata_props.add(key=f"pkg.torch.onnx.{key}", value=value)
    return bytes(proto.SerializeToString())


class TestPlainFile:
    def test_torch_scopes_give_the_tags_of_a_plain_file(self, folder: Path) -> None:
        plain, tagged = load_tagged(folder / "plain.onnx"), load_tagged(folder / "tagged.onnx")
        assert (plain.tags_from, tagged.tags_from) == ("torch", "file")
        assert {key: plain.attribution.tag(key) for key in plain.attribution.nodes} == {
            key: tagged.attribution.tag(key) for key in tagged.attribution.nodes
        }
        assert [origin.call for origin in plain.attribution.initializers["first.fc.weight"]] == ["first.fc"]

    def test_a_copy_still_says_that_its_tags_are_unproven(self, folder: Path, tmp_path: Path) -> None:
        plain = load_tagged(folder / "plain.onnx")
        plain.save(tmp_path / "copy.onnx")
        assert load_tagged(tmp_path / "copy.onnx").tags_from == "torch"
        sidecar.sidecar_path(tmp_path / "copy.onnx").unlink()
        assert load_tagged(tmp_path / "copy.onnx").tags_from == "torch"
        plain.save(tmp_path / "bare.onnx", "none")
        bare = load_tagged(tmp_path / "bare.onnx")
        assert (bare.tags_from, bare.attribution) == ("torch", plain.attribution)
        assert parse_tagged(plain.to_bytes(), "bytes").tags_from == "torch"

    def test_a_stranger_as_sidecar_does_not_hide_the_scopes(self, folder: Path, tmp_path: Path) -> None:
        (tmp_path / "plain.onnx").write_bytes((folder / "plain.onnx").read_bytes())
        (tmp_path / "plain.hierarchy.json").write_bytes((folder / "tagged.hierarchy.json").read_bytes())
        found = load_tagged(tmp_path / "plain.onnx")
        assert (found.tags_from, found.sidecar[:8]) == ("torch", "not used")

    def test_a_module_with_two_callers_has_two_calls(self) -> None:
        proto = onnx.load_from_string(scopes("['', 'a', 'act', 'relu']", "['m.Net', 'm.A', 'm.Act', 'aten']"))
        proto.graph.node.append(proto.graph.node[0])
        proto.graph.node[1].output[0] = "z"
        proto.graph.node[1].metadata_props[0].value = "['', 'b', 'act', 'relu_1']"
        found = parse_tagged(proto.SerializeToString(), "bytes").attribution
        assert [origins[0].call for origins in found.nodes.values()] == ["act", "act@1"]
        assert found.hierarchy["act@1"].parent == "b"

    @pytest.mark.parametrize(
        "written",
        [
            "['', 'a'",
            "[['', 'a']]",
            "__import__('os')",
            "(" * 300,
            "['\\N{no}', 'a']",
            "[1, 2]",
            "[]",
            "['', 'a', 'b']",
        ],
    )
    def test_scopes_that_torch_does_not_write_are_no_tags(self, written: str) -> None:
        with pytest.raises(TagError, match="none in the bytes"):
            parse_tagged(scopes(written, "['m.Net', 'aten']"), "the bytes")

    def test_scopes_of_merged_models_are_no_tags(self) -> None:
        parts = [onnx.ModelProto.FromString(scopes("['', 'relu']", f"['m.{name}', 'aten']")) for name in "AB"]
        one, other = (onnx.compose.add_prefix(proto, prefix) for proto, prefix in zip(parts, "ab", strict=True))
        merged = onnx.compose.merge_models(one, other, [("ay", "bx")])
        with pytest.raises(TagError):
            parse_tagged(merged.SerializeToString(), "the bytes")

    def test_a_stack_without_the_model_at_its_root_is_untagged(self) -> None:
        with pytest.raises(TagError):
            parse_tagged(scopes("['unknown', 'relu']", "['', 'aten']"), "the bytes")


class TestSidecar:
    def test_tags_of_a_stripped_file_come_from_its_sidecar(self, folder: Path, tmp_path: Path) -> None:
        tagged = load_tagged(folder / "tagged.onnx")
        tagged.save(tmp_path / "bare.onnx", "none")
        bare = load_tagged(tmp_path / "bare.onnx")
        assert (bare.tags_from, bare.sidecar, bare.attribution) == ("sidecar", "fits", tagged.attribution)

    def test_no_tags_anywhere_is_one_sentence(self, folder: Path, tmp_path: Path) -> None:
        proto = storage.load_proto(folder / "tagged.onnx")
        storage.attach_proto(proto, load_tagged(folder / "tagged.onnx").attribution, "none")
        (tmp_path / "bare.onnx").write_bytes(proto.SerializeToString())
        with pytest.raises(TagError, match=r"scopes that torch.*found none in .*bare.onnx"):
            load_tagged(tmp_path / "bare.onnx")


SPARSE = """
<ir_version: 10, opset_import: ["" : 20]>
g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> {
  held = Constant <value = float[2] {3, 4}> ()
  sum = Add(x, w)
  product = Mul(sum, held)
  y = Add(product, sparse)
}
"""


@pytest.mark.parametrize("width", [2, 100])
def test_a_model_in_another_folder_is_the_same(folder: Path, tmp_path: Path, width: int) -> None:
    proto = onnx.parser.parse_model(SPARSE)
    values = helper.make_tensor("sparse", TensorProto.FLOAT, [1], [5.0])
    indices = helper.make_tensor("indices", TensorProto.INT64, [1], [1])
    proto.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [2]))
    for tensor in (proto.graph.initializer[0], proto.graph.node[0].attribute[0].t):
        tensor.CopyFrom(numpy_helper.from_array(np.arange(2 * width, dtype=np.float32), tensor.name))
    onnx.save(
        proto,
        tmp_path / "made.onnx",
        save_as_external_data=True,
        location="any.bin",
        size_threshold=0,
        convert_attribute=True,
    )
    source = replace(load_tagged(folder / "tagged.onnx"), path=tmp_path / "made.onnx")
    made = storage.load_proto(tmp_path / "made.onnx")
    (tmp_path / "out").mkdir()
    attribution = Attribution(source.attribution.hierarchy)
    replace(source, proto=made, attribution=attribution).save(tmp_path / "out" / "copy.onnx", "none")
    assert (tmp_path / "out" / "copy.onnx.data").exists() == (width > 2)
    assert made == storage.load_proto(tmp_path / "made.onnx")
    loaded = (onnx.load(path) for path in (tmp_path / "out" / "copy.onnx", tmp_path / "made.onnx"))
    found, expected = (str(proto).replace("data_location: DEFAULT", "").split() for proto in loaded)
    assert found == expected


def test_a_model_from_standard_input_leaves_no_data_behind(folder: Path, tmp_path: Path) -> None:
    onnx.save(
        onnx.load(folder / "tagged.onnx"),
        tmp_path / "any.onnx",
        save_as_external_data=True,
        location="any.bin",
        size_threshold=0,
    )
    made = parse_tagged((tmp_path / "any.onnx").read_bytes(), "standard input")
    (tmp_path / "out").mkdir()
    with pytest.raises(UsageError, match=r"no .*any\.bin"):
        made.save(tmp_path / "out" / "copy.onnx")
    assert not [*(tmp_path / "out").iterdir()]
    made.save(tmp_path / "copy.onnx")
    assert load_tagged(tmp_path / "copy.onnx").attribution == made.attribution


def tensors(proto: onnx.ModelProto) -> Iterator[Any]:
    """Yield a tensor of each kind: of the graph, of an attribute, of a subgraph."""
    yield proto.graph.initializer.add()
    yield proto.graph.node[0].attribute.add(name="value", type=onnx.AttributeProto.TENSOR).t
    yield proto.graph.node[0].attribute.add(name="body", type=onnx.AttributeProto.GRAPH).g.initializer.add()


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize(
    "location", ["../secret", "/etc/passwd", "a/../../secret", "C:\\secret", "C:secret", "..\\secret", "\\\\host\\x"]
)
def test_external_data_outside_the_folder_is_refused(location: str, place: int) -> None:
    proto = onnx.load_from_string(scopes("['', 'relu']", "['m.Net', 'aten']"))
    tensor = list(tensors(proto))[place]
    tensor.data_location = TensorProto.EXTERNAL
    entry = tensor.external_data.add(key="location", value=location)
    with pytest.raises(UsageError, match="external data in the folder of the model"):
        parse_tagged(proto.SerializeToString(), "the bytes")
    entry.value = "data/weights..bin"
    assert parse_tagged(proto.SerializeToString(), "the bytes").tags_from == "torch"
