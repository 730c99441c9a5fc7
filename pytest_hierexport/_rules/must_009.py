"""MUST-009: the file and its sidecar say the same, and the sidecar follows its schema.

The tags of the file are stripped from a copy of it and written again from the sidecar's attribution; then every text
must be equal to that in the file.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import onnx

from pytest_hierexport._errors import TagError
from pytest_hierexport._onnx import codec, sidecar
from pytest_hierexport._onnx.difference import Difference
from pytest_hierexport._onnx.graph import graph_inputs, inventory_proto
from pytest_hierexport._onnx.sidecar import Sidecar
from pytest_hierexport._onnx.storage import attach_proto
from pytest_hierexport._rules.base import ExportedCase, Violation, limited

_LONGEST = 300
_NOTHING = "nothing"


@limited
def check(exported: ExportedCase) -> Iterator[Violation]:
    path = sidecar.sidecar_path(exported.path)
    try:
        beside = sidecar.sidecar_beside(exported.path)
    except TagError as error:
        yield Violation(path.name, error.expected, error.found, error.do)
        return
    try:
        sidecar.check_fits(exported.path, beside)
    except TagError as error:
        yield Violation(path.name, error.expected, error.found, error.do)
    proto, text = exported.proto, path.read_text(encoding="utf-8")
    in_file = (*_in_interface(proto.graph, beside), *_in_keys(proto, beside), *_in_texts(proto, beside))
    for difference in (*in_file, *_in_modules(beside), *_in_document(text, beside)):
        yield Violation(
            difference.where,
            f"what {path.name} says: {difference.expected[:_LONGEST]}",
            difference.found[:_LONGEST],
            "export again, and change tags through pytest_hierexport.rewrite alone",
        )


def _in_interface(graph: onnx.GraphProto, beside: Sidecar) -> Iterator[Difference]:
    sides = (("inputs", beside.inputs, graph_inputs(graph)), ("outputs", beside.outputs, graph.output))
    for kind, said, values in sides:
        if list(said) != (found := [value.name for value in values]):
            yield Difference(f"the graph's {kind}", ", ".join(said), ", ".join(found))


def _in_keys(proto: onnx.ModelProto, beside: Sidecar) -> Iterator[Difference]:
    """Compare keys: every node on both sides, every attributed initializer in the file."""
    parts, said = inventory_proto(proto), beside.attribution
    nodes, initializers = (dict.fromkeys(key for key, _ in part) for part in (parts.nodes, parts.initializers))
    for wanted, kind, found in ((said.nodes, "node", nodes), (said.initializers, "initializer", initializers)):
        for key in [key for key in wanted if key not in found]:
            yield Difference(f"{kind} {key}", "one of that key", _NOTHING)
    for key in [key for key in nodes if key not in said.nodes]:
        yield Difference(f"node {key}", _NOTHING, "one of that key")


def _in_texts(proto: onnx.ModelProto, beside: Sidecar) -> Iterator[Difference]:
    """Compare every text of ours with the one that the sidecar's attribution gives, where this file has tags at all."""
    tags, said = _places(proto), type(proto)()
    said.CopyFrom(proto)
    attach_proto(said, beside.attribution, tags)
    # Others may write namespaces where we do not.
    shared = {codec.NAMESPACE} if tags in codec.WITH_METADATA else set()
    before, after = ([("the model", model), *inventory_proto(model).elements()] for model in (proto, said))
    for (where, message), (_, anew) in zip(before, after, strict=True):
        found, wanted = (_texts(each, shared) for each in (message, anew))
        for key in sorted(found.keys() | wanted.keys()):
            if found.get(key) != wanted.get(key):
                yield Difference(f"{where}, {key}", wanted.get(key, _NOTHING), found.get(key, _NOTHING))


def _places(proto: onnx.ModelProto) -> codec.Tags:
    """Return the places in which a file has tags."""
    elements = [element for _, element in inventory_proto(proto).elements()]
    metadata = any(codec.TAG in codec.entries_of(element) for element in elements)
    of_model = codec.entries_of(proto)
    if codec.INITIALIZERS in of_model or any(codec.is_our_doc(element.doc_string) for element in elements):
        return "both" if metadata else "doc_string"
    return "metadata" if metadata or codec.FORMAT in of_model else "none"


def _texts(message: Any, shared: set[str]) -> dict[str, str]:
    """Return the texts of a message that are ours, by key; those of a key that a damaged file repeats, all in one."""
    texts: dict[str, list[str]] = defaultdict(list)
    for entry in message.metadata_props:
        if (entry.key.startswith("hierexport.") and entry.key != codec.SOURCE) or entry.key in shared:
            texts[entry.key].append(entry.value)
    if doc_string := getattr(message, "doc_string", ""):
        texts["doc_string"] = [doc_string]
    return {
        key: values[0] if len(values) == 1 else f"{len(values)} entries: {', '.join(values)}"
        for key, values in texts.items()
    }


def _in_modules(beside: Sidecar) -> Iterator[Difference]:
    """Compare the calls with the module tree, where the export had one."""
    classes = {module.path: module.cls for module in beside.modules}
    for name, call in beside.attribution.hierarchy.items() if classes else ():
        if classes.get(call.path) != call.cls:
            found = classes.get(call.path, _NOTHING)
            yield Difference(f"the module of call {name!r}", f"{call.cls} among the calls", f"{found} in the tree")


def _in_document(text: str, beside: Sidecar) -> Iterator[Difference]:
    """Compare the text of the sidecar with the one that is written for its content."""
    found, wanted = json.loads(text), json.loads(sidecar.to_text(beside))
    if entries := [key for key in {**found, **wanted} if found.get(key) != wanted.get(key)]:
        found_in = f"something else in {', '.join(entries)}"
        yield Difference("the sidecar", "what follows from its own calls, origins and modules", found_in)
