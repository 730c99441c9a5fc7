"""Modules on devices: settings that ONNX Runtime obeys, shown by the session's own report of assignments."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import TensorProto, helper

from named_models import tagged_model
from pytest_hierexport import UsageError, annotate_nodes, place_nodes, read, rename_nodes, walk
from pytest_hierexport._calls.attribution import Attribution, Evidence, Origin
from pytest_hierexport._calls.hierarchy import Call, Hierarchy
from pytest_hierexport._onnx import storage
from pytest_hierexport.cli import main

CPU = "CPUExecutionProvider"
OTHER = "OpenVINOExecutionProvider"
BY_NAME = "session.name_based_layer_assignment"
BY_ANNOTATION = "session.layer_assignment_settings"


@pytest.fixture
def named() -> onnx.ModelProto:
    """The model with its nodes named after their modules."""
    proto = tagged_model()
    rename_nodes(proto, attribution_of(proto))
    return proto


def attribution_of(proto: onnx.ModelProto) -> Attribution:
    from pytest_hierexport._onnx.proto_tags import TaggedProto

    return storage.read_tagged(TaggedProto(proto), Path("none"))


def chain(count: int, module: str = "layer.10") -> onnx.ModelProto:
    """Return a tagged chain of nodes, all of one module, under such names as exporters give."""
    nodes = [helper.make_node("Erf", [f"v{i}"], [f"v{i + 1}"], name=f"/{module}/Erf_{i}") for i in range(count)]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("v0", f"v{count}")]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    calls = [Call("", 0, "m.Net", None), Call(module, 0, "m.Layer", "")]
    origin = Origin(module, Evidence.TRACED)
    storage.attach_proto(proto, Attribution(Hierarchy(calls), {f"v{i + 1}": (origin,) for i in range(count)}))
    return proto


def report(proto: onnx.ModelProto, settings: dict[str, str], devices: Any = ()) -> dict[str, list[str]]:
    """Load a session with these settings and return the names of the nodes that each provider got."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    for key, value in {"session.record_ep_graph_assignment_info": "1", **settings}.items():
        options.add_session_config_entry(key, value)
    if devices:
        options.add_provider_for_devices(devices, {})
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), options, **({} if devices else {"providers": [CPU]})
    )
    found: dict[str, list[str]] = {}
    for part in session.get_provider_graph_assignment_info():
        found.setdefault(part.ep_name, []).extend(node.name for node in part.get_nodes())
    return {provider: sorted(names) for provider, names in found.items()}


@pytest.fixture
def second_provider() -> Iterator[Any]:
    """The devices of a second execution provider, which takes what the rules leave to it."""
    package = pytest.importorskip("onnxruntime_ep_openvino")
    onnxruntime.register_execution_provider_library("second", package.get_library_path())
    try:
        devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == OTHER]
        if not devices:
            pytest.skip(f"{OTHER} finds no device on this machine")
        yield devices
    finally:
        onnxruntime.unregister_execution_provider_library("second")


def test_placement_takes_the_shortest_part_of_names(named: onnx.ModelProto) -> None:
    assert place_nodes(named, "layer.1@0", "gpu") == {BY_NAME: "gpu(/layer.1/)"}
    assert place_nodes(named, "layer.1", "gpu:1") == {BY_NAME: "gpu:1(/layer.1/,/layer.1@1/)"}
    assert place_nodes(named, "layer.10", CPU) == {BY_NAME: f"{CPU}(/layer.10/)"}
    assert place_nodes(named, "shared", "cpu") == {BY_NAME: "cpu(/layer.10/.shared/)"}
    assert place_nodes(named, "layer.1.proj", "cpu") == {BY_NAME: "cpu(/layer.1/proj/)"}
    assert place_nodes(named, "/Net", "cpu") == {BY_NAME: "cpu(/layer.1/,/If,/layer.10/,/layer.1@1/)"}


def test_placed_parts_are_in_the_selected_names_alone(named: onnx.ModelProto) -> None:
    (rule,) = place_nodes(named, ["layer.10"], "cpu", origins="any").values()
    parts = rule.removeprefix("cpu(").removesuffix(")").split(",")
    found = {key for key, node in walk(named) if any(part in node.name for part in parts)}
    assert found == {"chosen/else_branch/e", "mask", "twice", "my::Twice:://sum"}


def test_a_name_within_another_is_refused() -> None:
    proto = tagged_model()
    proto.graph.node[-1].name = "node_00"
    with pytest.raises(UsageError, match="part of another") as raised:
        place_nodes(proto, "layer.1@0", "cpu")
    assert "hierexport rename" in raised.value.do


def test_other_nodes_need_no_name() -> None:
    model = ir.from_proto(tagged_model())
    *_, last = model.graph
    last.name = None
    assert place_nodes(model, "layer.1@0", "cpu") == place_nodes(tagged_model(), "layer.1@0", "cpu")


@pytest.mark.parametrize("name", ["a,b", "a)b", "a;b", " a", "=a"])
def test_a_name_that_a_setting_cannot_hold_is_refused(name: str) -> None:
    proto = chain(1)
    proto.graph.node[0].name = name
    with pytest.raises(UsageError, match=r"names without .* cannot hold"):
        place_nodes(proto, "layer.10", "cpu")
    for place in (place_nodes, annotate_nodes):
        with pytest.raises(UsageError, match=r"a device without .* cannot hold") as raised:
            place(proto, "layer.10", name)
        assert "layer_ann" not in raised.value.do


