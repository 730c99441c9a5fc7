"""`hierexport profile`: where ONNX Runtime spends its time, by module call."""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import nn

from projects import MODEL
from pytest_hierexport import Case, HierexportError, Profile, TagError, UsageError, export, profile, read
from pytest_hierexport._calls.attribution import Attribution, Evidence, Origin
from pytest_hierexport._calls.hierarchy import Call, Hierarchy
from pytest_hierexport._cases.case import Weights
from pytest_hierexport._onnx import storage
from pytest_hierexport._onnx.graph import walk
from pytest_hierexport._tools.profiling.events import read_runs
from pytest_hierexport._tools.profiling.joining import join, name_all_nodes
from pytest_hierexport._tools.profiling.profiler import _figures
from pytest_hierexport._tools.profiling.running import Measured
from pytest_hierexport._tools.profiling.text import as_dict, as_lines
from pytest_hierexport._tools.profiling.viewers import node_data, trace
from pytest_hierexport.cli import main
from schemas import strict_schema

DOCS = Path(__file__).parents[1] / "docs"

# A function that is called twice, a branch, and a loop with a branch in it; no node has a name.
NESTED = """
<ir_version: 10, opset_import: ["" : 20, "my" : 1]>
g (float[4,64] x, bool taken) => (float[4,64] y, float[3,4,64] all)
<float[64,64] w> {
  first = MatMul(x, w)
  once = my.Twice(first)
  twice = my.Twice(once)
  chosen = If (taken) <
    then_branch = yes () => (float[4,64] t) { t1 = MatMul(twice, w)
      t = Relu(t1) },
    else_branch = no () => (float[4,64] e) { e1 = MatMul(twice, w)
      e = Relu(e1) }>
  trip = Constant<value = int64 {3}>()
  go = Constant<value = bool {1}>()
  y, all = Loop (trip, go, chosen) <
    body = b (int64 i, bool c, float[4,64] s) => (bool co, float[4,64] so, float[4,64] sc) {
    co = Identity(c)
    inner = If(c) <
      then_branch = yes () => (float[4,64] t) { t1 = Sin(s)
        t = Relu(t1) },
      else_branch = no () => (float[4,64] e) { e1 = Cos(s)
        e = Sqrt(e1) }>
    so = Tanh(inner)
    sc = Abs(so)
  }>
}
<domain: "my", opset_import: ["" : 20]>
Twice (p) => (q) { half = Sigmoid(p)
  q = Add(half, p) }
"""


def tagged(path: Path, text: str, calls: Mapping[str, str], **weights: Any) -> Path:
    """Write a model; a node belongs to the call for the longest beginning of its key, else it is untagged."""
    proto = onnx.parser.parse_model(text)
    for value in list(proto.graph.value_info):
        if value.name in weights:
            proto.graph.value_info.remove(value)
    names = {tensor.name: tensor for tensor in proto.graph.initializer}
    for name, array in weights.items():
        tensor = names.get(name) or proto.graph.initializer.add()
        tensor.CopyFrom(onnx.numpy_helper.from_array(array, name))
    hierarchy = Hierarchy(
        [Call("", 0, "m.Net", None), *(Call(name, 0, f"m.{name.title()}", "") for name in sorted({*calls.values()}))]
    )
    origins = {
        key: tuple(
            Origin(calls[start], Evidence.TRACED)
            for start in sorted(calls, key=len, reverse=True)[: len(calls)]
            if key.startswith(start)
        )[:1]
        for key, _ in walk(proto)
    }
    storage.attach_proto(proto, Attribution(hierarchy, origins))
    path.write_bytes(proto.SerializeToString())
    return path


@pytest.fixture
def nested(tmp_path: Path) -> Path:
    calls = {
        "first": "linear",
        "once": "function",
        "twice": "function",
        "my": "function",
        "chosen": "branch",
        "y": "loop",
        "y/body/inner": "inner",
    }
    weight = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32) / 8
    return tagged(tmp_path / "nested.onnx", NESTED, calls, w=weight)


def feeds(*, taken: bool) -> dict[str, Any]:
    return {"x": np.ones((4, 64), np.float32), "taken": np.array(taken)}


