"""MUST-003: every node of every model has an origin that is known."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_hierexport._calls.attribution import Attribution, Evidence
from pytest_hierexport._errors import TagError
from pytest_hierexport._onnx.graph import walk
from pytest_hierexport._onnx.proto_tags import TaggedProto
from pytest_hierexport._rules.base import ExportedCase, Violation, at_most


def check(exported: ExportedCase) -> Iterator[Violation]:
    read: dict[str, Attribution] = {}
    for place in ("metadata", "doc_string"):
        try:
            attribution = TaggedProto(exported.proto).read(place)
        except TagError as error:
            yield Violation(f"{exported.path.name}, {place}", error.expected, error.found, error.do)
            return
        if attribution is not None:
            read[place] = attribution
    if not read:
        do = "export with tags, or assert this rule of a tagged file"
        yield Violation(exported.path.name, "tags in the file", "none", do)
        return
    yield from at_most(_untagged(exported, read))
    yield from at_most(_derived(exported, next(iter(read.values()))))


def _untagged(exported: ExportedCase, read: dict[str, Attribution]) -> Iterator[Violation]:
    for key, node in walk(exported.proto):
        missing = [place for place, attribution in read.items() if not attribution.nodes.get(key)]
        if missing:
            yield Violation(
                f"{exported.node(key)}, a {node.op_type}",
                "an origin: the call that the node comes from",
                f"none in its {' and '.join(missing)}",
                "find the transformation that made the node, and carry the origins through it",
            )


def _derived(exported: ExportedCase, attribution: Attribution) -> Iterator[Violation]:
    nodes = attribution.nodes.items()
    guessed = [key for key, origins in nodes if any(origin.evidence is Evidence.DERIVED for origin in origins)]
    allowed = exported.case.allow_derived
    if len(guessed) <= allowed:
        return
    for key in guessed:
        yield Violation(
            exported.node(key),
            "no origin that is derived from neighbours" if not allowed else f"at most {allowed} derived origins",
            f"{len(guessed)} of {len(attribution.nodes)} nodes have one",
            "make the origin known where the node is made; or state `allow_derived` for this case, with the reason",
        )
