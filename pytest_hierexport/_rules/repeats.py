"""Exports a case once more, in a second process under another hash seed; one process serves all cases of this one.

`repeat_of` asks from here, `answer` runs there. Both processes see the files of both exports.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_hierexport._errors import DiskFullError, HierexportError, UsageError, disk_full, raise_if_disk_full
from pytest_hierexport._files.paths import absolute, digest
from pytest_hierexport._files.temporary import keep_temporary_files_in, temporary_folder
from pytest_hierexport._rules.child import ChildEndedError, ChildProcess

if TYPE_CHECKING:
    from pytest_hierexport._cases import Example
    from pytest_hierexport._rules.base import ExportedCase

_SERVE = (
    "from pytest_hierexport._rules.peer import serve; from pytest_hierexport._rules.repeats import answer; "
    "serve(answer)"
)


@dataclass(frozen=True)
class Repeat:
    """The second export of a case."""

    folder: Path
    """Holds its files."""
    changed: Sequence[str] = ()
    """The names of the files that differ from those of the first export, or that one export lacks."""
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
        task, path = Path(name) / "task.pickle", Path(name) / "second" / exported.path.name
        task.write_bytes(_task(exported))
        try:
            answer = _second_process().ask(task=str(task), onnx=str(path), first=str(absolute(exported.path.parent)))
        except ChildEndedError as ended:
            answer = {"error": f"the process {ended}"}
        if "full" in answer:
            raise disk_full(answer["full"])
        if "unknown" in answer:
            raise _not_elsewhere(exported, answer["unknown"])
        yield Repeat(path.parent, **answer)


@cache
def _second_process() -> ChildProcess:
    """Return the one process that serves this one."""
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    # The path goes first: the process must import this very package.
    code = f"import sys; sys.path[:] = {list(map(str, sys.path))}; {_SERVE}"
    # The last argument tells people, and the cache, that the process is ours.
    return ChildProcess("-c", code, __name__, PYTHONHASHSEED=seed)


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


def answer(path: Sequence[str], task: str, onnx: str, first: str) -> dict[str, Any]:
    """Export a case in the second process; return the fields of its :class:`Repeat`, or what prevents one.

    Args:
        path: The `sys.path` to import the case's code from.
        task: A pickle of the case and its exporter.
        onnx: The ONNX file to write, in a new folder.
        first: The folder of the first export.
    """
    sys.path[:] = path
    file = Path(onnx)
    keep_temporary_files_in(file.parent.parent)
    try:
        case, exporter = pickle.loads(Path(task).read_bytes())  # noqa: S301  # written by the process that asks
    except Exception as error:  # noqa: BLE001  # a pickle runs the project's code
        return {"unknown": f"{type(error).__name__}: {error}"}
    try:
        return _export(case, exporter, file, Path(first))
    except Exception as error:  # noqa: BLE001  # the next case is served all the same
        try:
            raise_if_disk_full(error)
        except DiskFullError as full:
            return {"full": full.found}
        return {"error": str(error) if isinstance(error, HierexportError) else f"{type(error).__name__}: {error}"}


def _export(case: Any, exporter: Any, path: Path, first: Path) -> dict[str, Any]:
    from pytest_hierexport._onnx.storage import sidecar_path
    from pytest_hierexport._proof.state import call_digests, state_digests

    path.parent.mkdir()
    example = case.load()
    state = state_digests(example)
    exporter(case, example, path)
    # The first export's folder may hold other files: of these, only those of an export count.
    own = (path, path.with_name(f"{path.name}.data"), sidecar_path(path), *sorted(path.parent.iterdir()))
    changed = [name for name in dict.fromkeys(file.name for file in own) if _differs(path.with_name(name), first)]
    return {"state": state, "changed": changed, "calls": call_digests(example) if changed else []}


def _differs(file: Path, first: Path) -> bool:
    return digest(file) != digest(first / file.name)
