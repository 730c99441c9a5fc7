"""How an attribution is written as text - metadata entries, doc strings, JSON - and read back.

Nothing here knows ONNX: :mod:`pytest_hierexport._onnx.storage` says where in a file each text stands.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pytest_hierexport._calls.attribution import Attribution, Evidence, Origin, Origins
from pytest_hierexport._calls.hierarchy import Call, Hierarchy, split_call_name
from pytest_hierexport._onnx.json_text import compact, parse_json, refuse

FORMAT = "hierexport.format"
CALLS = "hierexport.calls"
KEEP = "hierexport.keep"
INITIALIZERS = "hierexport.initializers"
TAG = "hierexport.tag"
ORIGINS = "hierexport.origins"
NAMESPACE = "namespace"

NODE_KEYS = frozenset((TAG, ORIGINS, NAMESPACE))

FORMAT_VERSION = 1

Tags = Literal["both", "metadata", "doc_string", "none"]
PLACES: tuple[Tags, ...] = ("both", "metadata", "doc_string", "none")
"""Where tags may be written."""
WITH_METADATA = frozenset(("both", "metadata"))
WITH_DOC_STRINGS = frozenset(("both", "doc_string"))

_REPLACED = ("hierexport.", "pkg.torch.", "pkg.onnxscript.")
_EVIDENCE = {evidence.value: evidence for evidence in Evidence}
_quote = json.encoder.encode_basestring_ascii


def is_replaced(key: str) -> bool:
    """Whether a metadata key is ours, or one of the exporters' own that ours replace."""
    return key.startswith(_REPLACED)


def is_replaced_on_node(key: str) -> bool:
    """Whether a node's metadata key is ours, or one of the exporters' own that ours replace."""
    return key == NAMESPACE or key.startswith(_REPLACED)


@dataclass(frozen=True, slots=True)
class Texts:
    """What is written for the origins of one node or initializer."""

    tag: str
    origins: str
    namespace: str
    doc_string: str

    @property
    def node_entries(self) -> dict[str, str]:
        """The metadata entries of a node."""
        return {TAG: self.tag, ORIGINS: self.origins, NAMESPACE: self.namespace}

    @property
    def initializer_entries(self) -> dict[str, str]:
        """The metadata entries of an initializer."""
        return {TAG: self.tag, ORIGINS: self.origins}


def check_origins(attribution: Attribution) -> None:
    """Hold the origins of an attribution to the calls of its hierarchy.

    Raises:
        TagError: An origin is a call that the hierarchy does not list.
    """
    # By identity, as the writer: most nodes of a call share their origins.
    held = {id(o): o for part in (attribution.nodes, attribution.initializers) for o in part.values()}
    calls = (origin.call for origins in held.values() for origin in origins)
    unknown = (call for call in calls if call not in attribution.hierarchy)
    if (call := next(unknown, None)) is not None:
        refuse(
            "origins among the calls of the hierarchy",
            f"the call {call!r}",
            "list it among them: a module that several hold is called by the path of the one that runs it",
        )


class Writer:
    """Turns origins into text, each tuple of origins once."""

    def __init__(self, hierarchy: Hierarchy) -> None:
        """Write for the calls of this hierarchy."""
        self._hierarchy = hierarchy
        # By identity: hashing origins costs more than the texts. The tuple is kept, so its identity stays its own.
        self._texts: dict[int, tuple[Origins, Texts]] = {}

    def texts(self, origins: Origins) -> Texts:
        """Return what is written for these origins, at least one."""
        known = self._texts.get(id(origins))
        if known is None:
            known = self._texts[id(origins)] = (origins, self._compose(origins))
        return known[1]

    def _compose(self, origins: Origins) -> Texts:
        primary = origins[0]
        tags = tags_of(self._hierarchy, origins)
        pairs = ",".join(f'[{_quote(origin.call)},"{origin.evidence.value}"]' for origin in origins)
        # Put together by hand, in a third of the encoder's time: a large file holds thousands of different ones.
        doc = (
            f'{{"hierarchy_tags":[{",".join(map(_quote, tags))}],"hierarchy_path":{_quote(tags[0])},'
            f'"hierarchy_count":{len(tags)},"hierarchy_method":"{primary.evidence.value}","origins":[{pairs}]}}'
        )
        return Texts(tags[0], f"[{pairs}]", self._hierarchy[primary.call].path.replace(".", "/"), doc)


