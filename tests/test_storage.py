"""Tags in files: written in place, read back equal from each place, landed whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import jsonschema
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper

from pytest_hierexport._calls.attribution import Attribution, Evidence, Origin, Origins, order_origins
from pytest_hierexport._calls.hierarchy import Call, Hierarchy
from pytest_hierexport._calls.modules import Module, Parameter
from pytest_hierexport._errors import ExportError, TagError, UsageError
from pytest_hierexport._onnx import codec, sidecar, storage
from pytest_hierexport._onnx.graph import inventory_proto, walk
from pytest_hierexport._onnx.proto_tags import TaggedProto
from schemas import strict_schema

LINEAR = "torch.nn.modules.linear.Linear"
SOURCES = ("metadata", "doc_string", "sidecar")
HIERARCHY = Hierarchy(
    [
        Call("", 0, "m.Net", None),
        Call("layer.0", 0, "m.Layer", ""),
        Call("layer.0.proj", 0, LINEAR, "layer.0"),
        Call("layer.0", 1, "m.Layer", ""),
        Call("layer.0.proj", 1, LINEAR, "layer.0@1"),
        Call("a%401", 0, "m.Größe%2F\"'", ""),
    ]
)
MODULES = (
    Module("", "m.Net"),
    Module("layer.0", "m.Layer", (Parameter("scale", (), "float32", trainable=False),)),
    Module("layer.0.proj", LINEAR, (Parameter("weight", (2, 3), "float32", trainable=True),)),
    Module("unused", LINEAR, (Parameter("weight", (2, 3), "float32", trainable=True, shared="layer.0.proj.weight"),)),
)


def traced(*names: str) -> Origins:
    return tuple(Origin(name, Evidence.TRACED) for name in names)


def value(name: str, *shape: int) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, list(shape or (2,)))


def tensor(name: str, size: int = 2, fill: float = 1.0) -> onnx.TensorProto:
    return numpy_helper.from_array(np.full(size, fill, np.float32), name)


def make_proto(fill: float = 1.0, size: int = 2) -> onnx.ModelProto:
    """Return a model with a subgraph, a function and initializers, all of it with an exporter's metadata."""
    branches = [
        helper.make_graph(
            [helper.make_node("Mul", ["t", f"k{i}"], [f"b{i}"])],
            f"b{i}",
            [],
            [value(f"b{i}", size)],
            [tensor(f"k{i}", size)],
        )
        for i in range(2)
    ]
    function = helper.make_function(
        "my.dom", "Twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])], [helper.make_opsetid("", 20)]
    )
    nodes = [
        helper.make_node("Twice", ["x"], ["s"], domain="my.dom"),
        helper.make_node("Add", ["s", "w"], ["t"], name="n"),
        helper.make_node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1]),
    ]
    inputs = [value("x", size), helper.make_tensor_value_info("c", onnx.TensorProto.BOOL, [])]
    weights = [tensor("w", size, fill), tensor("w2", size, fill)]
    graph = helper.make_graph(nodes, "g", inputs, [value("y", size)], weights, value_info=[value("t", size)])
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("my.dom", 1)]
    return helper.make_model(graph, functions=[function], opset_imports=opsets, ir_version=10)


def with_exporter_metadata(proto: onnx.ModelProto) -> onnx.ModelProto:
    parts = inventory_proto(proto)
    messages: list[Any] = [node for _, node in parts.nodes]
    messages += [initializer for _, initializer in parts.initializers]
    messages += [*parts.graphs, *parts.functions, proto, *proto.graph.input, *proto.graph.value_info]
    for message in messages:
        message.metadata_props.add(key="pkg.torch.onnx.stack_trace", value="/home/somebody/model.py")
        message.metadata_props.add(key="pkg.onnxscript.rewriter", value="rule")
        message.metadata_props.add(key="of.the.user", value="stays")
    for _, node in parts.nodes:
        node.metadata_props.add(key="namespace", value="of/another/tool")
        node.doc_string = "what another tool wrote"
    return proto


def make_attribution(*, keep: bool = False) -> Attribution:
    both = (*traced("layer.0.proj"), Origin("layer.0.proj@1", Evidence.MERGED))
    nodes = {
        "s": traced("layer.0.proj"),
        "t": both,
        "y": (Origin("a%401", Evidence.FUSED), Origin("", Evidence.DERIVED)),
        "y/else_branch/b1": (),
        "y/then_branch/b0": traced(""),
        "my%2Edom::Twice:://b": both,
    }
    initializers = {"w": traced("layer.0.proj"), "y/then_branch/k0": (Origin("a%401", Evidence.FOLDED),)}
    return Attribution(Hierarchy(HIERARCHY.values(), [LINEAR] if keep else []), nodes, initializers)


def make_model(fill: float = 1.0, size: int = 2) -> ir.Model:
    return ir.from_proto(make_proto(fill, size))


def saved(path: Path, tags: codec.Tags = "both", fill: float = 1.0, **options: Any) -> Attribution:
    model, attribution = make_model(fill, options.pop("size", 2)), make_attribution(keep=options.pop("keep", False))
    storage.attach(model, attribution, tags)
    storage.save(model, attribution, path, modules=MODULES, exporter="dynamo", **options)
    return attribution


