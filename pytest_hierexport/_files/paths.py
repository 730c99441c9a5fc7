"""Looks at paths: whether they exist, what is installed, which endings they have; digests files and texts."""

from __future__ import annotations

import hashlib
import json
import os
import site
import sys
import sysconfig
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from pytest_hierexport._errors import UsageError

_CHUNK = 1 << 20
_LONGEST = 255
"""The most bytes in a file's name (NAME_MAX of Linux and macOS)."""


def absolute(path: str | os.PathLike[str]) -> Path:
    """Return the path from the root, links not followed: this is how pytest compares paths."""
    return Path(os.path.abspath(path))  # noqa: PTH100  # Path.resolve follows links


def relative(path: Path, folder: Path) -> str:
    """Return a path from a folder, with `/` on every system."""
    return Path(os.path.relpath(path, folder)).as_posix()


PACKAGE = Path(__file__).parents[1]
"""The folder of this package."""
CONFIGURATIONS = ("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg")
"""The names of the files in which pytest looks for its configuration."""
SECTIONS = {
    "pyproject.toml": ("[tool.pytest.ini_options]", "[tool.pytest]"),
    "tox.ini": ("[pytest]",),
    "setup.cfg": ("[tool:pytest]",),
}
"""The tables of pytest's configuration in the files that other tools read, too; its own files have one."""
AROUND_TESTS = ("_pytest", "_cache")
"""The rooms whose code runs around the tests of models, and records what these read."""
_IN_MEMORY = "/dev/shm/"  # noqa: S108  # nothing is written there
"""The file system in memory that Linux has among its devices: what is there belongs to users."""
_LIBRARY = f"{absolute(os.__file__).parent}{os.sep}"


def exists(path: Path) -> bool:
    """Whether there is such a file or folder; false for a name that is too long or holds a null character."""
    return os.path.exists(path)  # noqa: PTH110  # Path.exists raises for such names


def is_plain_name(name: str) -> bool:
    """Whether a name, from a source that is not trusted, is one of a file in a folder itself."""
    try:
        encoded = os.fsencode(name)
    except UnicodeEncodeError:
        return False
    return encoded not in {b"", b".."} and Path(name).name == name and b"\0" not in encoded and len(encoded) <= _LONGEST


def is_folder(path: Path) -> bool:
    """Whether there is such a folder; see :func:`exists`."""
    return os.path.isdir(path)  # noqa: PTH112  # Path.is_dir raises for such names


def check_ending(path: Path, *endings: str) -> None:
    """Refuse a name for a file whose ending does not say the format that is written.

    Raises:
        UsageError: The name has none of these endings.
    """
    if not path.name.lower().endswith(endings):
        expected = f"a file to write whose name ends in {' or '.join(endings)}"
        raise UsageError(
            expected, found=str(path), do=f"name it {path.stem}{endings[0]}, or as you like with that ending"
        )


def package_folders() -> list[str]:
    """Return the folders of Python's library and of installed packages."""
    paths = sysconfig.get_paths()
    return [*(paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")), *site.getsitepackages()]


@cache
def installed_folders() -> tuple[str, ...]:
    """Return the folders of Python, of installed packages and of the system, each with a separator at its end."""
    # Python looks there for its library in one file before it looks in the folder.
    archive = f"python{sys.version_info.major}{sys.version_info.minor}.zip"
    python = [*package_folders(), str(Path(sysconfig.get_paths()["stdlib"]).with_name(archive))]
    others = [folder for folder in sys.path if Path(folder).name in {"site-packages", "dist-packages"}]
    return tuple(f"{absolute(folder)}{os.sep}" for folder in (*python, *others, str(PACKAGE), "/proc", "/sys", "/dev"))


def is_installed(path: Path) -> bool:
    """Whether a path belongs to Python, an installed package or the system, whose versions identify it."""
    return _is_below_installed(f"{path}{os.sep}")


def is_project(file: str) -> bool:
    """Whether a file of code is one of the project, not generated."""
    return os.path.isabs(file) and not _is_below_installed(file)  # noqa: PTH117  # called for each function


def _is_below_installed(path: str) -> bool:
    return path.startswith(installed_folders()) and not path.startswith(_IN_MEMORY)


def of_standard_library(file: str) -> bool:
    """Whether a file of code, as a frame names it, is of Python's own library."""
    return file.startswith("<frozen") or (file.startswith(_LIBRARY) and "site-packages" not in file)


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file's content in hexadecimal.

    Raises:
        OSError: The file cannot be read.
    """
    summed = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            summed.update(chunk)
    return summed.hexdigest()


def digest_of_all(folder: Path, files: Iterable[Path]) -> str:
    """Return one digest of files: of their paths below the folder and of their contents."""
    found = [(os.fsdecode(file.relative_to(folder)), digest(file)) for file in sorted(files)]
    return text_digest(json.dumps(found))


def text_digest(text: str) -> str:
    """Return the SHA-256 of a text in hexadecimal; names may hold lone surrogates, which UTF-8 cannot encode."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def digest(path: Path) -> str:
    """Return the SHA-256 of a file's content, the empty text for one that cannot be read."""
    try:
        return sha256(path)
    except OSError:
        return ""