def by_call(found: Profile) -> dict[str, Counter[str]]:
    """Return the kernels of each call by operator."""
    counts: dict[str, Counter[str]] = {}
    for node in found.nodes:
        counts.setdefault(node.calls[0] if node.calls else "untagged", Counter())[node.operator] += int(node.kernels)
    return counts


@pytest.mark.parametrize("taken", [True, False])
def test_kernels_of_branches_loops_and_functions_find_their_calls(nested: Path, taken: bool) -> None:
    found = profile(nested, feeds(taken=taken), runs=3, level="none")
    assert by_call(found) == {
        "linear": Counter(MatMul=1),
        "function": Counter(Sigmoid=2, Add=2),
        "branch": Counter(If=1, MatMul=1, Relu=1),
        "loop": Counter(Loop=1, Identity=3, Tanh=3, Abs=3),
        "inner": Counter(If=3, Sin=3, Relu=3),
    }
    branch = "then_branch" if taken else "else_branch"
    assert {f"chosen/{branch}/{'t' if taken else 'e'}"} <= {node.key for node in found.nodes}
    assert found.unattributed == 0


def event(category: str, name: str, start: int, duration: int, **args: str) -> dict[str, Any]:
    return {"cat": category, "name": name, "ts": start, "dur": duration, "ph": "X", "args": args}


def kernel(name: str, op_type: str, start: int, duration: int, index: int = 0) -> dict[str, Any]:
    return event("Node", f"{name}_kernel_time", start, duration, op_name=op_type, node_index=str(index))


def graph_run(start: int, duration: int) -> dict[str, Any]:
    return event("Session", "SequentialExecutor::Execute", start, duration)


def test_time_of_iterations_counts_for_their_kernels_alone() -> None:
    (run,) = read_runs(
        [
            event("Session", "session_initialization", 0, 90),
            kernel("before", "Relu", 100, 10),
            kernel("step", "Sin", 120, 5),
            graph_run(119, 7),
            kernel("step", "Sin", 130, 6),
            graph_run(130, 7),
            kernel("loop", "Loop", 112, 30),
            kernel("after", "Relu", 145, 3),
            graph_run(99, 50),
            event("Session", "model_run", 95, 60),
        ]
    )
    before, loop, after = run.kernels
    assert [step.self_time for graph in loop.subgraphs for step in graph] == [5, 6]
    assert (before.self_time, loop.self_time, after.self_time) == (10, 30 - 11, 3)
    assert run.outside == 60 - 10 - 30 - 3


def test_parts_of_a_profile_add_up_to_the_run(nested: Path) -> None:
    found = profile(nested, feeds(taken=True), runs=3)
    root = found.calls[0]
    assert root.total_time == pytest.approx(sum(node.self_time for node in found.nodes))
    assert root.total_time + found.outside_time + found.unmatched_time == pytest.approx(found.run_time)
    assert sum(each.self_time for each in found.classes) == pytest.approx(root.total_time)
    assert sum(call.self_time for call in found.calls) == pytest.approx(root.total_time)
    loop = next(node for node in found.nodes if node.operator == "Loop")
    whole = next(each.duration for each in found.timeline if each.operator == "Loop")
    assert loop.self_time < whole


