"""`hierexport profile`: where ONNX Runtime spends its time, by module call."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import nn

from pytest_hierexport import HierexportError, Profile, TagError, UsageError, export, profile, read
from pytest_hierexport._calls.attribution import Attribution, Evidence, Origin
from pytest_hierexport._calls.hierarchy import Call, Hierarchy
from pytest_hierexport._onnx import storage
from pytest_hierexport._onnx.graph import walk
from pytest_hierexport._tools.profiling.events import read_runs
from pytest_hierexport._tools.profiling.joining import join, name_all_nodes
from pytest_hierexport._tools.profiling.text import as_dict, as_lines
from pytest_hierexport._tools.profiling.viewers import node_data, trace
from pytest_hierexport.cli import main

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
  y, all = Loop (trip, go, chosen) <body = b (int64 i, bool c, float[4,64] s) => (bool co, float[4,64] so, float[4,64] sc) {
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
        counts.setdefault(node.calls[0] if node.calls else "untagged", Counter())[node.operator] += node.kernels
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
