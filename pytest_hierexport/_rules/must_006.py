"""MUST-006: ONNX Runtime computes what the model computes."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_hierexport._errors import UsageError
from pytest_hierexport._rules.base import ExportedCase, Violation, limited
from pytest_hierexport._rules.output_diff import differences


@limited
def check(exported: ExportedCase) -> Iterator[Violation]:
    example = exported.example  # where it cannot be made again, that is no violation
    try:
        yield from differences(example, exported.path, exported.case.tolerances)
    except UsageError as error:
        yield Violation(exported.path.name, error.expected, error.found, error.do)
