"""Keeps a list of the files that this package wrote into a folder: only these are replaced or removed.

The list is `.hierexport.json` in that folder: each file with its owners, the tests or options that asked for it. Files
that are not on the list, links and folders belong to the user.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pytest_hierexport._files.atomic import staging, write_atomically
from pytest_hierexport._files.paths import is_plain_name

GENERATOR = "pytest-hierexport"
"""The generator that files of this package name, where their format has a field for it."""
LIST = ".hierexport.json"
_IGNORED = "*\n"
"""The content of the `.gitignore` in folders that this package made."""

Owners = Mapping[str, tuple[str, ...]]
"""The owners of each file of a folder, by the file's name."""


class ForeignFileError(FileExistsError):
    """A file of the user has the path of a file to write."""

    def __init__(self, path: Path) -> None:
        super().__init__(errno.EEXIST, "pytest-hierexport did not write it; move it away", str(path))

    def __str__(self) -> str:
        return f"{self.filename}: {self.strerror}"


def make_folder(folder: Path) -> None:
    """Make a folder that git ignores; an existing folder is unchanged.

    Raises:
        OSError: It cannot be made.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    if folder.is_dir():
        return
    with staging(folder.parent) as stage:
        made = stage.folder / folder.name
        made.mkdir()
        (made / ".gitignore").write_text(_IGNORED, encoding="utf-8")
        try:
            made.rename(folder)
        except OSError:
            # Another process of the run may have made it.
            if not folder.is_dir():
                raise


def is_bare(folder: Path) -> bool:
    """Whether a folder holds nothing but the `.gitignore` that :func:`make_folder` writes, if anything."""
    try:
        names = [path.name for path in folder.iterdir()]
        return not names or (names == [".gitignore"] and (folder / names[0]).read_bytes() == _IGNORED.encode())
    except OSError:
        return False


def read_list(folder: Path) -> dict[str, tuple[str, ...]]:
    """Return the listed files of a folder with their owners; empty without a list, or with a damaged one."""
    try:
        content = json.loads((folder / LIST).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    files = content.get("files") if isinstance(content, dict) and content.get("generator") == GENERATOR else None
    if not isinstance(files, dict):
        return {}
    plain = (entry for entry in files.items() if is_plain_name(entry[0]) and isinstance(entry[1], list))
    return {name: tuple(map(str, owners)) for name, owners in plain}


def write_list(folder: Path, files: Owners) -> None:
    """Write the list of a folder, a line per file, so that git can merge it; do nothing if it is the present one.

    Raises:
        ForeignFileError: A file of the user has the list's name.
        OSError: It cannot be written.
    """
    path = folder / LIST
    if read_list(folder) == dict(files):
        return
    if os.path.lexists(path) and not _is_list(path):
        raise ForeignFileError(path)
    lines = [f"  {json.dumps(name)}: {json.dumps(sorted(owners))}" for name, owners in sorted(files.items())]
    parts = ["{", f' "generator": "{GENERATOR}",', ' "files": {', ",\n".join(lines), " }", "}", ""]
    write_atomically(path, "\n".join(parts))


def replace_files(folder: Path, files: Sequence[Path], owner: str) -> None:
    """Copy files into a folder, replace its listed files with them; files of the user are unchanged.

    Raises:
        ForeignFileError: A file of the user has the name of one of them; nothing was written.
        OSError: They cannot be written.
    """
    listed, names = read_list(folder), [path.name for path in files]
    for name in names:
        if os.path.lexists(folder / name) and not _is_listed(folder, name, listed):
            raise ForeignFileError(folder / name)
    made = dict.fromkeys(names, (owner,))
    # Listed before they are written, so that a crash leaves no file that is not on the list.
    write_list(folder, {**listed, **made})
    with staging(folder) as stage:
        for path in files:
            shutil.copy2(path, stage.folder / path.name)
        stage.land(names)
    remove(folder, listed.keys() - made.keys())
    write_list(folder, made)


def remove(folder: Path, names: Iterable[str]) -> list[str]:
    """Remove those of the named files that are on a folder's list; return their names."""
    listed = read_list(folder)
    removed = sorted(name for name in names if _is_listed(folder, name, listed))
    for name in removed:
        (folder / name).unlink()
    return removed


def _is_listed(folder: Path, name: str, listed: Owners) -> bool:
    return name in listed and _is_file(folder / name)


def _is_list(path: Path) -> bool:
    """Whether a file is such a list, perhaps cut or with conflict markers."""
    return _is_file(path) and f'"generator": "{GENERATOR}"' in path.read_text(encoding="utf-8", errors="replace")[:300]


def _is_file(path: Path) -> bool:
    """Whether a path is a regular file and no link; false for a name that no file can have."""
    return os.path.isfile(path) and not os.path.islink(path)  # noqa: PTH113, PTH114  # Path's raise for such names
