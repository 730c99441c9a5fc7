"""Exports a case once more, in a second process under another hash seed; one process serves all cases of this one."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_hierexport._errors import UsageError, disk_full
from pytest_hierexport._files.paths import absolute
from pytest_hierexport._files.temporary import temporary_folder
from pytest_hierexport._rules.child import ChildEndedError, ChildProcess

if TYPE_CHECKING:
    from pytest_hierexport._cases import Example
    from pytest_hierexport._rules.base import ExportedCase

_SERVE = (
    "from pytest_hierexport._rules.peer import serve; from pytest_hierexport._rules.second_process import answer; "
    "serve(answer)"
)


@dataclass(frozen=True)
class Repeat:
    """The second export of a case."""

    folder: Path
    """Holds its files."""
    files: Mapping[str, str] = field(default_factory=dict)
    """The SHA-256 of each, by its name."""
    state: Mapping[str, str] = field(default_factory=dict)
    """The digest of each module, parameter, buffer and input of the model, in their order."""
    calls: Sequence[Sequence[str]] = ()
    """The name of each call of an eager run, with the digest of what it returned; empty where no file differs."""
    error: str = ""
    """The reason for missing files; empty where there are files."""


@contextmanager
def repeat_of(exported: ExportedCase) -> Iterator[Repeat]:
    """Give the second export of a case; its files are removed at the end.

    Raises:
        UsageError: No other process can make the model.
        DiskFullError: There was no room for the export.
    """
    with temporary_folder() as name:
        task, folder = Path(name) / "task.pickle", Path(name) / "second"
        task.write_bytes(_task(exported))
        try:
            request = {"task": task, "onnx": folder / exported.path.name, "first": absolute(exported.path.parent)}
            answer = _second_process().ask(**{name: str(path) for name, path in request.items()})
        except ChildEndedError as ended:
            answer = {"error": f"the process {ended}"}
        if "full" in answer:
            raise disk_full(answer["full"])
        if "unknown" in answer:
            raise _not_elsewhere(exported, answer["unknown"])
        yield Repeat(folder, **answer)


@cache
def _second_process() -> ChildProcess:
    """Return the one process that serves this one."""
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    # The path goes first: the process must import this very package.
    code = f"import sys; sys.path[:] = {list(map(str, sys.path))}; {_SERVE}"
    # The last argument tells people, and the cache, that the process is ours.
    return ChildProcess("-c", code, "pytest_hierexport._rules.second_process", PYTHONHASHSEED=seed)


def _task(exported: ExportedCase) -> bytes:
    """Pickle the case; where its factory cannot be pickled, the model and inputs themselves."""
    case, exporter = exported._as_exported
    try:
        return pickle.dumps((case, exporter))
    except Exception:  # noqa: BLE001  # what cannot be pickled says so in many ways
        case = replace(case, factory=partial(_given, exported.example))
    try:
        return pickle.dumps((case, exporter))
    except Exception as error:
        raise _not_elsewhere(exported, f"{type(error).__name__}: {error}") from error


def _given(example: Example) -> Example:
    return example


def _not_elsewhere(exported: ExportedCase, why: str) -> UsageError:
    return UsageError(
        f"{exported.case.name} to be a model that another process can make",
        found=why,
        do="select it by its factory (file.py::factory), or define its class where it can be imported",
    )
