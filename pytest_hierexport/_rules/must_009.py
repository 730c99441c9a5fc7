"""MUST-009: the file and its sidecar say the same, and the sidecar follows its schema."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_hierexport._errors import TagError
from pytest_hierexport._rules.base import ExportedCase, Rule, Violation, at_most

__all__ = ["RULE"]

_LONGEST = 300


def _check(exported: ExportedCase) -> Iterator[Violation]:
    yield from at_most(_violations(exported))


def _violations(exported: ExportedCase) -> Iterator[Violation]:
    from pytest_hierexport._onnx.sidecar import check_fits, sidecar_beside
    from pytest_hierexport._onnx.storage import sidecar_path
    from pytest_hierexport._rules.agreement import disagreements

    path = sidecar_path(exported.path)
    try:
        beside = sidecar_beside(exported.path)
    except TagError as error:
        yield Violation(path.name, error.expected, error.found, error.do)
        return
    try:
        check_fits(exported.path, beside)
    except TagError as error:
        yield Violation(path.name, error.expected, error.found, error.do)
    for found in disagreements(exported.proto, beside, path.read_text(encoding="utf-8")):
        yield Violation(
            found.where,
            f"what {path.name} says: {found.beside[:_LONGEST]}",
            found.found[:_LONGEST],
            "export again, and change tags through pytest_hierexport.rewrite alone",
        )


RULE = Rule("MUST-009", "file and sidecar agree", _check)
