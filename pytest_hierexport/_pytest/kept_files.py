"""Copies the files of failing models into `.hierexport/MODEL/` in the root directory, for the user to look into."""

from __future__ import annotations

import filecmp
from pathlib import Path

from pytest_hierexport._cases import Case
from pytest_hierexport._files.atomic import locked
from pytest_hierexport._files.ownership import make_folder, replace_files
from pytest_hierexport._pytest.ids import file_name
from pytest_hierexport._pytest.outcome import MODULES, RECORD, ExportOutcome
from pytest_hierexport._pytest.run import Run

FOLDER = ".hierexport"
CACHE = f"{FOLDER}/cache"
"""The folder, in the root directory, that what comes from a cache's URL is taken into."""


def keep_files(run: Run, case: Case) -> str:
    """Keep a failing case's files, of a step that failed its input; return their paths, or why there are none."""
    outcome = run.store.known_outcome(case)
    files = [] if outcome is None else _files(outcome)
    if outcome is not None and outcome.error is not None and case.previous is not None:
        given = run.store.known_outcome(case.previous)
        files += [] if given is None else [path for path in _files(given) if not path.match("traceback*.txt")]
    if outcome is None or not files:
        return "nothing: the model was not exported"
    home = run.plan.config.rootpath / FOLDER
    folder, names = home / file_name(case.name), [path.name for path in files]
    try:
        with locked(outcome.folder):
            # Several items of a model fail over the same files.
            if any(filecmp.cmpfiles(path.parent, folder, [path.name])[0] != [path.name] for path in files):
                make_folder(home)
                make_folder(folder)
                replace_files(folder, files, case.name)
    except OSError as error:
        return f"nothing (not copied: {error})"
    kept = ", ".join(f"{run.plan.shown(folder)}/{name}" for name in names)
    left = sorted(path.name for path in outcome.folder.glob("[!.]*") if path.is_dir())
    return f"{kept}; not the folder {', '.join(left)} beside them" if left else kept


def _files(outcome: ExportOutcome) -> list[Path]:
    """Return the files of an outcome that a user may look into."""
    made = sorted(path for path in outcome.folder.glob("[!.]*") if path.is_file())
    return [path for path in made if path.name not in {MODULES, RECORD}]
