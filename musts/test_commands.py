"""Every command on files, on every model: what each gives is compared with what the export knows.

The models are those of the run, and their exports are shared with the rules.
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from pytest_hierexport import ExportedCase, prove, read
from pytest_hierexport._calls.hierarchy import ROOT
from pytest_hierexport._onnx.graph import operators, walk
from pytest_hierexport._proof.feeds import feeds_of
from pytest_hierexport._proof.session import run_graph
from pytest_hierexport._proof.tolerance import tolerance_of
from pytest_hierexport.cli import main

FLOATS = {onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16}


@dataclass
class Files:
    """An export, and what the commands take and write."""

    exported: ExportedCase
    folder: Path

    @property
    def file(self) -> str:
        """The exported file."""
        return str(self.exported.path)

    @cached_property
    def proto(self) -> onnx.ModelProto:
        """The exported model with all its tensors."""
        return onnx.load(self.exported.path)

    @cached_property
    def feeds(self) -> dict[str, Any]:
        return feeds_of(self.exported.example, self.proto)

    @cached_property
    def inputs(self) -> str:
        """The inputs, as commands take them."""
        path = self.folder / "inputs.npz"
        np.savez(path, **self.feeds)
        return str(path)

    @cached_property
    def optimized(self) -> str:
        """The file that ONNX Runtime makes of the exported one, without tags."""
        path = self.folder / "optimized.onnx"
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        options.optimized_model_filepath = str(path)
        options.log_severity_level = 3
        onnxruntime.InferenceSession(self.file, options, providers=["CPUExecutionProvider"])
        return str(path)

    @cached_property
    def changed(self) -> tuple[str, str]:
        """A copy of the file with one weight that is twice as large, and the weight's name."""
        used = Counter(name for _, node in walk(self.proto) for name in node.input)
        # The branch of an `If` need not run: weights that nodes of the graph itself read are sure to count.
        sure = {name for node in self.proto.graph.node for name in node.input}
        floats = (each for each in self.proto.graph.initializer if each.data_type in FLOATS)
        once = (each for each in floats if used[each.name] == 1)
        name = max(once, key=lambda each: (each.name in sure, sum(each.dims))).name
        copy = onnx.ModelProto.FromString(self.proto.SerializeToString())
        weight = next(each for each in copy.graph.initializer if each.name == name)
        weight.CopyFrom(onnx.numpy_helper.from_array(2 * onnx.numpy_helper.to_array(weight), name))
        path = self.folder / "changed.onnx"
        onnx.save(copy, path)
        return str(path), name

    @cached_property
    def module(self) -> str:
        """The path of the module below the root that has most nodes and is called once."""
        paths = Counter(call.path for call in self.exported.attribution.hierarchy.values())
        found = Counter(path for key in self.exported.attribution.nodes for path in self.paths(key) if path)
        return max((path for path in found if paths[path] == 1), key=lambda path: found[path])

    def paths(self, key: str) -> set[str]:
        """Return the paths of the modules that a node comes from, those above them included."""
        attribution = self.exported.attribution
        calls = (name for origin in attribution.nodes[key] for name in attribution.hierarchy.lineage(origin.call))
        return {attribution.hierarchy[name].path for name in calls}

    def computed(self, proto: onnx.ModelProto, feeds: dict[str, Any]) -> list[Any]:
        return [each.arrays[0] for each in run_graph(proto, feeds, [each.name for each in proto.graph.output])]

    def path(self, name: str) -> str:
        """Return the path of a file to write."""
        return str(self.folder / name)


@pytest.fixture(scope="module")
def known() -> Iterator[dict[Path, Files]]:
    found: dict[Path, Files] = {}
    yield found
    found.clear()


@pytest.fixture
def files(hierexport_export: ExportedCase, known: dict[Path, Files], tmp_path_factory: pytest.TempPathFactory) -> Files:
    path = hierexport_export.path
    if path not in known:
        known.clear()
        known[path] = Files(hierexport_export, tmp_path_factory.mktemp("commands"))
    return known[path]


