"""Writes the JSON files that commands make for other programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pytest_hierexport._errors import ExportError, UsageError
from pytest_hierexport._files.atomic import staged
from pytest_hierexport._files.paths import exists, is_folder

__all__ = ["check_json_output", "write_json"]


def check_json_output(path: Path) -> None:
    """Refuse to replace a file that is no JSON object.

    Raises:
        ExportError: There is no folder to write into.
        UsageError: Something else has this path.
    """
    if not is_folder(path.parent):
        raise ExportError(f"a folder to write {path.name} into", found=f"no {path.parent}", do="create the folder")
    if not exists(path):
        return
    try:
        is_object = isinstance(json.loads(path.read_text(encoding="utf-8")), dict)
    except (OSError, ValueError, RecursionError):
        is_object = False
    if not is_object:
        found = "a folder" if path.is_dir() else "something else"
        raise UsageError(f"a new file, or a JSON file to replace, at {path}", found=found, do="give another name")


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write an object as a JSON file, atomically.

    Raises:
        ExportError: It cannot be written.
    """
    with staged(path) as stage:
        (stage.folder / path.name).write_text(json.dumps(content), encoding="utf-8")
        stage.land([path.name])
