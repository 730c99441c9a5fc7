"""MUST-002: no class of `torch.nn` in a tag."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import cache, partial
from urllib.parse import unquote

import onnx

from pytest_hierexport._calls.hierarchy import Hierarchy
from pytest_hierexport._calls.names import is_torch_nn
from pytest_hierexport._errors import TagError
from pytest_hierexport._onnx import codec
from pytest_hierexport._onnx.graph import inventory_proto
from pytest_hierexport._onnx.json_text import json_or_none
from pytest_hierexport._rules.base import ExportedCase, Violation, limited


@limited
def check(exported: ExportedCase) -> Iterator[Violation]:
    try:
        hierarchy = codec.hierarchy_from_entries(codec.entries_of(exported.proto))
    except TagError as error:
        yield Violation(exported.path.name, error.expected, error.found, error.do)
        return
    block_of = cache(partial(_building_block, hierarchy))
    for where, tag in _tags(exported.proto):
        if block := block_of(tag):
            segment, cls = block
            yield Violation(
                f"{where} ({tag})",
                "a tag without classes of torch.nn: they say what is computed, not where",
                f"the segment {segment}, which is {cls}",
                "leave out calls whose class is defined in torch.nn, or state the class in `keep`; "
                "give other classes to calls with their module: package.module.Name",
            )


def _tags(proto: onnx.ModelProto) -> Iterator[tuple[str, str]]:
    """Yield each tag in the file with its place; a tag may be invalid."""
    for where, element in inventory_proto(proto).elements():
        if (tag := codec.entries_of(element).get(codec.TAG)) is not None:
            yield where, tag
        if codec.is_our_doc(element.doc_string):
            yield from ((f"{where}, doc_string", tag) for tag in dict.fromkeys(_tags_in(element.doc_string)))


def _tags_in(doc_string: str) -> Iterator[str]:
    # Of one that is no JSON, MUST-003 says what is wrong.
    document = json_or_none(doc_string) or {}
    path, tags = document.get("hierarchy_path"), document.get("hierarchy_tags")
    yield from (tag for tag in (path, *(tags if isinstance(tags, list) else ())) if isinstance(tag, str))


def _building_block(hierarchy: Hierarchy, tag: str) -> tuple[str, str] | None:
    """Return the first segment of a tag that resolves to a class of `torch.nn` that is not among the kept ones."""
    segments = [segment for segment in tag.split("/") if segment]
    for depth, segment in enumerate(segments, 1):
        cls = _class_of(hierarchy, "/" + "/".join(segments[:depth]), segment)
        if cls is not None and is_torch_nn(cls) and cls not in hierarchy.keep:
            return segment, cls
    return None


def _class_of(hierarchy: Hierarchy, tag: str, segment: str) -> str | None:
    """Return the class of a segment: of the call that has the tag, else of a call by its name, else of `torch.nn`.

    A class that an exporter wrote without its module may be torch's own.
    """
    with suppress(KeyError):
        if "." in (cls := hierarchy.resolve(tag).cls):
            return cls
    name = segment.partition("@")[0].partition(".")[0]
    classes = {call.cls for call in hierarchy.values() if call.class_name == name and "." in call.cls}
    if classes:
        return min(classes, key=is_torch_nn)
    from torch import nn

    of_torch = getattr(nn, unquote(name), None)
    return f"{of_torch.__module__}.{of_torch.__qualname__}" if isinstance(of_torch, type) else None
