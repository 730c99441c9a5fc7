"""MUST-002: no class of `torch.nn` in a tag."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pytest_hierexport._calls.hierarchy import decode, is_torch_nn
from pytest_hierexport._errors import TagError
from pytest_hierexport._rules.base import ExportedCase, Rule, Violation, at_most

if TYPE_CHECKING:
    from pytest_hierexport._calls.hierarchy import Hierarchy

__all__ = ["RULE"]


def _check(exported: ExportedCase) -> Iterator[Violation]:
    from pytest_hierexport._rules.written import hierarchy_of

    try:
        hierarchy = hierarchy_of(exported.proto)
    except TagError as error:
        yield Violation(exported.path.name, error.expected, error.found, error.do)
        return
    yield from at_most(_violations(exported, hierarchy))


def _violations(exported: ExportedCase, hierarchy: Hierarchy) -> Iterator[Violation]:
    from pytest_hierexport._rules.written import written_tags

    found: dict[str, tuple[str, str] | None] = {}
    for written in written_tags(exported.proto):
        if written.tag not in found:
            found[written.tag] = _building_block(written.tag, hierarchy)
        block = found[written.tag]
        if block is not None:
            segment, cls = block
            yield Violation(
                f"{written.where} ({written.tag})",
                "a tag without classes of torch.nn: they say what is computed, not where",
                f"the segment {segment}, which is {cls}",
                "leave out calls whose class is defined in torch.nn, or state the class in `keep`",
            )


def _building_block(tag: str, hierarchy: Hierarchy) -> tuple[str, str] | None:
    """Return the first segment of a tag that resolves to a class of `torch.nn` that nobody asked to keep."""
    segments = [segment for segment in tag.split("/") if segment]
    for depth, segment in enumerate(segments, 1):
        cls = _class_of("/" + "/".join(segments[:depth]), segment, hierarchy)
        if cls is not None and is_torch_nn(cls) and cls not in hierarchy.keep:
            return segment, cls
    return None


def _class_of(tag: str, segment: str, hierarchy: Hierarchy) -> str | None:
    """Return the class that a segment stands for: of its call, else of a call of that class name, else torch's own."""
    try:
        return hierarchy.resolve(tag).cls
    except KeyError:
        name = segment.partition("@")[0].partition(".")[0]
    classes = {call.cls for call in hierarchy.values() if call.class_name == name}
    if classes:
        return min(classes, key=is_torch_nn)
    return _in_torch(decode(name))


def _in_torch(name: str) -> str | None:
    from torch import nn

    cls = getattr(nn, name, None)
    return f"{cls.__module__}.{cls.__qualname__}" if isinstance(cls, type) else None


RULE = Rule("MUST-002", "no torch.nn class in a tag", _check, cardinal=True)
