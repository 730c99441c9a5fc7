"""Encodes an attribution as text (metadata entries, doc strings, JSON), and decodes it. It imports no onnx.

The texts of a node with the origins (Origin("encoder.0", TRACED),):

    hierexport.tag      /Model/Layer.0
    hierexport.origins  [["encoder.0","traced"]]
    namespace           encoder/0
    doc string          {"hierarchy_tags":["/Model/Layer.0"],...,"origins":[["encoder.0","traced"]]}
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, get_args

from pytest_hierexport._calls.attribution import Attribution, Evidence, Origin, Origins
from pytest_hierexport._calls.hierarchy import Call, Hierarchy
from pytest_hierexport._calls.names import split_call_name
from pytest_hierexport._onnx.json_text import compact, json_or_none, parse_json, refuse

FORMAT_VERSION = 1
FORMAT = "hierexport.format"
CALLS = "hierexport.calls"
KEEP = "hierexport.keep"
SOURCE = "hierexport.source"
INITIALIZERS = "hierexport.initializers"
TAG = "hierexport.tag"
ORIGINS = "hierexport.origins"
NAMESPACE = "namespace"

NODE_KEYS = frozenset((TAG, ORIGINS, NAMESPACE))

Tags = Literal["both", "metadata", "doc_string", "none"]
PLACES: tuple[Tags, ...] = get_args(Tags)
"""Where tags are written."""
WITH_METADATA = frozenset(("both", "metadata"))
WITH_DOC_STRINGS = frozenset(("both", "doc_string"))

_REPLACED = ("hierexport.", "pkg.torch.", "pkg.onnxscript.")
_quote = json.encoder.encode_basestring_ascii


def is_replaced(key: str) -> bool:
    """Whether a metadata key is written by this package, or by an exporter and replaced by this package."""
    return key.startswith(_REPLACED)


def is_replaced_on_node(key: str) -> bool:
    """Whether a node's metadata key is replaced; nodes have one key more."""
    return key == NAMESPACE or is_replaced(key)


def entries_of(message: Any) -> dict[str, str]:
    """Return the metadata entries of a protobuf message."""
    return {entry.key: entry.value for entry in message.metadata_props}


def is_our_doc(text: str) -> bool:
    """Whether a node's doc string holds tags: this package wrote it, and another program may have ordered it anew."""
    return text.startswith("{") and '"hierarchy_tags"' in text and '"origins"' in text


@dataclass(frozen=True, eq=False)
class Texts:
    """The texts of a node or an initializer; empty for no origins. Two are compared by identity, which is fast."""

    entries: Mapping[str, str] = field(default_factory=dict)
    """The metadata entries of a node; those of an initializer have no namespace."""
    doc_string: str = ""


class Writer:
    """Composes the texts of origins, once per tuple of origins.

    Args:
        attribution: The calls are those of its hierarchy.
        tags: Where the texts are written; those for other places are empty.

    Raises:
        TagError: An origin is of another type, or a call that the hierarchy does not list.
    """

    def __init__(self, attribution: Attribution, tags: Tags = "both") -> None:
        """Compose the texts of all origins, so that an error is raised before anything is written."""
        self._attribution = attribution
        self._metadata = tags in WITH_METADATA
        self._doc_strings = tags in WITH_DOC_STRINGS
        # By `id`: hashing origins takes longer than composing texts. The reference keeps the `id` from being reused.
        self._texts: dict[int, tuple[Origins, Texts]] = {}
        every = (*attribution.nodes.values(), *attribution.initializers.values())
        for origins in {id(origins): origins for origins in every}.values():
            self.texts(origins)

    def texts(self, origins: Origins) -> Texts:
        """Return the texts of origins."""
        known = self._texts.get(id(origins))
        if known is None:
            known = self._texts[id(origins)] = (origins, self._compose(origins) if origins else Texts())
        return known[1]

    def _compose(self, origins: Origins) -> Texts:
        hierarchy = self._attribution.hierarchy
        if isinstance(origins, Origin):
            refuse("a tuple of origins for each node", repr(origins), "give (Origin(call, evidence),)")
        for origin in origins:
            if not isinstance(origin, Origin):
                refuse("an Origin(call, evidence) for each call that a node comes from", repr(origin))
            if origin.call not in hierarchy:
                refuse(
                    "origins among the calls of the hierarchy",
                    f"the call {origin.call!r}",
                    "list it among them: a module that several hold is called by the path of the one that runs it",
                )
        primary, tags = origins[0], _tags(hierarchy, origins)
        pairs = ",".join(f'[{_quote(origin.call)},"{origin.evidence.value}"]' for origin in origins)
        # Formatting takes a third of the time of the JSON encoder; a large file has thousands of different texts.
        doc = (
            f'{{"hierarchy_tags":[{",".join(map(_quote, tags))}],"hierarchy_path":{_quote(tags[0])},'
            f'"hierarchy_count":{len(tags)},"hierarchy_method":"{primary.evidence.value}","origins":[{pairs}]}}'
        )
        namespace = hierarchy[primary.call].path.replace(".", "/")
        entries = {TAG: tags[0], ORIGINS: f"[{pairs}]", NAMESPACE: namespace}
        return Texts(entries if self._metadata else {}, doc if self._doc_strings else "")

    def model_entries(self) -> dict[str, str]:
        """Return the metadata entries of the model itself; none for `tags="none"`.

        With doc strings they include the origins of initializers, which have no place of their own then: the doc
        string of a tensor is part of the graph, which tags must not change.
        """
        if not (self._metadata or self._doc_strings):
            return {}
        hierarchy, initializers = self._attribution.hierarchy, self._attribution.initializers
        entries = {FORMAT: str(FORMAT_VERSION), CALLS: compact(calls_to_json(hierarchy))}
        if hierarchy.keep:
            entries[KEEP] = compact(sorted(hierarchy.keep))
        if self._doc_strings and initializers:
            entries[INITIALIZERS] = compact({key: origins_to_json(origins) for key, origins in initializers.items()})
        return entries