def in_file(proto: onnx.ModelProto, source: str) -> Attribution:
    """Return the attribution of a message, which has one there."""
    found = TaggedProto(proto).read(source)
    assert found is not None
    return found


def entries(message: Any) -> dict[str, str]:
    keys = [entry.key for entry in message.metadata_props]
    assert len(set(keys)) == len(keys), "a key stands twice"
    return {entry.key: entry.value for entry in message.metadata_props}


@pytest.fixture(params=["memory", "file"])
def attached(request: pytest.FixtureRequest) -> Callable[..., onnx.ModelProto]:
    """Attach tags to a model in memory or to a message; both give a message."""

    def attach(proto: onnx.ModelProto, attribution: Attribution, tags: codec.Tags = "both") -> onnx.ModelProto:
        if request.param == "file":
            storage.attach_proto(proto, attribution, tags)
            return proto
        model = ir.from_proto(proto)
        storage.attach(model, attribution, tags)
        return ir.to_proto(model)

    return attach


class TestWhatIsWritten:
    def test_node_holds_tag_origins_and_namespace(self, attached: Callable[..., Any]) -> None:
        node = dict(walk(attached(make_proto(), make_attribution())))["t"]
        assert entries(node) == {
            "hierexport.tag": "/Net/Layer.0",
            "hierexport.origins": '[["layer.0.proj","traced"],["layer.0.proj@1","merged"]]',
            "namespace": "layer/0/proj",
        }
        assert json.loads(node.doc_string) == {
            "hierarchy_tags": ["/Net/Layer.0", "/Net/Layer.0@1"],
            "hierarchy_path": "/Net/Layer.0",
            "hierarchy_count": 2,
            "hierarchy_method": "traced",
            "origins": [["layer.0.proj", "traced"], ["layer.0.proj@1", "merged"]],
        }

    def test_nodes_of_subgraphs_and_functions_say_theirs(self, attached: Callable[..., Any]) -> None:
        nodes = dict(walk(attached(make_proto(), make_attribution())))
        assert entries(nodes["y/then_branch/b0"])["hierexport.origins"] == '[["","traced"]]'
        assert entries(nodes["y/then_branch/b0"])["namespace"] == ""
        assert entries(nodes["my%2Edom::Twice:://b"])["hierexport.tag"] == "/Net/Layer.0"

    @pytest.mark.parametrize(
        ("origins", "found"),
        [
            (traced("layer.9"), r"found the call 'layer\.9'"),
            ((("layer.0", "traced"),), r"found \('layer\.0', 'traced'\)"),
            (traced("layer.0")[0], "a tuple of origins for each node; found <origin 'layer.0', traced>"),
        ],
    )
    def test_origin_that_is_no_call_writes_nothing(self, origins: Any, found: str) -> None:
        proto = make_proto()
        before = proto.SerializeToString(deterministic=True)
        attribution = Attribution(HIERARCHY, {"t": origins})
        with pytest.raises(TagError, match=found):
            storage.attach_proto(proto, attribution)
        assert proto.SerializeToString(deterministic=True) == before

    @pytest.mark.parametrize(
        ("nodes", "initializers", "named"),
        [
            ({"no_node": traced("")}, {}, "nodes that the model has; found 'no_node'"),
            ({}, {"no_tensor": traced("")}, "initializers that the model has; found 'no_tensor'"),
            ({"t": traced("no_call")}, {}, "the calls of the hierarchy; found the call 'no_call'"),
        ],
    )
    def test_attribution_of_another_graph_is_refused(
        self, nodes: dict[str, Origins], initializers: dict[str, Origins], named: str, tmp_path: Path
    ) -> None:
        model, path, other = make_model(), tmp_path / "net.onnx", Attribution(HIERARCHY, nodes, initializers)
        saved(path)
        before = ir.to_proto(model)
        for use in (
            lambda: storage.attach(model, other),
            lambda: storage.save(model, other, tmp_path / "other.onnx"),
            lambda: storage.rewrite(path, lambda _: other),
        ):
            with pytest.raises(TagError, match=named):
                use()
        assert ir.to_proto(model) == before
        assert not (tmp_path / "other.onnx").exists()

    def test_a_node_without_origins_says_nothing(self, attached: Callable[..., Any]) -> None:
        node = dict(walk(attached(make_proto(), make_attribution())))["y/else_branch/b1"]
        assert not node.metadata_props
        assert not node.doc_string

    def test_an_initializer_says_whose_it_is_on_its_tensor(self, attached: Callable[..., Any]) -> None:
        initializers = dict(inventory_proto(attached(make_proto(), make_attribution())).initializers)
        expected = {"hierexport.tag": "/Net/Layer.0", "hierexport.origins": '[["layer.0.proj","traced"]]'}
        assert entries(initializers["w"]) == expected
        assert entries(initializers["w2"]) == {}
        assert "hierexport.tag" in entries(initializers["y/then_branch/k0"])
        assert not any(initializer.doc_string for initializer in initializers.values())

    def test_the_model_lists_its_calls_in_execution_order(self, attached: Callable[..., Any]) -> None:
        model = entries(attached(make_proto(), make_attribution()))
        assert model["hierexport.format"] == "1"
        assert list(json.loads(model["hierexport.calls"]).items())[:3] == [
            ("", [None, "m.Net"]),
            ("layer.0", ["", "m.Layer"]),
            ("layer.0.proj", ["layer.0", LINEAR]),
        ]
        assert "hierexport.keep" not in model

    def test_the_model_lists_the_classes_that_the_user_keeps(self, attached: Callable[..., Any]) -> None:
        proto = attached(make_proto(), make_attribution(keep=True))
        assert json.loads(entries(proto)["hierexport.keep"]) == [LINEAR]
        assert entries(dict(walk(proto))["s"])["hierexport.tag"] == "/Net/Layer.0/Linear"

    @pytest.mark.parametrize("tags", ["both", "metadata", "doc_string", "none"])
    def test_tags_stand_where_they_were_asked_for(self, attached: Callable[..., Any], tags: codec.Tags) -> None:
        proto = attached(make_proto(), make_attribution(), tags)
        nodes = dict(walk(proto))
        assert ("hierexport.tag" in entries(nodes["t"])) is (tags in {"both", "metadata"})
        assert bool(nodes["t"].doc_string) is (tags in {"both", "doc_string"})
        assert ("hierexport.format" in entries(proto)) is (tags != "none")

    @pytest.mark.parametrize("tags", ["both", "metadata", "doc_string", "none"])
    def test_exporters_metadata_goes_and_the_user_s_stays(self, attached: Callable[..., Any], tags: codec.Tags) -> None:
        proto = attached(with_exporter_metadata(make_proto()), make_attribution(), tags)
        assert b"pkg." not in proto.SerializeToString()
        assert b"of/another/tool" not in proto.SerializeToString()
        parts = inventory_proto(proto)
        for message in (*(n for _, n in parts.nodes), *(t for _, t in parts.initializers), *parts.graphs, proto):
            assert entries(message)["of.the.user"] == "stays"

    @pytest.mark.parametrize("first", ["both", "metadata", "doc_string"])
    @pytest.mark.parametrize("second", ["both", "metadata", "doc_string", "none"])
    def test_attaching_again_leaves_no_trace_of_the_first_time(
        self, attached: Callable[..., Any], first: str, second: str
    ) -> None:
        other = Attribution(HIERARCHY, dict.fromkeys(make_attribution().nodes, traced("")), {"w2": traced("")})
        twice = attached(attached(make_proto(), other, first), make_attribution(), second)
        once = attached(make_proto(), make_attribution(), second)
        assert twice.SerializeToString(deterministic=True) == once.SerializeToString(deterministic=True)

    def test_memory_and_file_give_the_same_bytes(self) -> None:
        model, proto = make_model(), ir.to_proto(make_model())
        storage.attach(model, make_attribution())
        storage.attach_proto(proto, make_attribution())
        assert ir.to_proto(model).SerializeToString() == proto.SerializeToString()

    def test_doc_string_of_an_untagged_node_stays(self, attached: Callable[..., Any]) -> None:
        proto = make_proto()
        proto.graph.node[0].doc_string = "of the user"
        assert attached(proto, Attribution(HIERARCHY, {}), "both").graph.node[0].doc_string == "of the user"

    def test_doc_strings_with_keys_in_another_order_go(self, attached: Callable[..., Any]) -> None:
        proto = attached(make_proto(), make_attribution(), "both")
        for _, node in inventory_proto(proto).nodes:
            node.doc_string = json.dumps(json.loads(node.doc_string or "{}"), sort_keys=True)
        without = attached(proto, make_attribution(), "none")
        assert {node.doc_string for _, node in inventory_proto(without).nodes} <= {"", "{}"}

    def test_model_without_its_tags_is_the_model_before(self) -> None:
        proto = make_proto()
        storage.attach_proto(proto, make_attribution())
        storage.attach_proto(proto, make_attribution(), "none")
        assert proto == make_proto()

    def test_initializers_sharing_one_tensor_have_a_tag_each(self) -> None:
        for data in (ir.tensor(np.ones(2, np.float32)), ir.StringTensor([b"a", b"b"], shape=ir.Shape([2]))):
            values = [ir.Value(name=name, const_value=data) for name in ("u", "v")]
            graph = ir.Graph([], [], nodes=[], initializers=values, opset_imports={"": 20}, name="g")
            model = ir.Model(graph, ir_version=10)
            origins = {"u": traced("layer.0"), "v": traced("a%401")}
            storage.attach(model, Attribution(HIERARCHY, {}, origins))
            assert in_file(ir.to_proto(model), "metadata").initializers == origins

    def test_an_unknown_place_for_tags_is_a_usage_error(self) -> None:
        with pytest.raises(UsageError, match="both, metadata, doc_string, none"):
            storage.attach(make_model(), make_attribution(), "everywhere")  # type: ignore[arg-type]


