"""Checks what a case that is defined in code states, as the entry of a manifest is checked."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from pytest_hierexport._cases.case import Case, KnownFailure, Step
from pytest_hierexport._cases.exporters import check_exporter
from pytest_hierexport._cases.manifest import validator
from pytest_hierexport._cases.steps import check_step
from pytest_hierexport._errors import UsageError
from pytest_hierexport._export.choices import check_opset
from pytest_hierexport._requests import check_fields


def check_case(case: Case, root: Path) -> None:
    """Check a case that is defined in code, its steps and its known failures.

    Raises:
        UsageError: One is of another type, or holds what a manifest could not state.
    """
    _check_part(case.name, "after", case.after, Step, '(Step("onnxruntime:extended"),)')
    example = '(KnownFailure("MUST-006", datetime.date(2027, 1, 31), "the reason"),)'
    for known in (case.known_failures, *(step.known_failures for step in case.after)):
        _check_part(case.name, "known_failures", known, KnownFailure, example)
    of_steps = [known for step in case.after for known in step.known_failures]
    check_fields(f"the case {case.name}", case)
    for item in (*case.after, *case.known_failures, *of_steps):
        check_fields(f"a {type(item).__name__} of the case {case.name}", item)
    check_stated(case)
    if case.thin is not None and case.weights != "thin":
        expected = f'weights="thin" in the case {case.name}, as it names a thin model'
        raise UsageError(expected, found=repr(case.weights), do="correct the case")
    try:
        check_exporter(case.exporter, root)
        check_opset(case.opset)
        for step in case.after:
            check_step(step.name, root)
    except UsageError as error:
        raise UsageError(f"{error.expected}, for the case {case.name}", found=error.found, do=error.do) from None


def check_stated(case: Case) -> None:
    """Check the limit, the tolerances, the derived origins and the known failures of a case and of its steps.

    Raises:
        UsageError: A manifest could not state one of them.
    """
    steps = [{"step": step.name, **_entry(step)} for step in case.after]
    entry = {"model": case.source, "timeout": float(case.timeout or 0), **_entry(case), "after": steps}
    for error in validator().iter_errors(entry):
        place = ".".join(map(str, error.absolute_path))
        expected = f"{error.schema['description']} as {place} of the case {case.name}"
        raise UsageError(expected, found=repr(error.instance), do="correct the case")


def _entry(stated: Case | Step) -> dict[str, Any]:
    return {
        "allow_derived": int(stated.allow_derived),
        "tolerances": {dtype: float(tolerance) for dtype, tolerance in stated.tolerances.items()},
        "known_failures": [asdict(known) for known in stated.known_failures],
    }


def _check_part(case: str, name: str, given: object, kind: type, example: str) -> None:
    if not isinstance(given, (list, tuple)) or not all(isinstance(item, kind) for item in given):
        expected = f"{name} of the case {case} to be a tuple of {kind.__name__}"
        raise UsageError(expected, found=repr(given), do=f"give {example}")
