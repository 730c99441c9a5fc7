"""MUST-010: neither the file nor its sidecar names the machine that they were made on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import onnx

from pytest_hierexport._errors import TagError, UsageError
from pytest_hierexport._files.machine import Machine
from pytest_hierexport._onnx.graph import inventory_proto
from pytest_hierexport._onnx.json_text import json_or_none
from pytest_hierexport._onnx.proto_tags import TaggedProto
from pytest_hierexport._onnx.sidecar import sidecar_path
from pytest_hierexport._rules.base import ExportedCase, Violation, limited

_LEFT_OUT = frozenset(("raw_data", "node", "initializer", "g", "graphs"))
"""The fields of messages that hold numbers as bytes, and those whose messages are listed by themselves."""


class _Text(NamedTuple):
    where: str
    text: str
    is_name: bool
    """Whether it names something, and may look like a path."""


@limited
def check(exported: ExportedCase) -> Iterator[Violation]:
    machine, is_known = Machine.this(), _known(exported)
    for where, text, is_name in _texts(exported):
        if is_known(text):
            continue
        for found, what in machine.revealed_by(text, is_name=is_name):
            yield Violation(
                where,
                "no path, user or host of the machine that exports",
                f"{found}, which reveals {what}",
                "find its writer: an exporter's metadata, a stack trace, a path in a class or a constant of the model",
            )


def _known(exported: ExportedCase) -> Callable[[str], bool]:
    """Return whether a text is a name of the model's own: a module may be called like a folder or a user.

    Tags are resolved one by one; all at once would take quadratic memory.
    """
    try:
        hierarchy = exported.attribution.hierarchy
    except (TagError, UsageError):
        return lambda _: False
    namespaces = {call.path.replace(".", "/") for call in hierarchy.values()}

    def is_known(text: str) -> bool:
        try:
            return text in hierarchy or text in namespaces or hierarchy.resolve(text) is not None
        except KeyError:
            return False

    return is_known


def _texts(exported: ExportedCase) -> Iterator[_Text]:
    """Yield every text of the file and of its sidecar; in place of a JSON text, the texts within."""
    message = _message(exported)
    parts = inventory_proto(message)
    # The first graph is the model's own.
    graphs = ((f"graph {graph.name}", graph) for graph in parts.graphs[1:])
    for where, element in (*parts.elements(), *graphs, ("the model", message)):
        yield from _in_fields(where, element)
    beside = sidecar_path(exported.path)
    if beside.exists():
        yield from _in_text(beside.name, beside.read_text(encoding="utf-8", errors="replace"))


def _message(exported: ExportedCase) -> onnx.ModelProto:
    """Return the file's message, also one with external data outside its folder, which the rule is about."""
    try:
        return exported.proto
    except UsageError:
        return TaggedProto.load(exported.path, data_anywhere=True).proto


def _in_fields(where: str, message: Any) -> Iterator[_Text]:
    for field, value in message.ListFields():
        if field.name in _LEFT_OUT or field.cpp_type not in {field.CPPTYPE_STRING, field.CPPTYPE_MESSAGE}:
            continue
        # The tool that writes the file names the graph; nodes and values may be named by the paths of modules.
        is_name = field.name in {"name", "input", "output"} and message.DESCRIPTOR.name != "GraphProto"
        for i, item in enumerate(value if field.is_repeated else [value]):
            place = f"{where}, {field.name}[{i}]" if field.is_repeated else f"{where}, {field.name}"
            if field.message_type is not None:
                yield from _in_fields(place, item)
            else:
                text = item if isinstance(item, str) else item.decode("utf-8", "replace")
                yield from _in_text(place, text, is_name=is_name)


def _in_text(where: str, text: str, *, is_name: bool = False) -> Iterator[_Text]:
    """Yield the texts within a JSON document, its keys included; another text as it is."""
    document = json_or_none(text) if text.startswith(("{", "[")) else None
    return _in_json(where, text if document is None else document, is_name=is_name)


def _in_json(where: str, value: Any, *, is_name: bool = False) -> Iterator[_Text]:
    if isinstance(value, str):
        yield _Text(where, value, is_name)
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield _Text(where, key, is_name=True)
            yield from _in_json(f"{where}, {key}", part)
    elif isinstance(value, list):
        for part in value:
            yield from _in_json(where, part)
