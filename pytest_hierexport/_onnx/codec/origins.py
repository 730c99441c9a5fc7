"""Writes origins as text for a node or an initializer (metadata entries, doc string), and reads them back.

Writer(hierarchy).texts((Origin("encoder.0", TRACED),))
tag         /Model/Layer.0
origins     [["encoder.0","traced"]]
namespace   encoder/0
doc_string  {"hierarchy_tags":["/Model/Layer.0"],...,"origins":[["encoder.0","traced"]]}
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_hierexport._calls.attribution import Attribution, Evidence, Origin, Origins
from pytest_hierexport._calls.hierarchy import Hierarchy
from pytest_hierexport._onnx.codec.places import NAMESPACE, ORIGINS, TAG
from pytest_hierexport._onnx.json_text import compact, parse_json, refuse

__all__ = ["Reader", "Texts", "Writer", "check_origins", "is_our_doc", "origins_to_json"]

_EVIDENCE = {evidence.value: evidence for evidence in Evidence}
_quote = json.encoder.encode_basestring_ascii


@dataclass(frozen=True, slots=True)
class Texts:
    """The texts of the origins of one node or initializer."""

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
    """Check that every origin of an attribution is a call of its hierarchy.

    Raises:
        TagError: An origin is a call that the hierarchy does not list.
    """
    # By identity, as in Writer: most nodes of a call share one tuple of origins.
    known = {id(o): o for part in (attribution.nodes, attribution.initializers) for o in part.values()}
    calls = (origin.call for origins in known.values() for origin in origins)
    unknown = (call for call in calls if call not in attribution.hierarchy)
    if (call := next(unknown, None)) is not None:
        refuse(
            "origins among the calls of the hierarchy",
            f"the call {call!r}",
            "list it among them: a module that several hold is called by the path of the one that runs it",
        )


class Writer:
    """Composes the texts of origins, once per tuple of origins."""

    def __init__(self, hierarchy: Hierarchy) -> None:
        """Write for the calls of this hierarchy."""
        self._hierarchy = hierarchy
        # By identity: hashing origins costs more than composing texts. A reference keeps the identity unique.
        self._texts: dict[int, tuple[Origins, Texts]] = {}

    def texts(self, origins: Origins) -> Texts:
        """Return the texts of one or more origins."""
        known = self._texts.get(id(origins))
        if known is None:
            known = self._texts[id(origins)] = (origins, self._compose(origins))
        return known[1]

    def _compose(self, origins: Origins) -> Texts:
        primary = origins[0]
        tags = _tags(self._hierarchy, origins)
        pairs = ",".join(f'[{_quote(origin.call)},"{origin.evidence.value}"]' for origin in origins)
        # Formatting takes a third of the time of the JSON encoder; a large file has thousands of different texts.
        doc = (
            f'{{"hierarchy_tags":[{",".join(map(_quote, tags))}],"hierarchy_path":{_quote(tags[0])},'
            f'"hierarchy_count":{len(tags)},"hierarchy_method":"{primary.evidence.value}","origins":[{pairs}]}}'
        )
        return Texts(tags[0], f"[{pairs}]", self._hierarchy[primary.call].path.replace(".", "/"), doc)


class Reader:
    """Parses texts of origins, once per text."""

    def __init__(self, hierarchy: Hierarchy) -> None:
        """Read origins in the calls of this hierarchy."""
        self.hierarchy = hierarchy
        self._entries: dict[tuple[str | None, str], Origins] = {}

    def entries(self, tag: str | None, origins: str) -> Origins:
        """Read the values of `hierexport.tag` and `hierexport.origins`.

        Raises:
            TagError: The origins cannot be parsed, or the tag does not follow from them.
        """
        known = self._entries.get((tag, origins))
        if known is None:
            pairs = parse_json(origins, f"the entry {ORIGINS}")
            known = self._entries[tag, origins] = self.from_json(pairs, tag)
        return known

    def doc_string(self, text: str) -> Origins | None:
        """Read a node's doc string; None for one of another tool.

        Raises:
            TagError: The origins in it cannot be parsed, or its tags do not follow from them.
        """
        doc = _our_doc(text)
        if doc is None:
            return None
        origins = self.from_json(doc["origins"], doc.get("hierarchy_path"))
        tags = _tags(self.hierarchy, origins)
        if doc["hierarchy_tags"] != tags:
            refuse(f"the tags {compact(tags)}, which follow from the origins", compact(doc["hierarchy_tags"]))
        return origins

    def from_json(self, pairs: Any, tag: str | None) -> Origins:
        """Read a list of `[call name, evidence]` whose primary has this tag; the tag of no origins is None.

        Raises:
            TagError: It is no such list, names an unknown call or evidence, or the tag does not follow from it.
        """
        origins = self.origins(pairs)
        expected = self.hierarchy.tag(origins[0].call) if origins else None
        if tag != expected:
            refuse(f"the tag {expected!r}, which follows from the origins {compact(pairs)}", repr(tag))
        return origins

    def origins(self, pairs: Any) -> Origins:
        """Read a list of `[call name, evidence]`.

        Raises:
            TagError: It is no such list, or names an unknown call or evidence.
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
    """Whether this package wrote a node's doc string."""
    return text.startswith('{"hierarchy_tags":')


def _tags(hierarchy: Hierarchy, origins: Iterable[Origin]) -> list[str]:
    """Return the different tags of origins, in their order."""
    return list(dict.fromkeys(hierarchy.tag(origin.call) for origin in origins))


def origins_to_json(origins: Iterable[Origin]) -> list[list[str]]:
    """Return origins as a list of `[call name, evidence]`."""
    return [[origin.call, origin.evidence.value] for origin in origins]