def test_a_setting_is_refused_only_where_onnx_runtime_refuses_it() -> None:
    proto = chain(2)
    longest = 8192 - len("cpu(,)")
    for length in (longest, longest + 1):
        proto.graph.node[0].name, proto.graph.node[1].name = "a" * 10, "b" * (length - 10)
        setting = f"cpu({'a' * 10},{'b' * (length - 10)})"
        if length == longest:
            assert place_nodes(proto, "layer.10", "cpu") == {BY_NAME: setting}
            assert len(report(proto, {BY_NAME: setting})[CPU]) == 2
            continue
        with pytest.raises(UsageError, match="8,192"):
            place_nodes(proto, "layer.10", "cpu")
        with pytest.raises(RuntimeError, match="8192"):
            report(proto, {BY_NAME: setting})


def test_annotations_mark_the_selected_nodes_alone(named: onnx.ModelProto) -> None:
    expected = {"neg", "chosen/then_branch/t", "mask", "again"}
    for model in (named, ir.from_proto(tagged_model())):
        assert annotate_nodes(model, "layer.1", "gpu:1") == {BY_ANNOTATION: "gpu:1(=hierexport.gpu:1)"}
        annotate_nodes(model, "layer.1", "gpu:1")
        proto = model if isinstance(model, onnx.ModelProto) else ir.to_proto(model)
        found = {
            key: [entry.value for entry in node.metadata_props if entry.key == "layer_ann"] for key, node in walk(proto)
        }
        assert {key for key, values in found.items() if values == ["hierexport.gpu:1"]} == expected
        assert not any(values for key, values in found.items() if key not in expected)
        assert attribution_of(proto) == attribution_of(tagged_model())


def test_the_report_of_a_session_lists_what_was_placed(named: onnx.ModelProto) -> None:
    settings = place_nodes(named, ["layer.1", "layer.10"], CPU)
    placed = report(named, settings)[CPU]
    parts = settings[BY_NAME].removeprefix(f"{CPU}(").removesuffix(")").split(",")
    # The function's node is inlined, and its body's named after it.
    assert {name for name in placed if not any(part in name for part in parts)} == {"/If"}
    annotated = annotate_nodes(named, ["layer.1", "layer.10"], CPU)
    assert report(named, annotated) == {CPU: placed}
    with pytest.raises(Exception, match="mutually exclusive"):
        report(named, {**settings, **annotated})


def test_a_second_provider_gets_what_is_not_placed(second_provider: Any) -> None:
    proto = chain(3)
    everything = sorted(node.name for node in proto.graph.node)
    assert report(proto, {}, second_provider) == {OTHER: everything}
    assert report(proto, place_nodes(proto, "layer.10", CPU), second_provider) == {CPU: everything}
    # A careless pattern takes the wrong module; ours for the module of that name does not.
    assert report(proto, {BY_NAME: f"{CPU}(/layer.1)"}, second_provider) == {CPU: everything}
    assert report(proto, place_nodes(chain(3, "layer.1"), "layer.1", CPU), second_provider) == {OTHER: everything}


def test_a_second_provider_respects_whole_annotations(second_provider: Any) -> None:
    proto = chain(3)
    everything = sorted(node.name for node in proto.graph.node)
    setting = annotate_nodes(proto, "layer.10", CPU)
    assert report(proto, setting, second_provider) == {CPU: everything}
    begun = {BY_ANNOTATION: f"{CPU}(=hierexport.{CPU[:-1]})"}
    assert report(proto, begun, second_provider) == {OTHER: everything}


def test_the_command_places_by_name(tmp_path: Path, named: onnx.ModelProto, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "named.onnx"
    onnx.save(named, path)
    assert main(["select", str(path), "layer.1", "--format", "name_based", "--device", "cpu"]) == 0
    assert json.loads(capsys.readouterr().out) == place_nodes(named, "layer.1", "cpu")


def test_the_command_writes_an_annotated_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = tmp_path / "model.onnx", tmp_path / "placed.onnx"
    onnx.save(tagged_model(), path)
    before = path.read_bytes()
    assert main(["select", str(path), "layer.1", "--format", "layer_ann", "--device", "npu", "-o", str(out)]) == 0
    expected = tagged_model()
    assert json.loads(capsys.readouterr().out) == annotate_nodes(expected, "layer.1", "npu")
    assert read(out) == read(path)
    found, wanted = ({key: node.metadata_props for key, node in walk(model)} for model in (onnx.load(out), expected))
    assert {key: sorted((e.key, e.value) for e in entries) for key, entries in found.items()} == {
        key: sorted((e.key, e.value) for e in entries) for key, entries in wanted.items()
    }
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "arguments",
    [
        ["--format", "name_based"],
        ["--format", "layer_ann", "--device", "cpu"],
        ["--format", "layer_ann", "-o", "out.onnx"],
        ["--device", "cpu"],
        ["-o", "out.onnx"],
        ["--format", "nonsense"],
        ["--origins", "all"],
    ],
)
def test_options_that_do_not_fit_are_usage_errors(
    tmp_path: Path, arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(tagged_model(), "model.onnx")
    assert main(["select", "model.onnx", "layer.1", *arguments]) == 4
    assert "hierexport: expected" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]