class Reader:
    """Parses texts of origins, once per text."""

    def __init__(self, hierarchy: Hierarchy) -> None:
        """Take the hierarchy that has the calls of the origins."""
        self.hierarchy = hierarchy
        self._of_entries, self._of_doc_string = cache(self._parse_entries), cache(self._parse_doc_string)

    def metadata(self, message: Any) -> Origins:
        """Read the metadata entries of a node or an initializer.

        Raises:
            TagError: The origins cannot be parsed, or the tag does not follow from them.
        """
        entries = entries_of(message)
        return self._of_entries(entries.get(TAG), entries.get(ORIGINS) or "[]")

    def _parse_entries(self, tag: str | None, origins: str) -> Origins:
        return self.from_json(parse_json(origins, f"the entry {ORIGINS}"), tag)

    def doc_string(self, text: str) -> Origins:
        """Read a node's doc string; there are no origins in one that another tool wrote.

        Raises:
            TagError: The origins in it cannot be parsed, or its tags do not follow from them.
        """
        return self._of_doc_string(text)

    def _parse_doc_string(self, text: str) -> Origins:
        doc = json_or_none(text) if text.startswith("{") else None
        if not isinstance(doc, dict) or not {"hierarchy_tags", "origins"} <= doc.keys():
            return ()
        origins = self.origins(doc["origins"])
        tags = _tags(self.hierarchy, origins)
        _check_tag(doc.get("hierarchy_path"), tags, doc["origins"])
        if doc["hierarchy_tags"] != tags:
            refuse(f"the tags {compact(tags)}, which follow from the origins", compact(doc["hierarchy_tags"]))
        return origins

    def from_json(self, pairs: Any, tag: str | None) -> Origins:
        """Read a list of `[call name, evidence]`, and check that `tag` is the tag of the first; None for an empty list.

        Raises:
            TagError: It is not such a list, a call or evidence is unknown, or the tag is another.
        """
        origins = self.origins(pairs)
        _check_tag(tag, _tags(self.hierarchy, origins[:1]), pairs)
        return origins

    def origins(self, pairs: Any) -> Origins:
        """Read a list of `[call name, evidence]`.

        Raises:
            TagError: It is not such a list, or a call or evidence is unknown.
        """
        try:
            origins = tuple(Origin(call, Evidence(evidence)) for call, evidence in pairs)
            unknown = [origin.call for origin in origins if origin.call not in self.hierarchy]
        except (TypeError, ValueError):
            refuse("origins as a list of [call name, evidence]", compact(pairs))
        if unknown:
            refuse("origins among the calls that the file lists", f"the call {unknown[0]!r}")
        return origins

    def initializers(self, entries: Mapping[str, str]) -> dict[str, Origins]:
        """Read the origins of initializers from the metadata entries of the model itself.

        Raises:
            TagError: They cannot be parsed.
        """
        listed = parse_json(entries.get(INITIALIZERS, "{}"), f"the entry {INITIALIZERS}")
        if not isinstance(listed, dict):
            refuse("initializers as an object: key → origins", compact(listed))
        return {key: self.origins(pairs) for key, pairs in listed.items()}


def _check_tag(tag: str | None, expected: list[str], pairs: Any) -> None:
    """Check that a tag is the first of those that follow from origins; None for no origins."""
    first = expected[0] if expected else None
    if tag != first:
        refuse(f"the tag {first!r}, which follows from the origins {compact(pairs)}", repr(tag))


def _tags(hierarchy: Hierarchy, origins: Iterable[Origin]) -> list[str]:
    """Return the different tags of origins, in their order."""
    return list(dict.fromkeys(hierarchy.tag(origin.call) for origin in origins))


def origins_to_json(origins: Iterable[Origin]) -> list[list[str]]:
    """Return origins as a list of `[call name, evidence]`."""
    return [[origin.call, origin.evidence.value] for origin in origins]


def calls_to_json(hierarchy: Hierarchy) -> dict[str, list[str | None]]:
    """Return the calls as call name → `[parent call name or null, qualified class]`, in execution order."""
    return {name: [call.parent, call.cls] for name, call in hierarchy.items()}


def hierarchy_from_json(calls: Any, keep: Any) -> Hierarchy:
    """Decode the calls that :func:`calls_to_json` encoded, and the kept classes.

    Raises:
        TagError: They are not in that form, or contradict each other.
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


def hierarchy_from_entries(entries: Mapping[str, str]) -> Hierarchy:
    """Read the calls from the metadata entries of the model itself.

    Raises:
        TagError: The entries are missing, have an unknown format, or cannot be parsed.
    """
    if FORMAT not in entries:
        refuse(f"a model with the entry {FORMAT}", "none", "export the model with its tags, or read its sidecar")
    check_format(entries[FORMAT])
    calls = parse_json(entries.get(CALLS, ""), f"the entry {CALLS}")
    keep = parse_json(entries.get(KEEP, "[]"), f"the entry {KEEP}")
    return hierarchy_from_json(calls, keep)


def check_format(found: object) -> None:
    """Check that this version of the package reads a format, given as text or as a number.

    Raises:
        TagError: It does not; the error names the format.
    """
    if str(found) != str(FORMAT_VERSION):
        refuse(
            f"tags in format {FORMAT_VERSION}",
            f"format {found}",
            "read the file with the version of pytest-hierexport that wrote it, or a newer one",
        )
