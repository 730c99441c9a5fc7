"""MUST-010: neither the file nor its sidecar names the machine that they were made on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from pytest_hierexport._errors import TagError, UsageError
from pytest_hierexport._rules.base import ExportedCase, Rule, Violation, limited

if TYPE_CHECKING:
    import onnx

    from pytest_hierexport._rules.leaks import Text


@limited
def _check(exported: ExportedCase) -> Iterator[Violation]:
    from pytest_hierexport._rules.leaks import Machine

    machine, is_known = Machine.this(), _known(exported)
    for text in _texts(exported):
        if is_known(text.text):
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


RULE = Rule("MUST-010", "nothing leaks", _check)
