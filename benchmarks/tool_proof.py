"""Proves the tags of a graph that a tool wrote: by its values, or where the tool changes these, by each node's own.

A quantized graph computes every value with an error, and errors add up until no value equals the model's. So each node
is given what the graph before computes under the names of its inputs, where it has them: what is left is the error of a
few nodes, and a tolerance covers it on average. A value that lies out of it, or has a name that the graph before does
not know, is not compared: a call whose outputs are such counts as dissolved. A quantized value is taken for the one
that it was quantized from, by its name, its scale and its zero point. A graph in half precision that ONNX Runtime does
not load is computed in single precision.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from pytest_hierexport import read
from pytest_hierexport._calls.attribution import Attribution, Evidence
from pytest_hierexport._calls.hierarchy import ROOT
from pytest_hierexport._onnx.graph import subgraphs_proto
from pytest_hierexport._onnx.models import Model, as_proto
from pytest_hierexport._proof import Proof, prove
from pytest_hierexport._proof.both_runs import BothRuns
from pytest_hierexport._proof.call_values import EagerCall
from pytest_hierexport._proof.feeds import feeds_of
from pytest_hierexport._proof.fingerprints import fingerprint
from pytest_hierexport._proof.inlining import inlined
from pytest_hierexport._proof.owners import Graph
from pytest_hierexport._proof.prove import _Pairing
from pytest_hierexport._proof.session import run_graph
from pytest_hierexport._proof.tolerance import distances, is_floating
from pytest_hierexport._proof.values import Values

__all__ = ["TOLERANCES", "prove_tool"]

TOLERANCES = {"values": None, "part": None, "half": 1e-2, "quantized": 0.1}
"""How far a value may lie from the model's, relative to its magnitude; None: as the rules have it."""


def prove_tool(example: Any, before: Path, after: Path, attribution: Attribution, proof: str) -> Proof:
    """Prove the tags of the file after, in the way that fits what the tool did to its values."""
    tolerance = TOLERANCES[proof]
    if tolerance is None or (proof == "half" and _loads(after)):
        found = prove(example, after, attribution)
        if proof == "part":
            # A part of a model does not give what the model returned, nor what the calls of the rest did: one of them
            # may have returned zeros, or the same few integers, as a call of the part.
            inner = _calls_of_part(before, attribution) - {ROOT}
            found = replace(found, verdicts={call: each for call, each in found.verdicts.items() if call in inner})
        return found
    model = _widened(onnx.load(after)) if proof == "half" else after
    return _prove_each_node(example, before, model, attribution, {"float32": tolerance})


def _calls_of_part(before: Path, part: Attribution) -> set[str]:
    """Return the calls that had, before a tool cut a part out, nodes of their own that are in the part."""
    whole = read(before)
    origins = (origin for key in whole.nodes.keys() & part.nodes.keys() for origin in whole.nodes[key])
    own = {origin.call for origin in origins if origin.evidence is not Evidence.MERGED}
    return {call for origin in own for call in whole.hierarchy.lineage(origin)}


def _loads(path: Path) -> bool:
    """Whether ONNX Runtime takes a file: `onnxconverter_common` writes some whose types contradict each other."""
    import onnxruntime

    try:
        onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    except onnxruntime.capi.onnxruntime_pybind11_state.Fail:
        return False
    return True


@dataclass(frozen=True)
class _ByNode(_Pairing):
    """A graph whose values differ from the model's: what lies out of tolerance is not compared."""

    exact: Mapping[str, Any] = field(default_factory=dict)
    """What the graph before computes under the names of this graph, and what its quantized values stand for."""
    quantized: AbstractSet[str] = frozenset()

    def both_runs(self, calls: Sequence[EagerCall], values: Values) -> BothRuns:
        runs = super().both_runs(calls, values)
        found = {name: values.find(fingerprint(array)) for name, array in self.exact.items()}
        names = {_DECODED + name if name in self.quantized else name: name for name in self.exact}
        computed = run_graph(self.proto, self.feeds, [*names], self.folder)
        near = {names[each.name] for each in computed if _is_near(self.exact[names[each.name]], each.arrays[0], values)}
        stored = self.feeds.keys() | self.graph.constants
        compared = {name: parts for name, parts in runs.candidates.items() if name in stored}
        elsewhere = {number for name in near for number in found[name]}
        lost = {call: _inexact(runs, call, found, near) & elsewhere for call in runs.calls}
        left = {call: _without(seen, lost[call]) for call, seen in runs.calls.items()}
        return replace(runs, calls=left, candidates={**compared, **{name: (found[name],) for name in near}})


def _is_near(exact: Any, array: Any, values: Values) -> bool:
    """Whether a value lies within its tolerance on average, also one that no call of the model has.

    Its name says what it is: one element that a quantizer moved farther does not make it another value.
    """
    if exact.shape != array.shape or not is_floating(exact.dtype.name):
        return np.array_equal(exact, array)
    return not exact.size or bool(distances(exact, array).mean() <= values.tolerance(exact.dtype.name))


def _inexact(runs: BothRuns, call: str, found: Mapping[str, AbstractSet[int]], near: AbstractSet[str]) -> set[int]:
    """Return the values that a call's nodes produce out of tolerance alone.

    Another call's node may produce an equal value: a normalisation that multiplies by one. It is no output of this one.
    """
    nodes = (runs.graph.nodes[i] for i in runs.graph.members.get(call, ()))
    produced = [name for node in nodes for name in node.outputs if name in found]
    exact = {number for name in produced if name in near for number in found[name]}
    return {number for name in produced if name not in near for number in found[name]} - exact