class TestReadingBack:
    @pytest.mark.parametrize("source", SOURCES)
    @pytest.mark.parametrize("keep", [False, True])
    def test_each_place_alone_gives_the_attribution_back(self, tmp_path: Path, source: str, *, keep: bool) -> None:
        path = tmp_path / "model.onnx"
        attribution = saved(path, keep=keep)
        if source != "sidecar":
            sidecar.sidecar_path(path).unlink()
        if source != "metadata":
            forget(path, "node metadata", "tensor metadata")
        if source != "doc_string":
            forget(path, "doc strings")
        if source == "sidecar":
            attribution = saved(path, "none", keep=keep)
        assert storage.read(path, source) == attribution
        assert storage.read(path) == attribution

    @pytest.mark.parametrize(("tags", "source"), [("metadata", "metadata"), ("doc_string", "doc_string")])
    def test_tags_in_one_place_are_enough(self, tmp_path: Path, tags: codec.Tags, source: str) -> None:
        attribution = saved(tmp_path / "model.onnx", tags)
        assert storage.read(tmp_path / "model.onnx", source) == attribution

    @pytest.mark.parametrize(
        ("tags", "source"), [("metadata", "doc_string"), ("doc_string", "metadata"), ("none", "metadata")]
    )
    def test_what_is_not_there_is_said_to_be_missing(self, tmp_path: Path, tags: codec.Tags, source: str) -> None:
        saved(tmp_path / "model.onnx", tags)
        with pytest.raises(TagError, match=f"tags in its {source}"):
            storage.read(tmp_path / "model.onnx", source)

    def test_external_data_is_not_opened(self, tmp_path: Path) -> None:
        attribution = saved(tmp_path / "model.onnx", size=1000, external_data=True)
        (tmp_path / "model.onnx.data").unlink()
        for source in SOURCES:
            assert storage.read(tmp_path / "model.onnx", source) == attribution

    def test_a_model_without_tags_and_without_a_sidecar_is_refused(self, tmp_path: Path) -> None:
        onnx.save(make_proto(), tmp_path / "plain.onnx")
        with pytest.raises(TagError, match="none in"):
            storage.read(tmp_path / "plain.onnx")

    def test_a_graph_without_nodes_has_an_attribution_all_the_same(self) -> None:
        graph = helper.make_graph([], "g", [], [value("w")], [tensor("w")])
        proto = helper.make_model(graph, ir_version=10)
        attribution = Attribution(HIERARCHY, {}, {"w": traced("layer.0")})
        storage.attach_proto(proto, attribution)
        assert in_file(proto, "metadata") == in_file(proto, "doc_string") == attribution

    def test_an_empty_graph_has_an_attribution_all_the_same(self) -> None:
        proto = helper.make_model(helper.make_graph([], "g", [value("x")], [value("x")]), ir_version=10)
        storage.attach_proto(proto, Attribution(HIERARCHY, {}))
        assert in_file(proto, "metadata") == in_file(proto, "doc_string") == Attribution(HIERARCHY, {})

    def test_an_unknown_format_is_named(self, tmp_path: Path) -> None:
        path = tmp_path / "model.onnx"
        saved(path)
        change(path, lambda proto: set_entry(proto, "hierexport.format", "2"))
        with pytest.raises(TagError, match="found format 2"):
            storage.read(path)

    @pytest.mark.parametrize(
        ("key", "text", "message"),
        [
            ("hierexport.calls", "{", "JSON in the entry hierexport.calls"),
            ("hierexport.calls", "[]", "calls as an object"),
            ("hierexport.calls", '{"a":["b","m.C"]}', "calls as an object"),
            ("hierexport.calls", '{"":[null,7]}', "calls as an object"),
            ("hierexport.calls", '{"":[null,"m.Net"]}', "among the calls that the file lists"),
            ("hierexport.keep", '"torch"', "the kept classes as a list"),
            ("hierexport.initializers", "[]", "initializers as an object"),
        ],
    )
    def test_model_entries_that_were_changed_are_refused(
        self, tmp_path: Path, key: str, text: str, message: str
    ) -> None:
        path = tmp_path / "model.onnx"
        saved(path)
        change(path, lambda proto: set_entry(proto, key, text))
        with pytest.raises(TagError, match=message):
            storage.read(path)

    @pytest.mark.parametrize(
        ("key", "text", "message"),
        [
            ("hierexport.origins", "[", "JSON in the entry hierexport.origins"),
            ("hierexport.origins", "7", "a list of"),
            ("hierexport.origins", '[[["x"],"traced"]]', "a list of"),
            ("hierexport.origins", '[["layer.0","guessed"]]', "a list of"),
            ("hierexport.origins", '[["layer.7","traced"]]', "the call 'layer.7'"),
            ("hierexport.tag", "/Net/Layer.1", "the tag '/Net/Layer.0'"),
        ],
    )
    def test_node_entries_that_were_changed_are_refused_by_node(
        self, tmp_path: Path, key: str, text: str, message: str
    ) -> None:
        path = tmp_path / "model.onnx"
        saved(path, "metadata")
        change(path, lambda proto: set_entry(dict(walk(proto))["t"], key, text))
        with pytest.raises(TagError, match=f"at 't' .*{message}"):
            storage.read(path, "metadata")

    @pytest.mark.parametrize("part", ["hierarchy_tags", "hierarchy_path", "origins"])
    def test_doc_strings_that_contradict_themselves_are_refused(self, tmp_path: Path, part: str) -> None:
        path = tmp_path / "model.onnx"
        saved(path, "doc_string")

        def shift(proto: onnx.ModelProto) -> None:
            node = dict(walk(proto))["t"]
            doc = json.loads(node.doc_string)
            doc[part] = {"hierarchy_path": "/Net"}.get(part, doc[part][::-1])
            node.doc_string = json.dumps(doc)

        change(path, shift)
        with pytest.raises(TagError, match="follow"):
            storage.read(path, "doc_string")

    @pytest.mark.parametrize("doc_string", ["of another tool", '{"json":"of another tool"}', "{", "[]", "[" * 100_000])
    def test_doc_strings_of_other_tools_say_nothing(self, doc_string: str) -> None:
        proto = make_proto()
        storage.attach_proto(proto, make_attribution())
        dict(walk(proto))["t"].doc_string = doc_string
        assert in_file(proto, "doc_string").nodes["t"] == ()

    def test_an_unknown_source_is_a_usage_error(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="source to be one of"):
            storage.read(tmp_path / "model.onnx", "names")


