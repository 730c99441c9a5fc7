"""The second process of MUST-008: exports each case that it is sent, under another hash seed."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pytest_hierexport._errors import DiskFullError, HierexportError, raise_if_disk_full
from pytest_hierexport._files.paths import digest
from pytest_hierexport._files.temporary import keep_temporary_files_in


def answer(path: Sequence[str], task: str, onnx: str, first: str) -> dict[str, Any]:
    """Export a case; return the digests of its files and of its model, or its error.

    Args:
        path: The `sys.path` to import the case's code from.
        task: A pickle of the case and its exporter.
        onnx: The ONNX file to write, in a new folder.
        first: The folder of the first export: the model's calls are digested where a file differs from there.
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
        return _failure(error)


def _export(case: Any, exporter: Any, path: Path, first: Path) -> dict[str, Any]:
    from pytest_hierexport._proof.state import call_digests, state_digests

    path.parent.mkdir()
    example = case.load()
    state = state_digests(example)
    exporter(case, example, path)
    files = {file.name: digest(file) for file in sorted(path.parent.iterdir())}
    differs = any(digest(first / name) != found for name, found in files.items())
    return {"state": state, "files": files, "calls": call_digests(example) if differs else []}


def _failure(error: Exception) -> dict[str, Any]:
    """Return the answer for an export that failed; a full disk is marked, for it is no fault of the case."""
    try:
        raise_if_disk_full(error)
    except DiskFullError as full:
        return {"full": full.found}
    return {"error": str(error) if isinstance(error, HierexportError) else f"{type(error).__name__}: {error}"}
