"""The files of an exporter's own source.

A project's exporter is the loaded modules of its top-level package; if it lies in no package, of its folder. Packages
that are installed below that folder, Python's own library and this package are not the project's.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

_OWN_FOLDER = {"__file__", "importlib.resources", "resources", "pkgutil"}
"""The names by which code finds files of its own."""
_INSTALLED = {"site-packages", "dist-packages"}
_NOT_THEIRS = {Path(__file__).resolve().parents[2], Path(os.__file__).resolve().parent}
"""The folders of this package and of Python's library."""


def source_files(start: Path) -> tuple[Path, ...]:
    """Return a file, and those of the loaded modules of its own package, or folder."""
    start = start.resolve()
    name, base = places([start])[start]
    is_installed = next(base.glob("*.dist-info"), None) is not None
    is_packaged = "." in name or start.stem == "__init__"
    root = base / name.partition(".")[0] if is_packaged else start if is_installed else base
    files = (resolved(file) for _, file in loaded())
    own = (f for f in files if root in f.parents and _NOT_THEIRS.isdisjoint(f.parents) and f.is_file())
    return tuple(dict.fromkeys((start, *(file for file in own if _INSTALLED.isdisjoint(file.relative_to(root).parts)))))


def data_of(source: Path, written: set[str]) -> Iterator[str]:
    """Yield the texts of the files beside some source, or in a folder there, whose names are `written` in it."""
    for path in (*source.parent.glob("*.*"), *source.parent.glob("*/*.*")) if _OWN_FOLDER & written else ():
        with suppress(OSError, UnicodeDecodeError):  # a file that is larger holds weights
            if path.name in written and path.suffix != ".py" and path.stat().st_size <= 1 << 20:
                yield path.read_text("utf-8")


@cache
def resolved(file: str) -> Path:
    """Return the path of a file, its links followed."""
    return Path(file).resolve()


def loaded() -> list[tuple[str, str]]:
    """Return the names and the files of the modules that are loaded from Python source."""
    files = ((name, getattr(module, "__file__", None)) for name, module in list(sys.modules.items()))
    # Modules that are made at run time, such as `torch.ops`, may name a file that does not exist.
    return [(name, f) for name, f in files if isinstance(f, str) and f.endswith(".py") and Path(f).is_absolute()]


def places(paths: Iterable[Path]) -> dict[Path, tuple[str, Path]]:
    """Return for each file the name of its module, and the folder that its top-level package is in."""
    # Of two modules of one file the first counts.
    names = {resolved(file): name for name, file in reversed(loaded())}
    named = {path: names.get(path, path.stem) for path in paths}
    return {path: (name, path.parents[name.count(".") + (path.stem == "__init__")]) for path, name in named.items()}
