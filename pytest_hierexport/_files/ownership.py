"""Which files in a folder of the project are ours: only these may be replaced or removed.

A folder that we write into holds `.hierexport.json`, the list of the files that we wrote there and of what asked for
each. It names files of that folder alone; whatever is not on it, is a link or is a folder belongs to the user.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pytest_hierexport._files.atomic import staging, write_atomically

__all__ = ["GENERATOR", "LIST", "ForeignFileError", "make_folder", "read_list", "remove", "replace_files", "write_list"]

GENERATOR = "pytest-hierexport"
"""What a file of ours says it was made by, where its format has a place for that."""
LIST = ".hierexport.json"

Owners = Mapping[str, tuple[str, ...]]
"""What asked for each file of a folder, by the file's name."""


class ForeignFileError(FileExistsError):
    """A file of the user's stands where one of ours belongs."""

    def __init__(self, path: Path) -> None:
        """Name the file."""
        super().__init__(errno.EEXIST, "pytest-hierexport did not write it; move it away", str(path))

    def __str__(self) -> str:
        """Return what a user reads."""
        return f"{self.filename}: {self.strerror}"


def make_folder(folder: Path) -> None:
    """Make a folder that git ignores; one that is there already is left as it is.

    Raises:
        OSError: It cannot be made.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    if folder.is_dir():
        return
    with tempfile.TemporaryDirectory(prefix=".hierexport-", dir=folder.parent) as beside:
        made = Path(beside) / folder.name
        made.mkdir()
        write_atomically(made / ".gitignore", "*\n")
        try:
            made.rename(folder)
        except OSError:
            # Another process of the run may have been first.
            if not folder.is_dir():
                raise


def read_list(folder: Path) -> dict[str, tuple[str, ...]]:
    """Return what asked for each of our files in a folder; nothing where there is no list, or a damaged one."""
    try:
        content = json.loads((folder / LIST).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    files = content.get("files") if isinstance(content, dict) and content.get("generator") == GENERATOR else None
    if not isinstance(files, dict):
        return {}
    return {name: tuple(map(str, owners)) for name, owners in files.items() if _is_plain(name, owners)}


def write_list(folder: Path, files: Owners) -> None:
    """Write the list of our files in a folder, unless it stands there already.

    Raises:
        ForeignFileError: A file of the user's has the list's name.
        OSError: It cannot be written.
    """
    path = folder / LIST
    if read_list(folder) == dict(files):
        return
    if os.path.lexists(path) and not _is_list(path):
        raise ForeignFileError(path)
    write_atomically(path, _as_text(files))


def _as_text(files: Owners) -> str:
    """Return a list as JSON, a line per file: lists of snapshots are committed, and merged."""
    lines = [f"  {json.dumps(name)}: {json.dumps(sorted(owners))}" for name, owners in sorted(files.items())]
    return "\n".join(["{", f' "generator": "{GENERATOR}",', ' "files": {', ",\n".join(lines), " }", "}", ""])


def replace_files(folder: Path, files: Sequence[Path], owner: str) -> None:
    """Copy files into a folder, in place of the files of ours that are there; what is not ours stays.

    Raises:
        ForeignFileError: A file of the user's has the name of one of them; nothing was written.
        OSError: They cannot be written.
    """
    listed, names = read_list(folder), [path.name for path in files]
    foreign = [folder / name for name in names if os.path.lexists(folder / name) and not _is_ours(folder, name, listed)]
    if foreign:
        raise ForeignFileError(foreign[0])
    made = dict.fromkeys(names, (owner,))
    # Listed before they are there: a crash on the way leaves no file that we would not know again.
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
    ours = sorted(name for name in names if _is_ours(folder, name, listed))
    for name in ours:
        (folder / name).unlink()
    return ours


def _is_ours(folder: Path, name: str, listed: Owners) -> bool:
    return name in listed and _is_file(folder / name)


def _is_list(path: Path) -> bool:
    """Whether a file is a list of ours, be it cut or with the marks of a merge in it."""
    return _is_file(path) and f'"generator": "{GENERATOR}"' in path.read_text(encoding="utf-8", errors="replace")[:300]


def _is_file(path: Path) -> bool:
    """Whether there is a file, links not followed."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def _is_plain(name: str, owners: object) -> bool:
    """Whether an entry of a list names a file of the folder itself: a list may come from anywhere."""
    return isinstance(owners, list) and name not in {"", ".", ".."} and Path(name).name == name