def test_node_of_varying_branches_counts_for_its_share_of_runs() -> None:
    text = """
    <ir_version: 10, opset_import: ["" : 20]>
    g (float[8] x, bool taken) => (float[8] y) {
      [if] y = If (taken) <
        then_branch = yes () => (float[8] t) { [big] t = Neg(x) },
        else_branch = no () => (float[8] e) { [small] e = Abs(x) }>
    }
    """

    def run(begin: int, name: str, operator: str, time: int) -> list[dict[str, Any]]:
        kernels = [kernel(name, operator, begin + 5, time), graph_run(begin + 4, time + 2)]
        whole = [kernel("if", "If", begin + 3, time + 4), graph_run(begin + 2, time + 6)]
        return [*kernels, *whole, event("Session", "model_run", begin, time + 10)]

    events = [*run(0, "small", "Abs", 10), *run(100, "big", "Neg", 40), *run(200, "small", "Abs", 14)]
    events += run(300, "small", "Abs", 12)
    origins = {key: (Origin("", Evidence.TRACED),) for key in ("y", "y/then_branch/t", "y/else_branch/e")}
    attribution = Attribution(Hierarchy([Call("", 0, "m.Net", None)]), origins)
    measured = Measured(tuple(read_runs(events)), None, "x")
    found = _figures(measured, onnx.parser.parse_model(text), attribution)
    assert [(node.operator, node.self_time, node.kernels) for node in found.nodes] == [
        ("If", 4.0, 1),
        ("Neg", 10.0, 0.25),
        ("Abs", 9.0, 0.75),
    ]
    assert (found.calls[0].total_time, found.calls[0].kernels) == (23.0, 2.0)
    assert found.notes[-1].startswith("2 nodes did not run equally often in all runs")


# Both branches, and the graph around them, name a node "n"; two nodes have no name.
NAMES = """
<ir_version: 10, opset_import: ["" : 20]>
g (float[8] x, bool taken) => (float[8] y) {
  [n] a = Neg(x)
  b = Neg(a)
  c = Neg(b)
  y = If (taken) <
    then_branch = yes () => (float[8] t) { [n] t = Neg(c) },
    else_branch = no () => (float[8] e) { [n] e = Neg(c) }>
}
"""


@pytest.mark.parametrize("taken", [True, False])
def test_duplicate_and_empty_names_are_told_apart(tmp_path: Path, taken: bool) -> None:
    calls = {"a": "a", "b": "b", "c": "c", "y": "if", "y/then_branch": "then", "y/else_branch": "else"}
    path = tagged(tmp_path / "names.onnx", NAMES, calls)
    found = profile(path, {"x": np.ones(8, np.float32), "taken": np.array(taken)}, runs=1, level="none")
    branch = "then" if taken else "else"
    assert by_call(found) == {"if": Counter(If=1), **{name: Counter(Neg=1) for name in ("a", "b", "c", branch)}}


def joined_keys(events: list[dict[str, Any]], text: str) -> list[str | None]:
    (run,) = read_runs([*events, graph_run(0, 100), event("Session", "model_run", 0, 100)])
    (joined,) = join([run.kernels], onnx.parser.parse_model(text))
    return [each.key for each in joined]


def test_kernels_of_nameless_nodes_are_paired_in_order() -> None:
    kernels = [kernel("n", "Neg", 1, 1, 0), kernel("Neg_4", "Neg", 3, 1, 4), kernel("Neg_2", "Neg", 5, 1, 2)]
    assert joined_keys(kernels, NAMES) == ["a", "b", "c"]


def test_kernel_that_either_branch_may_hold_is_unmatched() -> None:
    kernels = [kernel("n", "Neg", 5, 1), graph_run(4, 3), kernel("If_1", "If", 3, 6, 1)]
    assert joined_keys(kernels, NAMES) == ["y", None]


def test_kernels_of_a_branch_are_all_nodes_of_it() -> None:
    text = NAMES.replace("{ [n] e = Neg(c) }", "{ [n] f = Neg(c) e = Abs(f) }")
    kernels = [kernel("n", "Neg", 5, 1), graph_run(4, 3), kernel("If_1", "If", 3, 6, 1)]
    assert joined_keys(kernels, text) == ["y", "y/then_branch/t"]


def test_kernel_without_a_node_of_its_operator_is_unmatched() -> None:
    assert joined_keys([kernel("n", "Abs", 5, 1)], NAMES) == [None]


def test_new_names_are_unique_and_keep_others() -> None:
    model = onnx.parser.parse_model(NAMES.replace("[n] a", "[b] a"))
    name_all_nodes(model)
    names = [node.name for _, node in walk(model)]
    assert len(set(names)) == len(names)
    assert names[0] == "b"
    assert "n" in names


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down, self.norm = nn.Linear(16, 32), nn.Linear(32, 16), nn.LayerNorm(16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x + self.down(nn.functional.gelu(self.up(x))))  # type: ignore[no-any-return]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(2))
        self.head = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.head(x)  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("net") / "net.onnx"
    shapes = ({0: torch.export.Dim("batch"), 1: torch.export.Dim("length")},)
    export(Net().eval(), (torch.randn(2, 5, 16),), path=path, dynamic_shapes=shapes)
    return path