CALLS = st.sampled_from(list(HIERARCHY))
ORIGINS = st.lists(st.builds(Origin, CALLS, st.sampled_from(Evidence)), max_size=3).map(
    lambda origins: order_origins(HIERARCHY, origins)
)


@settings(deadline=None)
@given(
    st.fixed_dictionaries(dict.fromkeys(make_attribution().nodes, ORIGINS)), ORIGINS, st.sampled_from([[], [LINEAR]])
)
def test_any_attribution_survives_in_every_place(nodes: dict[str, Origins], owners: Origins, keep: list[str]) -> None:
    nodes["s"] = nodes["s"] or traced("")
    attribution = Attribution(Hierarchy(HIERARCHY.values(), keep), nodes, {"w": owners})
    proto = make_proto()
    storage.attach_proto(proto, attribution)
    assert in_file(proto, "metadata") == attribution
    assert in_file(proto, "doc_string") == attribution
    written = sidecar.compose(proto, "0" * 64, attribution, MODULES, "dynamo")
    assert sidecar.parse(sidecar.to_text(written)) == written


def change(path: Path, edit: Callable[[onnx.ModelProto], object]) -> None:
    proto = storage.load_proto(path)
    edit(proto)
    path.write_bytes(proto.SerializeToString())


def set_entry(message: Any, key: str, text: str) -> None:
    kept = {**entries(message), key: text}
    del message.metadata_props[:]
    for name in sorted(kept):
        message.metadata_props.add(key=name, value=kept[name])


