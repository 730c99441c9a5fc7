"""The files of an exporter's own source.

A project's exporter is the loaded modules of its top-level package; if it lies in no package, of its folder. Packages
that are installed below that folder, and this one, are not the project's.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

from pytest_hierexport._cases.exporting import own_source
from pytest_hierexport._errors import UsageError
from pytest_hierexport._export.choices import is_own
from pytest_hierexport._rules.base import ExportedCase

_INSTALLED = {"site-packages", "dist-packages"}
_OURS = Path(__file__).resolve().parents[2]


def exporter_sources(exported: ExportedCase) -> tuple[Path, ...]:
    """Return the files of the exporter's source, its own first; none for an exporter of this package.

    Raises:
        UsageError: The function, or its source, is not to be found.
    """
    if exported.exporter_source is not None:
        return source_files(exported.exporter_source)
    if not is_own(exported.exporter_name):
        return ()
    path = own_source(exported.exporter_name)
    if path is None:
        expected = f"the source of the exporter {exported.exporter_name}"
        raise UsageError(expected, found="none", do="name a function written in Python")
    return source_files(path)


def source_files(start: Path) -> tuple[Path, ...]:
    """Return a file, and those of the loaded modules of its own package, or folder."""
    start = start.resolve()
    files = {name: resolved(file) for name, file in loaded()}
    root = _root(start, next((name for name, file in files.items() if file == start), start.stem))
    own = (file for file in files.values() if root in file.parents and _OURS not in file.parents and file.is_file())
    return tuple(dict.fromkeys((start, *(file for file in own if _INSTALLED.isdisjoint(file.relative_to(root).parts)))))


def shown(path: Path) -> str:
    """Return a file's path below the folder that its top-level package is in."""
    name = next((name for name, file in loaded() if resolved(file) == path), path.stem)
    return path.relative_to(_base(path, name)).as_posix()


@cache
def resolved(file: str) -> Path:
    """Return the path of a file, its links followed."""
    return Path(file).resolve()


def loaded() -> list[tuple[str, str]]:
    """Return the names and the files of the modules that are loaded from Python source."""
    files = ((name, getattr(module, "__file__", None)) for name, module in list(sys.modules.items()))
    # Modules that are made at run time, such as `torch.ops`, may name a file that there is not.
    return [(name, f) for name, f in files if isinstance(f, str) and f.endswith(".py") and Path(f).is_absolute()]


def _base(path: Path, name: str) -> Path:
    """Return the folder that the top-level package of a module is in."""
    return path.parents[name.count(".") + (path.stem == "__init__")]


def _root(path: Path, name: str) -> Path:
    """Return the folder that holds the source to which a module belongs."""
    base = _base(path, name)
    if "." in name or path.stem == "__init__":
        return base / name.partition(".")[0]
    return path if next(base.glob("*.dist-info"), None) else base
