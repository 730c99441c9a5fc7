"""Distinguishes faults of this package from errors of torch, transformers or the model.

The innermost frame of the traceback decides. Frames of the standard library are ignored, except those that copy inputs.

    captures.py        ours    calls torch's exporter
    torch/onnx/...     torch   calls the model
    my_model.py        model   raises: so it is the model's error

A function marked by :func:`calls_on` replaces another function and calls it. An error in its own frame counts as the
other function's: a builtin has no frame, and wrong arguments raise in the frame of the caller.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from traceback import walk_tb
from types import CodeType, FrameType
from typing import Any, TypeVar

from pytest_hierexport._errors import ExportError, chain, in_words
from pytest_hierexport._export.capture import CannotCaptureError

F = TypeVar("F", bound=Callable[..., Any])

_PACKAGE = __name__.partition(".")[0]
_MODELS = f"{_PACKAGE}._cases.zoo"
"""The models of this package: their errors count as a model's."""
_COPIES = ("copy", "pickle")
"""Modules of the standard library whose frames count: they raise where an object of the user cannot be copied."""
_NO_FAULTS = (OSError, MemoryError, RecursionError, CannotCaptureError)
"""Errors that any code may raise because of the machine, such as a full disk, and what a capture says of a model."""
_calling: set[CodeType] = set()


def calls_on(function: F) -> F:
    """Mark a function that replaces another one and calls it: see the docstring of the module."""
    _calling.add(function.__code__)
    return function


def is_fault(error: BaseException) -> bool:
    """Whether this package raised an error or one of its causes."""
    return any(_place(link) for link in chain(error))


def fault_in(error: BaseException, task: str) -> ExportError | None:
    """Return the error to raise if this package raised `error` or one of its causes; None if other code did.

    Args:
        error: The error of a capture.
        task: The task that failed: `to capture Tower by dynamo`.
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
    """Return the file and line of this package that raised an error; an empty text if other code raised it."""
    frames = [(frame, line) for frame, line in walk_tb(error.__traceback__) if not _is_ignored(frame)]
    if isinstance(error, _NO_FAULTS) or not frames or not _is_ours(frames[-1][0]):
        return ""
    frame, line = frames[-1]
    return f"{Path(frame.f_code.co_filename).name}, line {line}"


def _is_ignored(frame: FrameType) -> bool:
    package = _module(frame).partition(".")[0]
    return package in sys.stdlib_module_names and package not in _COPIES


def _is_ours(frame: FrameType) -> bool:
    module = _module(frame)
    of_package = module.partition(".")[0] == _PACKAGE and not f"{module}.".startswith(f"{_MODELS}.")
    return of_package and frame.f_code not in _calling


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))
