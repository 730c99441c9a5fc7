"""Copies the files of failing models into `.hierexport/MODEL/` in the root directory, for the user to look into."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_hierexport._files.ownership import make_folder, replace_files
from pytest_hierexport._pytest.ids import file_name
from pytest_hierexport._pytest.outcome import RECORD

if TYPE_CHECKING:
    from pytest_hierexport._cases import Case
    from pytest_hierexport._pytest.run import Run

__all__ = ["FOLDER", "keep_files"]

FOLDER = ".hierexport"


def keep_files(run: Run, case: Case) -> str:
    """Keep a failing case's files; return their paths, or why there are none."""
    from filelock import FileLock

    config, outcome = run.plan.config, run.store.known_outcome(case)
    home = config.rootpath / FOLDER
    folder = home / file_name(case.name)
    files = [] if outcome is None else [path for path in sorted(outcome.folder.glob("*")) if _is_shown(path)]
    if outcome is None or not files:
        return "nothing: the model was not exported"
    try:
        with FileLock(run.store.folder / f"{outcome.folder.name}.keep.lock"):
            # Several items of a model fail over the same files.
            if _stamps(files) != _stamps(folder / path.name for path in files):
                make_folder(home)
                make_folder(folder)
                replace_files(folder, files, case.name)
    except OSError as error:
        return f"nothing (not copied: {error})"
    shown = os.path.relpath(folder, config.invocation_params.dir)
    return ", ".join(f"{shown}/{path.name}" for path in files)


def _is_shown(path: Path) -> bool:
    return path.is_file() and not path.name.startswith(".") and path.name != RECORD


def _stamps(files: Iterable[Path]) -> list[tuple[int, int]]:
    """Return the size and time of each file that exists."""
    return [(status.st_size, status.st_mtime_ns) for path in files if path.is_file() and (status := path.stat())]
