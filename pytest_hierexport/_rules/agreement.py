"""Where an ONNX file and its sidecar do not say the same."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_hierexport._onnx import codec, sidecar
from pytest_hierexport._onnx.graph import Inventory, inventory_proto
from pytest_hierexport._onnx.sidecar import Sidecar
from pytest_hierexport._rules.written import entries_of

if TYPE_CHECKING:
    import onnx

    from pytest_hierexport._calls.attribution import Origins

__all__ = ["Disagreement", "disagreements"]

_NOTHING = "nothing"


@dataclass(frozen=True)
class Disagreement:
    """A place where the two differ."""

    where: str
    beside: str
    """What the sidecar says, or follows from it."""
    found: str
    """What stands in the file."""


def disagreements(proto: onnx.ModelProto, beside: Sidecar, text: str) -> Iterator[Disagreement]:
    """Yield every difference between a file and its sidecar.

    Every text that stands in the file must be the one that the sidecar's origins give, so that a tag, a count or a
    namespace that somebody changed by hand is found wherever it stands.

    Args:
        proto: The file.
        beside: Its sidecar.
        text: The sidecar's text.
    """
    file = _File(inventory_proto(proto), proto)
    yield from file.interface(beside)
    yield from file.keys(beside)
    yield from file.texts(beside)
    yield from _modules(beside)
    if json.loads(text) != json.loads(sidecar.to_text(beside)):
        yield Disagreement("the sidecar", "what follows from its own calls, origins and modules", "something else")


@dataclass(frozen=True)
class _File:
    """The parts of a file, and where tags stand in it."""

    parts: Inventory[onnx.NodeProto, onnx.TensorProto, onnx.GraphProto]
    proto: onnx.ModelProto

    @property
    def with_metadata(self) -> bool:
        messages = (message for _, message in (*self.parts.nodes, *self.parts.initializers))
        return any(codec.TAG in entries_of(message) for message in messages)

    @property
    def with_doc_strings(self) -> bool:
        listed = codec.INITIALIZERS in entries_of(self.proto)
        return listed or any(codec.is_our_doc(node.doc_string) for _, node in self.parts.nodes)

    def interface(self, beside: Sidecar) -> Iterator[Disagreement]:
        """Compare the names of inputs and outputs."""
        graph = self.proto.graph
        initializers = {tensor.name for tensor in graph.initializer}
        inputs = [value.name for value in graph.input if value.name not in initializers]
        for kind, said, found in (
            ("inputs", beside.inputs, inputs),
            ("outputs", beside.outputs, [value.name for value in graph.output]),
        ):
            if list(said) != found:
                yield Disagreement(f"the graph's {kind}", ", ".join(said), ", ".join(found))

    def keys(self, beside: Sidecar) -> Iterator[Disagreement]:
        """Compare what there is: every node on both sides, every attributed initializer in the file."""
        nodes, initializers = ({key for key, _ in part} for part in (self.parts.nodes, self.parts.initializers))
        said = beside.attribution
        for key in [key for key in said.nodes if key not in nodes]:
            yield Disagreement(f"node {key}", "a node of that key", _NOTHING)
        for key in [key for key, _ in self.parts.nodes if key not in said.nodes]:
            yield Disagreement(f"node {key}", _NOTHING, "a node of that key")
        for key in [key for key in said.initializers if key not in initializers]:
            yield Disagreement(f"initializer {key}", "an initializer of that key", _NOTHING)

    def texts(self, beside: Sidecar) -> Iterator[Disagreement]:
        """Compare every text of ours, at the places where this file has them at all."""
        metadata, doc_strings = self.with_metadata, self.with_doc_strings
        said, writer = beside.attribution, codec.Writer(beside.attribution.hierarchy)
        if metadata or doc_strings:
            entries = codec.model_entries(said, doc_strings=doc_strings)
            yield from _in_entries("the model", entries, self.proto, {*entries, codec.KEEP, codec.INITIALIZERS})
        for key, node in self.parts.nodes:
            origins: Origins = said.nodes.get(key, ())
            if metadata:
                wanted = writer.texts(origins).node_entries if origins else {}
                yield from _in_entries(f"node {key}", wanted, node, codec.NODE_KEYS)
            if doc_strings:
                doc = writer.texts(origins).doc_string if origins else ""
                if doc != node.doc_string and (doc or codec.is_our_doc(node.doc_string)):
                    yield Disagreement(f"node {key}, doc_string", doc or _NOTHING, node.doc_string or _NOTHING)
        for key, tensor in self.parts.initializers if metadata else ():
            owners = said.initializers.get(key, ())
            wanted = writer.texts(owners).initializer_entries if owners else {}
            yield from _in_entries(f"initializer {key}", wanted, tensor, (codec.TAG, codec.ORIGINS))


def _in_entries(where: str, wanted: Mapping[str, str], message: Any, keys: Iterable[str]) -> Iterator[Disagreement]:
    """Compare metadata entries; a key that stands there twice says two things."""
    found = entries_of(message)
    counts = Counter(entry.key for entry in message.metadata_props)
    for key in sorted(keys):
        said, stands = wanted.get(key, _NOTHING), found.get(key, _NOTHING)
        if said != stands:
            yield Disagreement(f"{where}, {key}", said, stands)
        elif counts[key] > 1:
            yield Disagreement(f"{where}, {key}", "one entry", f"{counts[key]} entries")


def _modules(beside: Sidecar) -> Iterator[Disagreement]:
    """Compare the calls with the module tree, where the export had one."""
    classes = {module.path: module.cls for module in beside.modules}
    for name, call in beside.attribution.hierarchy.items() if classes else ():
        if classes.get(call.path) != call.cls:
            found = classes.get(call.path, _NOTHING)
            yield Disagreement(f"the module of call {name!r}", f"{call.cls} among the calls", f"{found} in the tree")
