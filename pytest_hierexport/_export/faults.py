"""Tells a fault of this package from what torch, transformers or the model itself could not do.

The innermost frame of a traceback decides, those of the standard library left out but for what copies inputs:

    captures.py        ours    calls torch's exporter
    torch/onnx/...     torch   calls the model
    my_model.py        model   raises: the model's, whatever called it

A function marked by :func:`calls_on` stands in for other code and calls it. What is raised in its own frame, by a
builtin or for arguments that the callee does not take, is the callee's.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from traceback import walk_tb
from types import CodeType, FrameType
from typing import Any, TypeVar

from pytest_hierexport._errors import ExportError, chain, in_words

F = TypeVar("F", bound=Callable[..., Any])

_PACKAGE = __name__.partition(".")[0]
_MODELS = f"{_PACKAGE}._cases.zoo"
"""Models that come with the package: what they raise is a model's."""
_COPIES = ("copy", "pickle")
"""What runs over the user's own objects: one that cannot be copied is no fault."""
_ENVIRONMENT = (OSError, MemoryError, RecursionError)
"""What any code raises where the machine gives no more."""
_calling: set[CodeType] = set()


def calls_on(function: F) -> F:
    """Mark a function that calls other code in its place: see the module's text."""
    _calling.add(function.__code__)
    return function


def is_fault(error: BaseException) -> bool:
    """Whether this package raised an error or one of its causes."""
    return any(_place(link) for link in chain(error))


def fault_in(error: Exception, task: str) -> ExportError | None:
    """Return the error to raise where this package raised `error` or one of its causes; None where other code did.

    Args:
        error: What came out of a capture.
        task: What this package was doing: `to capture Tower by dynamo`.
    """
    link = next(filter(_place, chain(error)), None)
    if link is None:
        return None
    return ExportError(
        f"pytest-hierexport {task}",
        found=f"a fault of its own: {in_words(link)} ({_place(link)})",
        do="report it with this message and the versions of torch and transformers, and name another exporter "
        "until it is fixed",
    )


def _place(error: BaseException) -> str:
    """Return the line of ours that raised an error; the empty text where it is not ours."""
    frames = [(frame, line) for frame, line in walk_tb(error.__traceback__) if not _is_of_python(frame)]
    if isinstance(error, _ENVIRONMENT) or not frames or not _is_ours(frames[-1][0]):
        return ""
    frame, line = frames[-1]
    return f"{Path(frame.f_code.co_filename).name}, line {line}"


def _is_of_python(frame: FrameType) -> bool:
    package = _module(frame).partition(".")[0]
    return package in sys.stdlib_module_names and package not in _COPIES


def _is_ours(frame: FrameType) -> bool:
    module = _module(frame)
    of_package = module.partition(".")[0] == _PACKAGE and not f"{module}.".startswith(f"{_MODELS}.")
    return of_package and frame.f_code not in _calling


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))
