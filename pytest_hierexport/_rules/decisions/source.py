"""The files of an exporter's source, and the trees that Python parses them to.

A module's source is what it imports, directly or not, from its own top-level package; for a module outside any
package, from its own folder. A folder that packages are installed into holds other people's packages: of those beside
the module none is read.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

from pytest_hierexport._cases.exporting import own_function
from pytest_hierexport._errors import UsageError
from pytest_hierexport._export.choices import is_own
from pytest_hierexport._rules.base import ExportedCase


def exporter_sources(exported: ExportedCase) -> tuple[Path, ...]:
    """Return the files of the exporter's source; none for an exporter of this package.

    Raises:
        UsageError: The function, or its source, is not to be found.
    """
    if exported.exporter_source is not None:
        return source_files(exported.exporter_source)
    if is_own(exported.exporter_name):
        return source_files(_source_of(exported.exporter_name))
    return ()


def _source_of(function: str) -> Path:
    try:
        path = inspect.getsourcefile(inspect.unwrap(own_function(function)))
    except TypeError:
        path = None
    if path is None:
        raise UsageError(f"the source of the exporter {function}", found="none", do="name a function written in Python")
    return Path(path)


def source_files(start: Path) -> tuple[Path, ...]:
    """Return a file and every file of its own package, or folder, that it imports, and so on.

    Raises:
        UsageError: A file cannot be read, is no Python, or nests too deeply.
    """
    found: dict[Path, None] = {}
    pending = [start.resolve()]
    while pending:
        path = pending.pop()
        if path not in found:
            found[path] = None
            pending.extend(_imports(path))
    return tuple(found)


@lru_cache(maxsize=1024)
def parsed(path: Path) -> ast.Module:
    """Return the syntax tree of a file.

    Raises:
        UsageError: It cannot be read, is no Python, or nests too deeply.
    """
    try:
        return ast.parse(path.read_bytes(), filename=str(path))
    except (RecursionError, MemoryError) as error:
        raise too_deep(path) from error
    except (OSError, SyntaxError, ValueError) as error:
        raise UsageError(
            "the exporter's source to be Python that can be read",
            found=f"{path}: {error}",
            do="give an exporter whose source is at hand",
        ) from error


def too_deep(path: Path) -> UsageError:
    """Return the error for a file whose expressions or statements nest too deeply to be read."""
    return UsageError(
        "the exporter's source to be Python that can be read",
        found=f"{path}: its expressions or statements nest too deeply",
        do="break the deepest of them up, or read a table of that size from a data file",
    )


def module_name(path: Path) -> str:
    """Return the dotted name by which a file is imported, as far as the packages around it tell."""
    parts = [] if path.stem == "__init__" else [path.stem]
    folder = path.parent
    while (folder / "__init__.py").exists():
        parts.append(folder.name)
        folder = folder.parent
    return ".".join(reversed(parts))


def shown(path: Path) -> str:
    """Return a file's path below the folder that its top-level package is in."""
    return Path(*path.parts[-len(module_name(path).split(".")) - (path.stem == "__init__") :]).as_posix()


def imported_module(path: Path, node: ast.ImportFrom) -> str:
    """Return the absolute dotted name of the module that `from ... import` names, in the file at `path`."""
    if not node.level:
        return node.module or ""
    package = module_name(path).split(".")
    up = node.level - (path.stem == "__init__")
    return ".".join([*package[: max(len(package) - up, 0)], *([node.module] if node.module else [])])


def _imports(path: Path) -> Iterator[Path]:
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from _files(path, (alias.name for alias in node.names))
        elif isinstance(node, ast.ImportFrom):
            home = imported_module(path, node)
            yield from _files(path, (home, *(f"{home}.{alias.name}".lstrip(".") for alias in node.names)))


def _files(path: Path, names: Iterable[str]) -> Iterator[Path]:
    """Yield the files behind dotted names that belong to the source of the module at `path`."""
    for name in names:
        base = _within(path, tuple(name.split(".")))
        if base is not None:
            yield from (file for file in (base.with_suffix(".py"), base / "__init__.py") if file.is_file())


def _within(path: Path, parts: tuple[str, ...]) -> Path | None:
    """Return where a dotted name leads, without a suffix; None outside the module's own package or folder."""
    package = module_name(path).split(".")
    if path.parent.joinpath("__init__.py").exists():
        root = path.parents[len(package) - (path.stem != "__init__")]
        return root.joinpath(*parts) if parts[0] == package[0] else None
    folder = path.parent
    *above, last = parts
    if above and folder.parts[-len(above) :] == tuple(above):
        # The module's package has no `__init__.py`, and its own modules are imported by their full names.
        return folder / last
    return None if _is_installed(folder, parts[0]) else folder.joinpath(*parts)


def _is_installed(folder: Path, name: str) -> bool:
    """Return whether a name is a package's, in a folder that packages are installed into."""
    return (folder / name).is_dir() and next(folder.glob("*.dist-info"), None) is not None
