"""MUST-006: ONNX Runtime computes what the model computes."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_hierexport._errors import UsageError
from pytest_hierexport._rules.base import ExportedCase, Rule, Violation, limited


@limited
def _check(exported: ExportedCase) -> Iterator[Violation]:
    from pytest_hierexport._rules.output_diff import differences

    example = exported.example  # where it cannot be made again, that is no violation
    try:
        for difference in differences(example, exported.path, exported.case.tolerances):
            yield Violation(
                difference.output,
                difference.expected,
                difference.found,
                "run the plain exporter's file too: if its numbers are the same, report it there; "
                "state `tolerances` for this case where rounding explains the difference",
            )
    except UsageError as error:
        yield Violation(exported.path.name, error.expected, error.found, error.do)


RULE = Rule("MUST-006", "the numbers agree", _check, needs="model")
