"""The second process of MUST-008: exports every case that it is given, under another hash seed.

    python -m pytest_hierexport._rules.second_process FOLDER

FOLDER holds `cases.pickle`; for each case `KEY/` gets the export and `KEY.json`, last of all, what became of it.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_hierexport._errors import DiskFullError, HierexportError, raise_if_disk_full
from pytest_hierexport._files.atomic import write_atomically
from pytest_hierexport._files.paths import digest
from pytest_hierexport._files.temporary import keep_temporary_files_in

if TYPE_CHECKING:
    from pytest_hierexport._cases import Case
    from pytest_hierexport._rules.base import Exporter

__all__ = ["CASES", "Order", "main"]

CASES = "cases.pickle"
_PAUSE = 0.2
"""How many seconds pass between two looks for the process that started this one."""


@dataclass(frozen=True)
class Order:
    """A case to export."""

    key: str
    """Names its folder and its record."""
    name: str
    """The name of the ONNX file."""
    task: bytes
    """The case and the exporter of its own, if it has one, pickled by themselves: a task that cannot be read must not
    keep the others from being done."""


def main(folder: Path) -> None:
    """Export the cases one after the other."""
    path, orders = pickle.loads((folder / CASES).read_bytes())  # noqa: S301  # written by the process that started us
    sys.path[:] = path
    for order in orders:
        # Standard output is not for what the model prints.
        with contextlib.redirect_stdout(sys.stderr):
            record = _record(order, folder / order.key)
        write_atomically(folder / f"{order.key}.json", json.dumps(record))


def _record(order: Order, folder: Path) -> dict[str, Any]:
    try:
        case, exporter = pickle.loads(order.task)  # noqa: S301  # as above
    except Exception as error:  # noqa: BLE001  # a pickle runs the project's code
        return {"unknown": f"{type(error).__name__}: {error}"}
    try:
        return _export(case, exporter, folder / order.name)
    except Exception as error:  # noqa: BLE001  # one case's failure is that case's
        return _failure(error)


def _failure(error: Exception) -> dict[str, Any]:
    """Return the record of an export that failed; a full disk is marked, for it says nothing about the case."""
    try:
        raise_if_disk_full(error)
    except DiskFullError as full:
        return {"full": full.found}
    return {"error": str(error) if isinstance(error, HierexportError) else f"{type(error).__name__}: {error}"}


def _export(case: Case, exporter: Exporter | None, path: Path) -> dict[str, Any]:
    from pytest_hierexport._cases.exporting import export_case
    from pytest_hierexport._proof.state import state_digest

    path.parent.mkdir()
    example = case.load()
    state = state_digest(example)
    (exporter or export_case)(case, example, path)
    return {"state": state, "files": {file.name: digest(file) for file in sorted(path.parent.iterdir())}}


def _end_with(parent: int) -> None:
    """End this process, also in the middle of an export, when the one that started it has ended."""
    while os.getppid() == parent:
        time.sleep(_PAUSE)
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    keep_temporary_files_in(Path(sys.argv[1]))
    main(Path(sys.argv[1]))
