"""Checks what a case that is defined in code states, as the entry of a manifest is checked."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from pytest_hierexport._cases.case import Case, Step
from pytest_hierexport._cases.manifest import validator
from pytest_hierexport._errors import UsageError


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