def forget(path: Path, *parts: str) -> None:
    def edit(proto: onnx.ModelProto) -> None:
        for _, node in walk(proto):
            if "node metadata" in parts:
                node.ClearField("metadata_props")
            if "doc strings" in parts:
                node.ClearField("doc_string")
        for _, initializer in inventory_proto(proto).initializers:
            if "tensor metadata" in parts:
                initializer.ClearField("metadata_props")

    change(path, edit)


class TestSidecar:
    def test_it_is_named_after_its_file(self) -> None:
        assert sidecar.sidecar_path("to/model.onnx") == Path("to/model.hierarchy.json")
        assert sidecar.sidecar_path("to/MODEL.ONNX") == Path("to/MODEL.hierarchy.json")
        assert sidecar.sidecar_path("to/model.v2") == Path("to/model.v2.hierarchy.json")

    def test_it_says_what_the_file_says_and_more(self, tmp_path: Path) -> None:
        path = tmp_path / "model.onnx"
        attribution = saved(path)
        found = sidecar.read_sidecar(path)
        assert found.attribution == attribution
        assert found.modules == MODULES
        assert (found.inputs, found.outputs) == (("x", "c"), ("y",))
        assert found.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
        assert found.exporter == "dynamo"
        assert found.versions["onnx"] == onnx.__version__

    def test_keys_of_a_later_release_are_ignored(self, tmp_path: Path) -> None:
        known, sidecar = saved(tmp_path / "model.onnx", keep=True), tmp_path / "model.hierarchy.json"
        document = json.loads(sidecar.read_text())
        modules = document["modules"]
        for part in (document, *modules, *(tensor for module in modules for tensor in module["parameters"])):
            part["later"] = {"any": "thing"}
        sidecar.write_text(json.dumps(document))
        assert storage.read(tmp_path / "model.onnx", "sidecar") == known

    def test_it_follows_the_schema_in_the_package(self, tmp_path: Path) -> None:
        saved(tmp_path / "model.onnx", keep=True)
        document = json.loads((tmp_path / "model.hierarchy.json").read_text())
        jsonschema.Draft202012Validator.check_schema(strict_schema("sidecar"))
        jsonschema.validate(document, strict_schema("sidecar"))
        assert document["modules"][2]["count"] == 6
        assert document["modules"][1]["count"] == 0

    def test_a_sidecar_of_another_file_is_noticed(self, tmp_path: Path) -> None:
        saved(tmp_path / "model.onnx")
        saved(tmp_path / "other.onnx", fill=2.0)
        shutil.copy(tmp_path / "other.onnx", tmp_path / "model.onnx")
        with pytest.raises(TagError, match="SHA-256"):
            sidecar.read_sidecar(tmp_path / "model.onnx")

    def test_a_missing_sidecar_is_said_to_be_missing(self, tmp_path: Path) -> None:
        onnx.save(make_proto(), tmp_path / "model.onnx")
        with pytest.raises(TagError, match="No such file"):
            sidecar.read_sidecar(tmp_path / "model.onnx")

    @pytest.mark.parametrize(
        ("edit", "message"),
        [
            (lambda d: d.pop("nodes"), "'nodes' is a required property"),
            (lambda d: d.update(format=3), "found format 3"),
            (lambda d: d["nodes"]["t"]["origins"].append(["", "guessed"]), r"\$\.nodes\.t\.origins"),
            (lambda d: d["nodes"]["t"].update(tag="/Net"), "the tag '/Net/Layer.0'"),
            (lambda d: d["nodes"].pop("t"), "the coverage"),
            (lambda d: d["nodes"]["t"].update(origins=[["gone", "traced"]]), "the call 'gone'"),
            (lambda d: d["calls"].update(z=["gone", "m.Z"]), "before its parent"),
            (lambda d: d["modules"][0].update(count=-1), "less than the minimum"),
        ],
    )
    def test_a_sidecar_that_was_changed_is_refused(
        self, tmp_path: Path, edit: Callable[[Any], object], message: str
    ) -> None:
        path = tmp_path / "model.hierarchy.json"
        saved(tmp_path / "model.onnx")
        document = json.loads(path.read_text())
        edit(document)
        path.write_text(json.dumps(document))
        with pytest.raises(TagError, match=message):
            sidecar.read_sidecar(tmp_path / "model.onnx")

    @pytest.mark.parametrize("content", [b"", b"{", b"[]", b"7", b"\xff\xfe"])
    def test_what_is_no_sidecar_at_all_is_refused(self, tmp_path: Path, content: bytes) -> None:
        saved(tmp_path / "model.onnx")
        (tmp_path / "model.hierarchy.json").write_bytes(content)
        with pytest.raises(TagError):
            sidecar.read_sidecar(tmp_path / "model.onnx")