SIZES = {"batch": 4, "length": 64}


def test_fused_nodes_of_an_exported_model_find_their_calls(net: Path, tmp_path: Path) -> None:
    found = profile(net, sizes=SIZES, runs=3, optimized=tmp_path / "optimized.onnx")
    assert found.unattributed == 0
    assert "traced" in found.coverage
    calls = {call.call: call for call in found.calls}
    assert {"layers.0.up", "layers.1.down", "head"} <= set(calls)
    assert calls["layers.0"].total_time > calls["layers.0.up"].total_time > 0
    assert sum(node.output_bytes for node in found.nodes if node.calls[0] == "head") >= 4 * 64 * 4 * 4
    (layers,) = (each for each in found.classes if each.cls.endswith(".Layer"))
    assert (layers.calls, layers.total_time) == (2, calls["layers.0"].total_time + calls["layers.1"].total_time)


def test_optimized_file_has_tags_and_runs(net: Path, tmp_path: Path) -> None:
    path = tmp_path / "optimized.onnx"
    found = profile(net, sizes=SIZES, runs=1, optimized=path)
    attribution = read(path)
    assert {node.key: node.calls for node in found.nodes} == {
        key: tuple(origin.call for origin in origins) for key, origins in attribution.nodes.items()
    }
    x = np.random.default_rng(1).standard_normal((2, 3, 16)).astype(np.float32)
    first, second = (onnxruntime.InferenceSession(file).run(None, {"x": x})[0] for file in (net, path))
    np.testing.assert_allclose(first, second, rtol=1e-4, atol=1e-5)


def test_node_of_two_calls_is_shared_time_of_the_first(tmp_path: Path) -> None:
    text = '<ir_version: 10, opset_import: ["" : 20]> g (float[8] x) => (float[8] y) { y = Neg(x) }'
    path = tagged(tmp_path / "shared.onnx", text, {"y": "first"})
    hierarchy = Hierarchy([Call("", 0, "m.Net", None), Call("first", 0, "m.A", ""), Call("second", 0, "m.B", "")])
    both = tuple(Origin(call, Evidence.FUSED) for call in ("first", "second"))
    storage.rewrite(path, lambda _: Attribution(hierarchy, {"y": both}))
    found = profile(path, runs=3, level="none")
    (first,) = (call for call in found.calls if call.call == "first")
    assert first.shared_time == first.self_time == found.shared_time
    assert not [call for call in found.calls if call.call == "second"]


def test_time_of_guessed_calls_is_shown(tmp_path: Path) -> None:
    text = '<ir_version: 10, opset_import: ["" : 20]> g (float[9000] x) => (float[9000] y) { a = Sin(x) y = Cos(a) }'
    found = profile(tagged(tmp_path / "half.onnx", text, {"a": "sine"}), runs=3, level="none")
    cosine = next(node for node in found.nodes if node.operator == "Cos")
    assert (cosine.calls, cosine.evidence) == (("sine",), "derived")
    assert found.derived_time == cosine.self_time > 0
    assert any(f"guessed from neighbours: {cosine.self_time / 1000:.3f} ms" in line for line in as_lines(found))


def test_untagged_nodes_are_unattributed_time() -> None:
    nodes = onnx.parser.parse_model(NAMES)
    (run,) = read_runs([kernel("n", "Neg", 1, 30), graph_run(0, 40), event("Session", "model_run", 0, 40)])
    hierarchy = Hierarchy([Call("", 0, "m.Net", None)])
    found = _figures(Measured((run,), None, "x"), nodes, Attribution(hierarchy, {"a": ()}))
    assert (found.untagged_time, found.outside_time, found.unattributed) == (30, 10, 1)
    assert any("unattributed: 100.0%" in line for line in as_lines(found))