def _without(call: EagerCall, numbers: AbstractSet[int]) -> EagerCall:
    """Return a call with some of the values that it returned as values left behind, which no check looks for."""
    returned = {number: place for number, place in call.returned.items() if number not in numbers}
    return replace(call, returned=returned, effects=call.effects | (call.returned.keys() & numbers))


def _prove_each_node(
    example: Any, before: Path, after: Model, attribution: Attribution, tolerances: Mapping[str, float]
) -> Proof:
    with as_proto(after) as (message, folder):
        feeds = feeds_of(example, message)
        flat, proto = inlined(message, feeds, folder)
        codes = _codes(proto)
        exact = _exact(before, proto, codes, feeds)
        codes = {name: code for name, code in codes.items() if name in exact}
        given = _given(proto, exact, codes)
        case = _ByNode(example, Graph(flat, attribution), given, feeds, folder, tolerances, exact, codes.keys())
        return case.best_proof()


_EXACT = "exact:"
_DECODED = "decoded:"
_QUANTIZED = "_quantized"
"""What ONNX Runtime's quantizers add to the name of a value."""
_BYTES = (TensorProto.INT8, TensorProto.UINT8)
_Code = tuple[str, str]
"""The names of a scale and a zero point."""


def _codes(proto: onnx.ModelProto) -> dict[str, _Code]:
    """Return the code of each quantized value, stated behind it where a node takes it, or the one of its layouts."""
    held = {each.name: each.data_type for each in proto.graph.initializer if np.prod(each.dims) == 1}
    computed = {name for node in proto.graph.node for name in node.output}
    found: dict[str, _Code] = {}
    for node in reversed(proto.graph.node):
        if node.op_type == "QuantizeLinear":
            continue
        for value, scale, zero in zip(node.input, node.input[1:], node.input[2:], strict=False):
            is_code = held.get(scale) == TensorProto.FLOAT and held.get(zero) in _BYTES
            if value in computed and is_code:
                found[value] = scale, zero
        if node.input and node.input[0] in computed and node.output[0] in found:
            found.setdefault(node.input[0], found[node.output[0]])
    return {name: code for name, code in found.items() if name.endswith(_QUANTIZED)}


def _exact(before: Path, after: onnx.ModelProto, codes: Iterable[str], feeds: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the graph before computes under the names of the graph after and of what these stand for."""
    # Functions and branches inlined, as in the graph after: their values have names then.
    _, message = inlined(onnx.load(before), feeds, before.parent)
    origin = {name: name for node in after.graph.node for name in node.output if name}
    origin.update({name: name.removesuffix(_QUANTIZED) for name in codes})
    wanted = set(origin.values())
    shared = [name for node in message.graph.node for name in node.output if name in wanted]
    found = {value.name: value.arrays[0] for value in run_graph(message, feeds, shared) if len(value.arrays) == 1}
    return {name: found[known] for name, known in origin.items() if known in found}


def _given(proto: onnx.ModelProto, exact: Mapping[str, Any], codes: Mapping[str, _Code]) -> onnx.ModelProto:
    """Return the graph with each consumer of such a value taking the constant, and with quantized values decoded."""
    given = onnx.ModelProto()
    given.CopyFrom(proto)
    for node in given.graph.node:
        node.input[:] = [_EXACT + name if name in exact else name for name in node.input]
    tensors = {each.name: numpy_helper.to_array(each) for each in proto.graph.initializer}
    for name, array in exact.items():
        code = codes.get(name, ())
        encoded = _encoded(array, *(tensors[each].reshape(()) for each in code)) if code else array
        given.graph.initializer.append(numpy_helper.from_array(encoded, _EXACT + name))
        if code:
            given.graph.node.append(onnx.helper.make_node("DequantizeLinear", [name, *code], [_DECODED + name]))
    return given


def _encoded(array: Any, scale: Any, zero: Any) -> Any:
    limits = np.iinfo(zero.dtype)
    return np.clip(np.rint(array / scale) + zero, limits.min, limits.max).astype(zero.dtype)


def _widened(model: onnx.ModelProto) -> onnx.ModelProto:
    """Turn half precision into single precision, in place."""
    del model.graph.value_info[:]
    for value in (*model.graph.input, *model.graph.output):
        if value.type.tensor_type.elem_type == TensorProto.FLOAT16:
            value.type.tensor_type.elem_type = TensorProto.FLOAT
    _widen(model.graph)
    return model


def _widen(graph: onnx.GraphProto) -> None:
    attributes = [attribute for node in graph.node for attribute in node.attribute]
    casts = [attribute for node in graph.node if node.op_type == "Cast" for attribute in node.attribute]
    for tensor in (*graph.initializer, *(attribute.t for attribute in attributes if attribute.HasField("t"))):
        if tensor.data_type == TensorProto.FLOAT16:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float32), tensor.name))
    for attribute in casts:
        if attribute.name == "to" and attribute.i == TensorProto.FLOAT16:
            attribute.i = TensorProto.FLOAT
    for node in graph.node:
        for _, inner in subgraphs_proto(node):
            _widen(inner)
