"""MUST-010: neither the file nor its sidecar names the machine that they were made on."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import TYPE_CHECKING

from pytest_hierexport._errors import TagError, UsageError
from pytest_hierexport._rules.base import ExportedCase, Rule, Violation, limited

if TYPE_CHECKING:
    import onnx

    from pytest_hierexport._calls.hierarchy import Hierarchy
    from pytest_hierexport._rules.leaks import Text


@limited
def _check(exported: ExportedCase) -> Iterator[Violation]:
    from pytest_hierexport._rules.leaks import Machine

    machine, known = Machine.this(), _known(exported)
    for text in _texts(exported):
        if text.text in known:
            continue
        for found, what in machine.revealed_by(text.text, is_name=text.is_name):
            yield Violation(
                text.where,
                "no path, user or host of the machine that exports",
                f"{found}, which reveals {what}",
                "find its writer: an exporter's metadata, a stack trace, a path in a class or a constant of the model",
            )


def _texts(exported: ExportedCase) -> Iterator[Text]:
    from pytest_hierexport._onnx.storage import sidecar_path
    from pytest_hierexport._rules.leaks import texts_in_json, texts_in_message

    yield from texts_in_message(_message(exported))
    beside = sidecar_path(exported.path)
    if beside.exists():
        yield from texts_in_json(beside.name, beside.read_text(encoding="utf-8", errors="replace"))


def _message(exported: ExportedCase) -> onnx.ModelProto:
    """Return the file's message, also one with external data outside its folder, which the rule is about."""
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # protobuf ships no types

    try:
        return exported.proto
    except UsageError:
        try:
            return onnx.load(exported.path, load_external_data=False)
        except (OSError, DecodeError):
            pass
        raise


class _Names(Container[str]):
    """The call names, tags and namespaces of a hierarchy; all tags at once would take quadratic memory."""

    def __init__(self, hierarchy: Hierarchy) -> None:
        self._hierarchy = hierarchy
        self._namespaces = {call.path.replace(".", "/") for call in hierarchy.values()}

    def __contains__(self, text: object) -> bool:
        return text in self._hierarchy or text in self._namespaces or self._is_tag(text)

    def _is_tag(self, text: object) -> bool:
        try:
            return isinstance(text, str) and self._hierarchy.resolve(text) is not None
        except KeyError:
            return False


def _known(exported: ExportedCase) -> Container[str]:
    """Return the texts that follow from the model's own names: a module may be called like a folder or a user."""
    try:
        return _Names(exported.attribution.hierarchy)
    except (TagError, UsageError):
        return ()


RULE = Rule("MUST-010", "nothing leaks", _check)