@pytest.fixture
def runnable(files: Files) -> None:
    """Skip a model that ONNX Runtime does not run."""
    if any(each.data_type == onnx.TensorProto.BFLOAT16 for each in files.proto.graph.initializer):
        pytest.skip("ONNX Runtime has no kernels for bfloat16")


def assert_close(found: Any, expected: Any) -> None:
    """Compare within the tolerance of the dtype."""
    tolerance = tolerance_of(expected.dtype.name)
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance / 10)


def run(*arguments: str, code: int = 0) -> str:
    """Run a command, which must give an exit code, and return what it prints."""
    with redirect_stdout(io.StringIO()) as printed:
        assert main(arguments) == code, printed.getvalue()
    return printed.getvalue()


def test_analyze_counts_each_node_once_in_all_formats(files: Files) -> None:
    attribution = files.exported.attribution
    document = json.loads(run("analyze", files.file, "--format", "json"))
    assert document["nodes"] == document["modules"]["all_nodes"] == len(attribution.nodes)
    assert document["operators"] == Counter(operators(files.proto).values())
    rows = list(csv.DictReader(io.StringIO(run("analyze", files.file, "--format", "csv"))))
    assert sum(int(row["own_nodes"]) for row in rows) == len(attribution.nodes)
    assert {row["path"] for row in rows} <= {call.path for call in attribution.hierarchy.values()}
    count = f"{len(attribution.nodes):,}"
    assert all(count in run("analyze", files.file, "--format", shape) for shape in ("table", "tree"))


def test_analyze_finds_no_contamination(files: Files) -> None:
    printed = json.loads(run("analyze", files.file, "--json", "--contamination", files.exported.case.name))
    assert printed["contamination"] == []


def test_select_lists_the_nodes_of_a_module(files: Files) -> None:
    expected = {node.name for key, node in walk(files.proto) if files.module in files.paths(key)}
    assert set(run("select", files.file, files.module).split()) == expected
    assert {*json.loads(run("select", files.file, files.module, "--format", "node_block_list"))} == expected
    document = json.loads(run("select", files.file, files.module, "--format", "json"))
    assert {each["name"] for each in document["nodes"]} == expected


@pytest.mark.parametrize("style", ["path", "tag"])
def test_rename_changes_nothing_but_the_names(style: str, files: Files) -> None:
    out = files.path(f"{style}.onnx")
    run("rename", files.file, "--style", style, "-o", out)
    before, after = (onnx.ModelProto.FromString(Path(path).read_bytes()) for path in (files.file, out))
    names = {key: node.name for key, node in walk(after)}
    attribution = files.exported.attribution
    assert len({*names.values()}) == len(names)
    starts = {key: "/" if style == "path" else attribution.tag(key) for key in names}
    assert all(name.startswith(starts[key]) for key, name in names.items())
    assert read(Path(out)).nodes == attribution.nodes
    for proto in (before, after):
        for _, node in walk(proto):
            node.ClearField("name")
    assert before == after


def test_validate_passes_the_file_and_fails_its_stripped_copy(files: Files) -> None:
    document = json.loads(run("validate", files.file, "--json"))
    assert document["valid"]
    assert {rule["status"] for rule in document["rules"]} == {"kept"}
    run("strip", files.file, "-o", files.path("bare.onnx"))
    broken = json.loads(run("validate", files.path("bare.onnx"), "--json", code=1))
    assert {"MUST-003"} <= {rule["id"] for rule in broken["rules"] if rule["status"] == "broken"}


def test_strip_leaves_no_tag_and_keeps_the_sidecar(files: Files) -> None:
    out = Path(files.path("stripped.onnx"))
    report = json.loads(run("strip", files.file, "-o", str(out), "--json"))
    assert report["after"] == out.stat().st_size < report["before"] == files.exported.path.stat().st_size
    assert b"hierexport" not in out.read_bytes()
    assert b"pkg.torch" not in out.read_bytes()
    assert read(out).nodes == files.exported.attribution.nodes
    assert all(map(np.array_equal, *(files.computed(p, files.feeds) for p in (files.proto, onnx.load(out)))))


