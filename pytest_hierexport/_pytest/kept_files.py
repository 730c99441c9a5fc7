"""Copies the files of failing models into `.hierexport/MODEL/` in the root directory, for the user to look into."""

from __future__ import annotations

import filecmp
import os
from typing import TYPE_CHECKING

from pytest_hierexport._files.ownership import make_folder, replace_files
from pytest_hierexport._pytest.ids import file_name
from pytest_hierexport._pytest.outcome import MODULES, RECORD

if TYPE_CHECKING:
    from pytest_hierexport._cases import Case
    from pytest_hierexport._pytest.run import Run

FOLDER = ".hierexport"
CACHE = f"{FOLDER}/cache"
"""The folder, in the root directory, that what comes from a cache's URL is taken into."""


def keep_files(run: Run, case: Case) -> str:
    """Keep a failing case's files; return their paths, or why there are none."""
    from filelock import FileLock

    config, outcome = run.plan.config, run.store.known_outcome(case)
    home = config.rootpath / FOLDER
    folder = home / file_name(case.name)
    made = [] if outcome is None else sorted(path for path in outcome.folder.glob("[!.]*") if path.is_file())
    files = [path for path in made if path.name not in {MODULES, RECORD}]
    if outcome is None or not files:
        return "nothing: the model was not exported"
    names = [path.name for path in files]
    try:
        with FileLock(run.store.folder / f"{outcome.folder.name}.keep.lock"):
            # Several items of a model fail over the same files.
            if filecmp.cmpfiles(outcome.folder, folder, names)[0] != names:
                make_folder(home)
                make_folder(folder)
                replace_files(folder, files, case.name)
    except OSError as error:
        return f"nothing (not copied: {error})"
    shown = os.path.relpath(folder, config.invocation_params.dir)
    return ", ".join(f"{shown}/{name}" for name in names)
