"""Checks the steps that turn an exported file into the one that is shipped, and makes the case of each step's result.

case  bert, after = ["onnxruntime:extended", "project.tools:quantize"]

bert                                                    the exported file
bert@onnxruntime:extended                               what ONNX Runtime's optimizer makes of it
bert@onnxruntime:extended+project.tools:quantize        what the project's function makes of that
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pytest_hierexport._cases.case import Case
from pytest_hierexport._cases.exporters import check_function
from pytest_hierexport._errors import UsageError, proposal

ONNXRUNTIME = tuple(f"onnxruntime:{level}" for level in ("basic", "extended", "all"))
"""The steps that need no function of the project: ONNX Runtime's offline optimization, by its level."""


def check_step(name: str, root: Path) -> str:
    """Return the name of an existing step unchanged.

    Args:
        name: One of :data:`ONNXRUNTIME`, or `package.module:function`.
        root: A folder to search for that module besides `sys.path`.

    Raises:
        UsageError: There is no such step.
        CollectError: Another module has its name.
    """
    if name in ONNXRUNTIME:
        return name
    tool, colon, _ = name.partition(":")
    if not colon or any(known.startswith(f"{tool}:") for known in ONNXRUNTIME):
        raise UsageError(
            f"a step after the export: {', '.join(ONNXRUNTIME)}, or package.module:function",
            found=repr(name),
            do=f"{proposal(name, ONNXRUNTIME)}, or name a function that takes the path to read and the path to write",
        )
    check_function(name, root, "a step after the export")
    return name


def exported_case(case: Case) -> Case:
    """Return the case that is exported: of the result of a step, the first case before it."""
    while case.previous is not None:
        case = case.previous
    return case


def with_deployed(case: Case) -> list[Case]:
    """Return a case without its steps, then a case for the result of each step."""
    cases = [replace(case, after=())]
    names = [step.name for step in case.after]
    for i, step in enumerate(case.after):
        deployed = replace(
            cases[-1],
            name=f"{case.name}@{'+'.join(names[: i + 1])}",
            previous=cases[-1],
            step=step.name,
            tolerances={**cases[-1].tolerances, **step.tolerances},
            allow_derived=step.allow_derived,
            known_failures=step.known_failures,
        )
        cases.append(deployed)
    return cases