class Reader:
    """Turns text into origins, each text once."""

    def __init__(self, hierarchy: Hierarchy) -> None:
        """Read origins in the calls of this hierarchy."""
        self.hierarchy = hierarchy
        self._entries: dict[tuple[str | None, str], Origins] = {}

    def entries(self, tag: str | None, origins: str) -> Origins:
        """Read the values of `hierexport.tag` and `hierexport.origins`.

        Raises:
            TagError: The origins cannot be read, or the tag is another than theirs.
        """
        known = self._entries.get((tag, origins))
        if known is None:
            pairs = parse_json(origins, f"the entry {ORIGINS}")
            known = self._entries[tag, origins] = self.from_json(pairs, tag)
        return known

    def doc_string(self, text: str) -> Origins | None:
        """Read a node's doc string; None for one that is not ours.

        Raises:
            TagError: The doc string is ours but its origins cannot be read, or its tags are others than theirs.
        """
        doc = _our_doc(text)
        return None if doc is None else self._from_doc(doc)

    def _from_doc(self, doc: Mapping[str, Any]) -> Origins:
        origins = self.from_json(doc["origins"], doc.get("hierarchy_path"))
        tags = tags_of(self.hierarchy, origins)
        if doc["hierarchy_tags"] != tags:
            refuse(f"the tags {compact(tags)}, which follow from the origins", compact(doc["hierarchy_tags"]))
        return origins

    def from_json(self, pairs: Any, tag: str | None) -> Origins:
        """Read a list of `[call name, evidence]` whose primary has this tag; None for that of no origins.

        Raises:
            TagError: It is no such list, names a call or an evidence that does not exist, or the tag is another.
        """
        origins = self.origins(pairs)
        expected = self.hierarchy.tag(origins[0].call) if origins else None
        if tag != expected:
            refuse(f"the tag {expected!r}, which follows from the origins {compact(pairs)}", repr(tag))
        return origins

    def origins(self, pairs: Any) -> Origins:
        """Read a list of `[call name, evidence]`.

        Raises:
            TagError: It is no such list, or names a call or an evidence that does not exist.
        """
        try:
            origins = tuple(Origin(call, _EVIDENCE[evidence]) for call, evidence in pairs)
            unknown = [origin.call for origin in origins if origin.call not in self.hierarchy]
        except (KeyError, TypeError, ValueError):
            refuse("origins as a list of [call name, evidence]", compact(pairs))
        if unknown:
            refuse("origins among the calls that the file lists", f"the call {unknown[0]!r}")
        return origins


def _our_doc(text: str) -> Mapping[str, Any] | None:
    if not text.startswith("{"):
        return None
    try:
        doc = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return doc if isinstance(doc, dict) and {"hierarchy_tags", "origins"} <= doc.keys() else None


def is_our_doc(text: str) -> bool:
    """Whether a node's doc string is one that we wrote."""
    return text.startswith('{"hierarchy_tags":')


def tags_of(hierarchy: Hierarchy, origins: Iterable[Origin]) -> list[str]:
    """Return the different tags of origins, in their order."""
    return list(dict.fromkeys(hierarchy.tag(origin.call) for origin in origins))


def origins_to_json(origins: Iterable[Origin]) -> list[list[str]]:
    """Return origins as a list of `[call name, evidence]`."""
    return [[origin.call, origin.evidence.value] for origin in origins]


def calls_to_json(hierarchy: Hierarchy) -> dict[str, list[str | None]]:
    """Return the calls as call name → `[parent call name or null, qualified class]`, in execution order."""
    return {name: [call.parent, call.cls] for name, call in hierarchy.items()}


def hierarchy_from_json(calls: Any, keep: Any) -> Hierarchy:
    """Undo :func:`calls_to_json`.

    Raises:
        TagError: The calls cannot be those of a forward pass.
    """
    if not isinstance(keep, list) or not all(isinstance(cls, str) for cls in keep):
        refuse("the kept classes as a list of qualified classes", compact(keep))
    expected = "calls as an object: call name → [parent or null, class], the root's first"
    if not isinstance(calls, dict) or not calls:
        refuse(expected, compact(calls))
    try:
        return Hierarchy([_call(name, parent, cls) for name, (parent, cls) in calls.items()], keep)
    except (TypeError, ValueError) as error:
        refuse(expected, str(error))


def _call(name: str, parent: str | None, cls: str) -> Call:
    if not isinstance(cls, str) or not isinstance(parent, (str, type(None))):
        raise TypeError(f"call {name!r} has the parent {parent!r} and the class {cls!r}")
    path, index = split_call_name(name)
    return Call(path, index, cls, parent)


def model_entries(attribution: Attribution, *, doc_strings: bool) -> dict[str, str]:
    """Return the model's own entries.

    Where doc strings shall say all by themselves, the origins of initializers stand here too: a tensor's own
    doc string is part of the graph that no tag may change.
    """
    hierarchy = attribution.hierarchy
    entries = {FORMAT: str(FORMAT_VERSION), CALLS: compact(calls_to_json(hierarchy))}
    if hierarchy.keep:
        entries[KEEP] = compact(sorted(hierarchy.keep))
    if doc_strings and attribution.initializers:
        entries[INITIALIZERS] = compact({k: origins_to_json(o) for k, o in attribution.initializers.items()})
    return entries


def initializers(reader: Reader, entries: Mapping[str, str]) -> dict[str, Origins]:
    """Read the origins of initializers from the model's own entries.

    Raises:
        TagError: They cannot be read.
    """
    listed = parse_json(entries.get(INITIALIZERS, "{}"), f"the entry {INITIALIZERS}")
    if not isinstance(listed, dict):
        refuse("initializers as an object: key → origins", compact(listed))
    return {key: reader.origins(pairs) for key, pairs in listed.items()}


def hierarchy_from_entries(entries: Mapping[str, str]) -> Hierarchy:
    """Read the calls from the model's own entries.

    Raises:
        TagError: The entries are not there, of an unknown format, or broken.
    """
    if FORMAT not in entries:
        refuse(f"a model with the entry {FORMAT}", "none", "export the model with its tags, or read its sidecar")
    check_format(entries[FORMAT])
    calls = parse_json(entries.get(CALLS, ""), f"the entry {CALLS}")
    keep = parse_json(entries.get(KEEP, "[]"), f"the entry {KEEP}")
    return hierarchy_from_json(calls, keep)


def check_format(found: object) -> None:
    """Check that a format is one that we know, as text or as a number.

    Raises:
        TagError: It is another; the error names it.
    """
    if str(found) != str(FORMAT_VERSION):
        refuse(
            f"tags in format {FORMAT_VERSION}",
            f"format {found}",
            "read the file with the version of pytest-hierexport that wrote it, or a newer one",
        )