class TestLoading:
    @pytest.mark.parametrize("content", [b"", b"not ONNX at all", b"\x00" * 100, b"PK\x03\x04", b"\x08\x0a"])
    def test_a_file_that_is_not_onnx_is_a_usage_error(self, tmp_path: Path, content: bytes) -> None:
        (tmp_path / "model.onnx").write_bytes(content)
        with pytest.raises(UsageError, match=r"model\.onnx to be an ONNX file"):
            storage.load_proto(tmp_path / "model.onnx")

    @pytest.mark.parametrize("name", ["", "missing.onnx"])
    def test_no_file_at_all_is_a_usage_error(self, tmp_path: Path, name: str) -> None:
        with pytest.raises(UsageError, match="to be an ONNX file"):
            storage.read(tmp_path / name)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


class Crash(BaseException):
    """The machine goes down: no handler of ours may count on running after it."""


@pytest.fixture
def broken_replace(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, BaseException], None]:
    """Let the moves into the folder under test fail from the n-th on."""
    real = os.replace

    def arm(step: int, error: BaseException) -> None:
        done: list[str] = []

        def replace(source: str | Path, target: str | Path) -> None:
            if ".hierexport-" in str(Path(target).parent):
                real(source, target)
                return
            if len(done) == step:
                raise error
            done.append(str(target))
            real(source, target)

        monkeypatch.setattr(os, "replace", replace)

    return arm


