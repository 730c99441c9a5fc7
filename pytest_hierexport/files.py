"""Files: what a piece of work read, and whether it is still the same."""

from __future__ import annotations

import hashlib
import os
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

__all__ = [
    "FileDigests",
    "absolute",
    "digest",
    "exists",
    "is_folder",
    "keep_temporary_files_in",
    "temporary_folder",
    "temporary_home",
    "watching_files",
]

_CHUNK = 1 << 20


def absolute(path: str | os.PathLike[str]) -> Path:
    """Return the path from the root, links not followed: this is how pytest compares paths."""
    return Path(os.path.abspath(path))  # noqa: PTH100  # Path.resolve follows links


def exists(path: Path) -> bool:
    """Whether there is such a file or folder; none has a name that is too long or holds a null character."""
    return os.path.exists(path)  # noqa: PTH110  # Path.exists raises for such names


def is_folder(path: Path) -> bool:
    """Whether there is such a folder; see :func:`exists`."""
    return os.path.isdir(path)  # noqa: PTH112  # Path.is_dir raises for such names


def digest(path: Path) -> str:
    """Return the SHA-256 of a file's content, the empty text for one that cannot be read."""
    summed = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                summed.update(chunk)
    except OSError:
        return ""
    return summed.hexdigest()


def keep_temporary_files_in(folder: Path | None) -> Path | None:
    """Set the folder for temporary files of this process, None for the system's; return the one before."""
    global _temporary_home  # what needs a temporary file knows nothing of the run that it serves
    before, _temporary_home = _temporary_home, folder
    return before


def temporary_home() -> Path | None:
    """Return the folder for temporary files of this process, None for the system's."""
    return _temporary_home


def temporary_folder() -> tempfile.TemporaryDirectory[str]:
    """Return a context that makes a folder and removes it.

    Where a process is killed, whoever owns the folder around it removes it: see :func:`keep_temporary_files_in`.
    """
    return tempfile.TemporaryDirectory(prefix="hierexport-", dir=_temporary_home)


_temporary_home: Path | None = None


@dataclass(frozen=True)
class FileDigests:
    """Files as they were at one time."""

    digests: Mapping[str, str]

    @classmethod
    def of(cls, paths: Iterable[Path]) -> FileDigests:
        """Take the files as they are now."""
        return cls({str(path): digest(path) for path in paths})

    def hold(self) -> bool:
        """Whether every file is as it was."""
        return all(digest(Path(path)) == known for path, known in self.digests.items())


@contextmanager
def watching_files(outside: Path) -> Iterator[Callable[[], list[Path]]]:
    """Give a function that returns the project's files which were read, and those of its loaded modules.

    What belongs to Python or to installed packages is left out.

    Args:
        outside: A folder whose files do not count.
    """
    _watch.opened.clear()
    _watch.install()
    _watch.on = True
    try:
        yield lambda: sorted(
            path
            for path in map(Path, {*_watch.opened, *_module_files()})
            if _is_project_file(path) and not path.is_relative_to(outside)
        )
    finally:
        _watch.on = False


@dataclass
class _Watch:
    """An audit hook, which Python never lets go of again: one for the whole process, mostly asleep."""

    on: bool = False
    installed: bool = False
    opened: set[str] = field(default_factory=set)

    def install(self) -> None:
        if not self.installed:
            self.installed = True
            sys.addaudithook(self._see)

    def _see(self, event: str, args: tuple[object, ...]) -> None:
        if self.on and event == "open" and isinstance(args[0], (str, bytes, os.PathLike)):
            flags = args[2] if isinstance(args[2], int) else 0
            if not flags & (os.O_WRONLY | os.O_RDWR):
                self.opened.add(str(absolute(os.fsdecode(args[0]))))


_watch = _Watch()


def _module_files() -> list[str]:
    files = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    return [str(absolute(file)) for file in files if isinstance(file, str)]


def _is_project_file(path: Path) -> bool:
    return (
        path.is_file()
        and "__pycache__" not in path.parts
        and not any(path.is_relative_to(folder) for folder in _installed_folders())
    )


@cache
def _installed_folders() -> tuple[Path, ...]:
    paths = sysconfig.get_paths()
    folders = [paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    return tuple(absolute(folder) for folder in (*folders, str(Path(__file__).parent), "/proc", "/sys", "/dev"))