def test_diff_names_the_weight_that_changed(files: Files) -> None:
    assert json.loads(run("diff", files.file, files.file, "--format", "json"))["same"]
    changed, weight = files.changed
    document = json.loads(run("diff", files.file, changed, "--format", "json", code=1))
    assert [(each["kind"], each["name"]) for each in document["initializers"]] == [("changed", weight)]
    assert not document["nodes"]


@pytest.mark.usefixtures("runnable")
def test_carry_takes_proven_tags_to_the_optimized_file(files: Files) -> None:
    out = files.path("carried.onnx")
    run("carry", files.file, files.optimized, "-o", out)
    carried = read(Path(out))
    coverage = carried.coverage()
    assert (coverage["untagged"], coverage["derived"]) == (0, 0)
    proof = prove(files.exported.example, Path(out), carried)
    assert not proof.unproven
    assert proof.counts()["proven"] > 0


def test_extract_computes_the_values_of_the_module(files: Files) -> None:
    out = files.path("module.onnx")
    report = json.loads(run("extract", files.file, files.module, "-o", out, "--json"))
    proto = onnx.load(out)
    onnx.checker.check_model(proto, full_check=True)
    wanted = [*report["inputs"].values(), *report["outputs"].values()]
    known = {name: value for name, value in files.feeds.items() if name in wanted}
    missing = [name for name in dict.fromkeys(wanted) if name not in known]
    known |= {each.name: each.arrays[0] for each in run_graph(files.proto, files.feeds, missing)}
    found = files.computed(proto, {new: known[old] for new, old in report["inputs"].items()})
    for output, array in zip(proto.graph.output, found, strict=True):
        assert_close(array, known[report["outputs"][output.name]])


@pytest.mark.usefixtures("runnable")
def test_functions_compute_what_the_flat_model_computes(files: Files) -> None:
    out = files.path("functions.onnx")
    hierarchy = files.exported.attribution.hierarchy
    # Modules of torch.nn have no segment in tags: a model of such alone has no functions unless they are asked for.
    which = () if any(hierarchy.is_kept(name) for name in hierarchy if name != ROOT) else ("--module", "*")
    printed = json.loads(run("functions", files.file, "-o", out, "--json", *which))
    proto = onnx.load(out)
    onnx.checker.check_model(proto, full_check=True)
    assert {each.name for each in proto.functions} >= {each["name"] for each in printed["functions"]} != set()
    before, after = (
        onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, files.feeds)
        for path in (files.file, out)
    )
    for expected, found in zip(before, after, strict=True):
        assert_close(found, expected)


@pytest.mark.usefixtures("runnable")
def test_diverge_finds_the_changed_call_and_equal_outputs(files: Files) -> None:
    given = ("--inputs", files.inputs, "--json")
    document = json.loads(run("diverge", files.file, files.optimized, *given))
    values = {value["name"]: value["accumulated"] for call in document["calls"] for value in call["values"]}
    assert document["first"] is None
    shown = [values[output.name] for output in files.proto.graph.output if output.name in values]
    assert shown
    assert not any(gap is None or gap["parted"] for gap in shown)
    changed, weight = files.changed
    first = json.loads(run("diverge", files.file, changed, *given))["first"]
    (key,) = (key for key, node in walk(files.proto) if weight in node.input)
    hierarchy = files.exported.attribution.hierarchy
    assert first in {
        name for origin in files.exported.attribution.nodes[key] for name in hierarchy.lineage(origin.call)
    }


@pytest.mark.usefixtures("runnable")
def test_profile_gives_all_time_in_kernels_to_calls(files: Files) -> None:
    printed = run("profile", files.file, "--inputs", files.inputs, "--runs", "2", "--threads", "1", "--json")
    document = json.loads(printed)
    assert (document["runs"], document["unattributed"], document["untagged_time"]) == (2, 0, 0)
    assert document["nodes"]
    kernels = sum(node["self_time"] for node in document["nodes"])
    assert sum(call["self_time"] for call in document["calls"]) == pytest.approx(kernels)