class TestSaving:
    @pytest.mark.parametrize("external_data", [False, True])
    def test_the_files_are_the_same_on_every_run(self, tmp_path: Path, *, external_data: bool) -> None:
        for run in ("one", "two"):
            (tmp_path / run).mkdir()
            saved(tmp_path / run / "model.onnx", size=1000, external_data=external_data)
        assert files(tmp_path / "one") == files(tmp_path / "two")
        assert ("model.onnx.data" in files(tmp_path / "one")) is external_data

    @pytest.mark.parametrize("external_data", [None, False, True])
    def test_tensors_and_tags_survive_wherever_the_tensors_lie(
        self, tmp_path: Path, *, external_data: bool | None
    ) -> None:
        attribution = saved(tmp_path / "model.onnx", fill=3.0, size=1000, external_data=external_data)
        onnx.checker.check_model(tmp_path / "model.onnx", full_check=True)
        loaded = onnx.load(tmp_path / "model.onnx")
        assert numpy_helper.to_array(loaded.graph.initializer[0]).tolist() == [3.0] * 1000
        assert storage.read(tmp_path / "model.onnx", "metadata") == attribution

    def test_saving_leaves_the_model_in_memory_as_it_was(self, tmp_path: Path) -> None:
        model = make_model(size=1000)
        storage.attach(model, make_attribution())
        before = {name: value.const_value for name, value in model.graph.initializers.items()}
        storage.save(model, make_attribution(), tmp_path / "model.onnx", external_data=True)
        assert {name: value.const_value for name, value in model.graph.initializers.items()} == before

    def test_large_models_go_outside_by_themselves(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("pytest_hierexport._onnx.saving._EXTERNAL_ABOVE", 8000)
        saved(tmp_path / "small.onnx", size=400)
        saved(tmp_path / "large.onnx", size=1000)
        assert sorted(files(tmp_path)) == [
            "large.hierarchy.json",
            "large.onnx",
            "large.onnx.data",
            "small.hierarchy.json",
            "small.onnx",
        ]

    @pytest.mark.parametrize("external_data", [False, True])
    def test_tensors_in_another_folder_move_with_the_model(self, tmp_path: Path, *, external_data: bool) -> None:
        (tmp_path / "there").mkdir()
        saved(tmp_path / "model.onnx", fill=5.0, size=1000, external_data=True)
        model = ir.load(tmp_path / "model.onnx")
        attribution = storage.read(tmp_path / "model.onnx")
        storage.attach(model, attribution)
        storage.save(model, attribution, tmp_path / "there" / "m.onnx", external_data=external_data)
        (tmp_path / "model.onnx.data").unlink()
        loaded = onnx.load(tmp_path / "there" / "m.onnx")
        assert numpy_helper.to_array(loaded.graph.initializer[0]).tolist() == [5.0] * 1000
        assert storage.read(tmp_path / "there" / "m.onnx", "metadata") == attribution

    def test_loaded_model_is_saved_with_each_entry_once(self, tmp_path: Path) -> None:
        attribution = saved(tmp_path / "model.onnx")
        storage.save(ir.load(tmp_path / "model.onnx"), attribution, tmp_path / "again.onnx")
        before, after = (inventory_proto(onnx.load(path)).initializers for path in sorted(tmp_path.glob("*.onnx")))
        for (_, one), (_, two) in zip(before, after, strict=True):
            assert sorted(each.key for each in one.metadata_props) == sorted(each.key for each in two.metadata_props)

    def test_model_is_saved_over_its_own_external_data(self, tmp_path: Path) -> None:
        path = tmp_path / "model.onnx"
        saved(path, fill=5.0, size=1000, external_data=True)
        before = files(tmp_path)
        model = ir.load(path)
        attribution = storage.read(path)
        storage.attach(model, attribution)
        storage.save(model, attribution, path, external_data=True)
        assert files(tmp_path).keys() == before.keys()
        assert files(tmp_path)["model.onnx.data"] == before["model.onnx.data"]

    def test_strings_stay_in_the_model(self, tmp_path: Path) -> None:
        text = ir.StringTensor([b"word"] * 500, shape=ir.Shape([500]))
        words = ir.Value(name="words", const_value=text)
        graph = ir.Graph([], [words], nodes=[], initializers=[words], opset_imports={"": 20}, name="g")
        attribution = Attribution(HIERARCHY)
        storage.save(ir.Model(graph, ir_version=10), attribution, tmp_path / "m.onnx", external_data=True)
        assert sorted(files(tmp_path)) == ["m.hierarchy.json", "m.onnx"]

    @pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "no space left"), Crash()])
    @pytest.mark.parametrize("step", [0, 1, 2])
    def test_crash_leaves_no_mixed_pair_of_files_that_passes(
        self,
        tmp_path: Path,
        broken_replace: Callable[[int, BaseException], None],
        step: int,
        error: BaseException,
    ) -> None:
        path = tmp_path / "model.onnx"
        saved(path, fill=1.0, size=1000, external_data=True)
        old = files(tmp_path)
        (tmp_path / "new").mkdir()
        saved(tmp_path / "new" / "model.onnx", fill=2.0, size=1000, external_data=True, keep=True)
        new = files(tmp_path / "new")
        shutil.rmtree(tmp_path / "new")

        broken_replace(step, error)
        with pytest.raises((ExportError, Crash)):
            saved(path, fill=2.0, size=1000, external_data=True, keep=True)

        found = files(tmp_path)
        assert found.keys() == old.keys(), "something was left behind"
        landed = ["model.onnx", "model.onnx.data", "model.hierarchy.json"][:step]
        assert found == {name: (new if name in landed else old)[name] for name in old}
        if step == 0:
            assert sidecar.read_sidecar(path).attribution == make_attribution()
        else:
            with pytest.raises(TagError, match="SHA-256"):
                sidecar.read_sidecar(path)

    def test_a_full_disk_is_noticed_before_anything_moves(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "model.onnx"
        saved(path)
        old = files(tmp_path)

        def full(_: int) -> NoReturn:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(ExportError, match="No space left on device"):
            saved(path, fill=2.0)
        assert files(tmp_path) == old

    def test_a_folder_that_does_not_exist_is_an_export_error(self, tmp_path: Path) -> None:
        with pytest.raises(ExportError, match=r"No such file or directory: .*/missing\n"):
            saved(tmp_path / "missing" / "model.onnx")
        assert not list(tmp_path.iterdir())

    def test_a_folder_that_is_a_file_is_an_export_error(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(ExportError, match="Not a directory"):
            saved(tmp_path / "file" / "model.onnx")

    @pytest.mark.parametrize("name", ["model.onnx", "model.hierarchy.json"])
    def test_folder_in_place_of_a_file_changes_nothing(self, tmp_path: Path, name: str) -> None:
        (tmp_path / name).mkdir()
        with pytest.raises(ExportError, match="a folder is in the way"):
            saved(tmp_path / "model.onnx")
        assert [path.name for path in tmp_path.iterdir()] == [name]

    @pytest.mark.parametrize("path", ["", ".", "/"])
    def test_path_without_a_name_is_an_export_error(self, path: str) -> None:
        with pytest.raises(ExportError, match="a folder is in the way"):
            saved(Path(path))

    def test_a_tensor_that_gives_no_data_is_an_export_error(self, tmp_path: Path) -> None:
        def nothing() -> NoReturn:
            raise RuntimeError("this tensor has no storage")

        lazy = ir.LazyTensor(nothing, dtype=ir.DataType.FLOAT, shape=ir.Shape([2]))
        words = ir.Value(name="w", const_value=lazy)
        graph = ir.Graph([], [words], nodes=[], initializers=[words], opset_imports={"": 20}, name="g")
        with pytest.raises(ExportError, match="this tensor has no storage"):
            storage.save(ir.Model(graph, ir_version=10), Attribution(HIERARCHY), tmp_path / "m.onnx")
        assert not list(tmp_path.iterdir())


class TestRewriting:
    def test_tags_change_and_tensors_and_sidecar_stay_true(self, tmp_path: Path) -> None:
        path = tmp_path / "model.onnx"
        saved(path, size=1000, external_data=True)
        data = (tmp_path / "model.onnx.data").read_bytes()
        nodes = dict.fromkeys(make_attribution().nodes, traced("a%401"))
        wanted = storage.rewrite(path, lambda found: Attribution(found.hierarchy, nodes, found.initializers))
        assert wanted.nodes == nodes
        for source in SOURCES:
            assert storage.read(path, source) == wanted
        assert (tmp_path / "model.onnx.data").read_bytes() == data
        assert sidecar.read_sidecar(path).modules == MODULES

    def test_rewriting_what_is_there_changes_no_byte(self, tmp_path: Path) -> None:
        saved(tmp_path / "model.onnx")
        before = files(tmp_path)
        storage.rewrite(tmp_path / "model.onnx", lambda found: found)
        assert files(tmp_path) == before

    def test_tags_move_from_the_sidecar_into_the_file(self, tmp_path: Path) -> None:
        attribution = saved(tmp_path / "model.onnx", "none")
        storage.rewrite(tmp_path / "model.onnx", lambda found: found, tags="both")
        for source in SOURCES:
            assert storage.read(tmp_path / "model.onnx", source) == attribution

    def test_initializers_that_a_tool_removed_are_left_out(self, tmp_path: Path) -> None:
        path = tmp_path / "model.onnx"
        attribution = saved(path)
        sidecar.sidecar_path(path).unlink()
        change(path, lambda proto: setattr(dict(inventory_proto(proto).initializers)["w"], "name", "w_quantized"))
        written = storage.rewrite(path, lambda found: found)
        assert written.initializers.keys() == attribution.initializers.keys() - {"w"}

    def test_a_file_without_a_sidecar_gets_none(self, tmp_path: Path) -> None:
        saved(tmp_path / "model.onnx")
        sidecar.sidecar_path(tmp_path / "model.onnx").unlink()
        storage.rewrite(tmp_path / "model.onnx", lambda found: found, tags="metadata")
        assert list(files(tmp_path)) == ["model.onnx"]

    def test_a_sidecar_of_another_file_stops_it(self, tmp_path: Path) -> None:
        saved(tmp_path / "model.onnx")
        change(tmp_path / "model.onnx", lambda proto: setattr(proto, "producer_name", "another"))
        before = files(tmp_path)
        with pytest.raises(TagError, match="SHA-256"):
            storage.rewrite(tmp_path / "model.onnx", lambda found: found)
        assert files(tmp_path) == before


def test_class_module_outside_utf_8_can_be_stored() -> None:
    hierarchy = Hierarchy([Call("", 0, "\ud800.Net", None)])
    proto = make_proto()
    attribution = Attribution(hierarchy, {key: traced("") for key, _ in walk(proto)})
    storage.attach_proto(proto, attribution)
    assert in_file(proto, "doc_string") == attribution
    assert codec.hierarchy_from_entries(entries(proto)) == hierarchy


class TestDocumentation:
    """docs/file-format.md shows what the code writes."""

    TEXT = (Path(__file__).parent.parent / "docs" / "file-format.md").read_text(encoding="utf-8")
    BLOCKS = tuple(block.partition("```")[0] for block in TEXT.split("```json\n")[1:])

    def test_its_sidecar_follows_the_schema_and_is_written_as_shown(self) -> None:
        shown = self.BLOCKS[1]
        assert sidecar.to_text(sidecar.parse(shown)) == shown

    def test_doc_string_equals_that_of_the_sidecar_node(self) -> None:
        attribution = sidecar.parse(self.BLOCKS[1]).attribution
        texts = codec.Writer(attribution).texts(attribution.nodes["linear_1"])
        assert texts.doc_string == self.BLOCKS[0].strip()

    def test_it_names_every_key(self) -> None:
        keys = {
            codec.FORMAT,
            codec.CALLS,
            codec.KEEP,
            codec.INITIALIZERS,
            *codec.NODE_KEYS,
            *strict_schema("sidecar")["required"],
        }
        assert not [key for key in keys if f"`{key}`" not in self.TEXT]