def test_runs_for_warm_up_are_left_out(nested: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    durations: list[int] = []

    def slow_start(events: list[dict[str, Any]]) -> Any:
        runs = read_runs(events)
        durations.extend(run.duration for run in runs)
        return runs

    monkeypatch.setattr("pytest_hierexport._tools.profiling.running.read_runs", slow_start)
    found = profile(nested, feeds(taken=True), runs=1, warmup=2)
    assert len(durations) == 3
    assert found.runs == 1
    assert found.run_time == durations[-1]


def test_without_an_optimized_graph_the_own_nodes_match(net: Path, tmp_path: Path, monkeypatch: Any) -> None:
    from pytest_hierexport._tools.profiling import running

    session = running._session

    def compiled(*args: Any, optimized: Path | None) -> Any:
        if optimized is not None:
            raise RuntimeError("it contains compiled nodes")
        return session(*args, optimized=None)

    monkeypatch.setattr(running, "_session", compiled)
    found = profile(net, sizes=SIZES, runs=2)
    assert "compiled nodes" in "".join(found.notes)
    assert 0 < found.unattributed < 1
    assert {"head"} <= {call.call for call in found.calls}
    with pytest.raises(HierexportError, match="an optimized graph that ONNX Runtime can write"):
        profile(net, sizes=SIZES, runs=1, optimized=tmp_path / "optimized.onnx")


def test_external_data_is_read_and_goes_along(net: Path, tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    target.mkdir()
    export(Net().eval(), (torch.randn(2, 5, 16),), path=source / "net.onnx", external_data=True)
    found = profile(source / "net.onnx", runs=1, optimized=target / "optimized.onnx")
    assert found.unattributed == 0
    onnxruntime.InferenceSession(target / "optimized.onnx")


# Inputs


def test_symbolic_dimensions_must_be_stated(net: Path) -> None:
    with pytest.raises(UsageError, match="--dim batch=8 --dim length=8"):
        profile(net)
    with pytest.raises(UsageError, match="found widht"):
        profile(net, sizes={**SIZES, "widht": 3})


def test_dimension_that_is_an_expression_is_quoted(tmp_path: Path) -> None:
    shapes = {"input": {0: 2 * torch.export.Dim("half", min=1, max=9)}}
    export(torch.nn.Linear(2, 2), (torch.ones(4, 2),), path=tmp_path / "m.onnx", dynamic_shapes=shapes)
    with pytest.raises(UsageError, match=r"add --dim '2\*half=8',"):
        profile(tmp_path / "m.onnx")


def test_dimension_without_a_name_is_stated_by_its_axis(tmp_path: Path) -> None:
    text = '<ir_version: 10, opset_import: ["" : 20]> g (float[?, 3] x) => (float[?, 3] y) { y = Neg(x) }'
    path = tagged(tmp_path / "axis.onnx", text, {"y": "only"})
    assert profile(path, sizes={"x.0": 7}, runs=1).nodes[0].output_bytes == 7 * 3 * 4
    with pytest.raises(UsageError, match="4 GiB"):
        profile(path, sizes={"x.0": 10**12})


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int64", "bool", "uint8"])
def test_random_inputs_have_the_stated_dtype(tmp_path: Path, dtype: str) -> None:
    text = f'<ir_version: 10, opset_import: ["" : 20]> g ({dtype}[8] x) => ({dtype}[8] y) {{ y = Identity(x) }}'
    found = profile(tagged(tmp_path / "dtype.onnx", text, {"y": "only"}), runs=1)
    assert by_call(found) == {"only": Counter(Identity=1)}


@pytest.mark.parametrize("given", [None, {"x": np.zeros(8, np.float32)}])
def test_input_of_a_type_unknown_to_onnx_is_named(tmp_path: Path, given: dict[str, Any] | None) -> None:
    text = '<ir_version: 10, opset_import: ["" : 20]> g (float[8] x) => (float[8] y) { y = Identity(x) }'
    path = tagged(tmp_path / "newer.onnx", text, {"y": "only"})
    proto = onnx.load(path)
    proto.graph.input[0].type.tensor_type.elem_type = 99
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(UsageError, match="the input x to have a type that the installed onnx knows; found type 99"):
        profile(path, given)


def test_inputs_are_converted_to_the_type_of_the_graph(nested: Path) -> None:
    assert profile(nested, {**feeds(taken=True), "x": np.zeros((4, 64), np.float64)}, runs=1, warmup=0).nodes


@pytest.mark.parametrize("number", [0.5, float("nan")])
def test_numbers_that_the_type_of_an_input_lacks_are_refused(number: float, nested: Path) -> None:
    taken = np.full_like(feeds(taken=True)["taken"], number, np.float32)
    with pytest.raises(UsageError, match="expected numbers of the input taken, bool"):
        profile(nested, {**feeds(taken=True), "taken": taken}, runs=1, warmup=0)


def test_wrong_inputs_are_usage_errors(nested: Path) -> None:
    with pytest.raises(UsageError, match="an array for each input: x, taken; found none for taken"):
        profile(nested, {"x": np.ones((4, 64), np.float32)})
    with pytest.raises(UsageError, match="can run on these inputs"):
        profile(nested, {"x": np.ones((3, 2, 1), np.float32), "taken": np.array(True)})


@pytest.mark.parametrize(
    "options",
    [
        *({"runs": 0}, {"warmup": -1}, {"level": "most"}),
        *({"threads": -2}, {"threads": 1 << 31}, {"providers": ("NoneProvider",)}),
    ],
)
def test_impossible_options_are_usage_errors(nested: Path, options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        profile(nested, feeds(taken=True), **options)


# What it writes


def test_json_fits_its_schema(nested: Path) -> None:
    schema = strict_schema("profile")
    jsonschema.Draft202012Validator.check_schema(schema)
    content = json.loads(json.dumps(as_dict(profile(nested, feeds(taken=True), runs=2))))
    jsonschema.validate(content, schema)
    del content["calls"][0]["share"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(content, schema)


TRACE = {
    "type": "object",
    "required": ["traceEvents"],
    "properties": {
        "traceEvents": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["ph", "name", "pid", "tid"],
                "properties": {
                    "ph": {"enum": ["X", "M"]},
                    "name": {"type": "string", "minLength": 1},
                    **{name: {"type": "integer", "minimum": 0} for name in ("pid", "tid", "ts", "dur")},
                },
                "if": {"properties": {"ph": {"const": "X"}}},
                "then": {"required": ["ts", "dur"]},
            },
        }
    },
}
"""The part of the trace event format that viewers need."""


def test_trace_has_a_track_per_depth(nested: Path) -> None:
    found = profile(nested, feeds(taken=True), runs=2, level="none")
    content = trace(found)
    jsonschema.validate(json.loads(json.dumps(content)), TRACE)
    named = {event["tid"]: event["args"]["name"] for event in content["traceEvents"] if event["ph"] == "M"}
    assert named == {0: "calls at depth 0", 1: "calls at depth 1", 2: "kernels"}
    tracks: dict[int, list[dict[str, Any]]] = {}
    for slice_ in content["traceEvents"]:
        if slice_["ph"] == "X":
            tracks.setdefault(slice_["tid"], []).append(slice_)
    assert [slice_["name"] for slice_ in tracks[0]] == ["Net"]
    # The loop's own kernels and the branch in it take turns.
    names = [slice_["args"]["call"] for slice_ in tracks[1] if slice_["dur"]]
    assert [name for i, name in enumerate(names) if name != names[i - 1]][:3] == ["linear", "function", "branch"]
    assert names.count("inner") == 3
    assert len(tracks[2]) == sum(node.kernels for node in found.nodes)


def test_slices_of_a_call_track_do_not_overlap(nested: Path) -> None:
    content = trace(profile(nested, feeds(taken=True), runs=2))
    for track in (0, 1):
        slices = [event for event in content["traceEvents"] if event["ph"] == "X" and event["tid"] == track]
        ends = [event["ts"] + event["dur"] for event in slices]
        assert all(end <= event["ts"] for end, event in zip(ends, slices[1:], strict=False))


def test_node_data_names_nodes_of_subgraphs_by_their_path(nested: Path) -> None:
    content = node_data(profile(nested, feeds(taken=True), runs=2, level="none"))
    assert {"y/body"} <= set(content)
    (loop_body,) = (graph["results"] for name, graph in content.items() if name == "y/body")
    assert {name for name in loop_body if name.endswith("sc")}
    assert all(result["value"] >= 0 for graph in content.values() for result in graph["results"].values())


def test_deep_calls_are_profiled(tmp_path: Path) -> None:
    text = '<ir_version: 10, opset_import: ["" : 20]> g (float[8] x) => (float[8] y) { y = Neg(x) }'
    path = tagged(tmp_path / "deep.onnx", text, {"y": "first"})
    names = [".".join("a" for _ in range(depth)) for depth in range(1500)]
    calls = [Call(name, 0, "m.Deep", names[i - 1] if i else None) for i, name in enumerate(names)]
    deep = Attribution(Hierarchy(calls), {"y": (Origin(names[-1], Evidence.TRACED),)})
    storage.rewrite(path, lambda _: deep)
    found = profile(path, runs=1)
    assert found.classes[0].calls == 1500
    assert found.classes[0].total_time == found.classes[0].self_time
    assert len(list(as_lines(found))) > 1500
    assert len({event["tid"] for event in trace(found)["traceEvents"]}) == 65


# The command


def test_command_prints_and_writes_what_it_measured(nested: Path, tmp_path: Path, capsys: Any) -> None:
    np.savez(tmp_path / "inputs.npz", **feeds(taken=True))
    outputs = {name: tmp_path / f"{name}.json" for name in ("trace", "node-data")}
    flags = [f"--{name}={path}" for name, path in outputs.items()]
    for _ in range(2):  # what the first call wrote is replaced
        assert main(["profile", str(nested), f"--inputs={tmp_path / 'inputs.npz'}", "--runs=2", *flags]) == 0
    shown = capsys.readouterr().out
    assert "  inner  Inner" in shown
    assert "unattributed: 0.0% of the kernels' time" in shown
    assert json.loads(outputs["trace"].read_text())["traceEvents"]
    assert json.loads(outputs["node-data"].read_text())["g"]["results"]


def test_command_prints_classes_and_json(nested: Path, capsys: Any) -> None:
    assert main(["profile", str(nested), "--runs=1", "--by=class"]) == 0
    assert "m.Function" in capsys.readouterr().out
    assert main(["profile", str(nested), "--runs=1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["calls"][0]["call"] == ""


def test_command_takes_the_example_inputs_of_a_model(tmp_path: Path, capsys: Any, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    source = "import torch\ndef build():\n    return torch.nn.Linear(3, 2), (torch.ones(5, 3),)\n"
    (tmp_path / "small.py").write_text(source)
    assert main(["export", "small.py::build", "-o", "small.onnx"]) == 0
    assert main(["profile", "small.onnx", "--inputs=small.py::build", "--runs=1"]) == 0
    assert "Linear" in capsys.readouterr().out


def test_command_replaces_no_file_of_another_kind(nested: Path, tmp_path: Path, capsys: Any) -> None:
    for flag, name in (("--trace", "notes.json"), ("--node-data", "notes.json"), ("--optimized", "notes.onnx")):
        notes = tmp_path / name
        notes.write_text("mine")
        assert main(["profile", str(nested), "--runs=1", f"{flag}={notes}"]) == 4
        assert notes.read_text() == "mine"
    (tmp_path / "notes.json").write_text("{}")
    assert main(["profile", str(nested), "--runs=1", f"--node-data={tmp_path / 'notes.json'}"]) == 4
    assert main(["profile", str(nested), f"--trace={tmp_path / 'no' / 'trace.json'}"]) == 1
    assert "create the folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "code"),
    [(["--dim=batch"], 4), (["--dim=x=3"], 4), (["--inputs=none.npz"], 4), (["--runs=0"], 4), (["--level=x"], 4)],
)
def test_wrong_arguments_of_the_command_are_one_message(nested: Path, flags: list[str], code: int, capsys: Any) -> None:
    assert main(["profile", str(nested), *flags]) == code
    assert "to do: " in capsys.readouterr().err


def test_damaged_and_tagless_files_are_one_message(nested: Path, tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "half.onnx").write_bytes(nested.read_bytes()[:300])
    onnx.save(onnx.parser.parse_model(NAMES), tmp_path / "tagless.onnx")
    assert main(["profile", str(tmp_path / "half.onnx")]) in {1, 4}
    assert main(["profile", str(tmp_path / "tagless.onnx")]) == 1
    assert capsys.readouterr().err.count("hierexport: expected ") == 2
    with pytest.raises(TagError):
        profile(tmp_path / "tagless.onnx")


def test_missing_external_data_is_one_message(tmp_path: Path, capsys: Any) -> None:
    export(Net().eval(), (torch.randn(2, 5, 16),), path=tmp_path / "net.onnx", external_data=True)
    (tmp_path / "net.onnx.data").unlink()
    assert main(["profile", str(tmp_path / "net.onnx")]) == 4
    assert "hierexport: expected a graph that ONNX Runtime can load" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "message"),
    [("string[2]", "tensor of numbers"), ("float", "a shape"), ("seq(float[2])", "tensor of numbers")],
)
def test_inputs_that_cannot_be_drawn_are_named(tmp_path: Path, kind: str, message: str) -> None:
    text = f'<ir_version: 10, opset_import: ["" : 20]> g ({kind} x) => ({kind} y) {{ y = Identity(x) }}'
    model = onnx.parser.parse_model(text)
    if kind == "float":
        model.graph.input[0].type.tensor_type.ClearField("shape")
    attribution = Attribution(Hierarchy([Call("", 0, "m.Net", None)]), {"y": (Origin("", Evidence.TRACED),)})
    storage.attach_proto(model, attribution)
    (tmp_path / "odd.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(UsageError, match=message):
        profile(tmp_path / "odd.onnx")


def test_impossible_shape_of_an_input_is_named(tmp_path: Path) -> None:
    text = '<ir_version: 10, opset_import: ["" : 20]> g (float[8] x) => (float[8] y) { y = Neg(x) }'
    path = tagged(tmp_path / "negative.onnx", text, {"y": "only"})
    model = onnx.load(path)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -3
    onnx.save(model, path)
    with pytest.raises(UsageError, match="a negative dimension"):
        profile(path)


def shown_commands() -> list[str]:
    """Return the command lines with `profile` that the docs show."""
    pages = [(DOCS / page).read_text(encoding="utf-8") for page in ("command-line.md", "viewers.md")]
    return [line for page in pages for line in re.findall(r"^\$ hierexport (profile .*)$", page, re.MULTILINE)]


def test_examples_of_the_docs_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_model.py").write_text(MODEL)
    assert main(["export", "my_model.py::build", "-o", "tower.onnx"]) == 0
    commands = shown_commands()
    assert len(commands) == 5
    for command in commands:
        assert main(shlex.split(command, comments=True)) == 0
    assert {"fast.onnx", "fast.json", "fast.trace.json"} <= {path.name for path in tmp_path.iterdir()}
    (python,) = re.findall(
        r"```python\n(from pytest_hierexport import profile\n.*?)```", (DOCS / "api.md").read_text(), re.DOTALL
    )
    capsys.readouterr()
    exec(python, {})  # noqa: S102  # it is our own page
    assert "0.0%" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("dtype", "weights", "found"), [(torch.bfloat16, "full", "NOT_IMPLEMENTED"), (torch.float32, "none", "without")]
)
def test_graph_that_cannot_be_loaded_blames_no_input(
    dtype: torch.dtype, weights: Weights, found: str, tmp_path: Path
) -> None:
    case = Case("a", lambda: (Net().eval().to(dtype), torch.ones(2, 5, 16, dtype=dtype)), "a test", weights=weights)
    example, path = case.load(), tmp_path / "net.onnx"
    export(example.model, example.args, path=path)
    with pytest.raises(UsageError) as caught:
        profile(path)
    assert found in caught.value.found
    assert "inputs" not in caught.value.do
