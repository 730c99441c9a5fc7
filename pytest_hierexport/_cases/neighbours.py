"""Refuses a factory's file that gets modules of another folder, because they have the names of its own.

    services/search/nets.py     from layers import Block      services/search/layers.py
    services/ads/nets.py        from layers import Block      services/ads/layers.py

Python imports a name once in a process: the second model would be made of the layers of the first, without a word.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from pytest_hierexport._errors import CollectError, shown_source
from pytest_hierexport._files.paths import exists, is_project


def check_neighbours(path: Path, module: str) -> None:
    """Check that the modules beside a file that it imports, and those that they import, are not taken.

    Args:
        path: The file.
        module: The dotted name that it is imported by.

    Raises:
        CollectError: Another file of the project was imported under the name of one.
    """
    above = module.count(".") + (path.stem == "__init__")
    folder, package = path.parents[above], module.partition(".")[0] if above else ""
    known, left = {""}, [path]
    while left:
        for name in _imported(left.pop(), package):
            own = next(filter(Path.is_file, (folder / f"{name}.py", folder / name / "__init__.py")), None)
            if name not in known and own is not None:
                check_taken(name, own)
                left.append(own)
            known.add(name)


def check_taken(name: str, own: Path) -> None:
    """Check that no other file of the project was imported under the name of a module.

    A module of equal content will do. A package will not: its modules may differ.

    Raises:
        CollectError: One was.
    """
    taken = getattr(sys.modules.get(name), "__file__", None)
    if isinstance(taken, str):
        check_same(name, own, Path(taken), "which was imported under that name before")


def check_same(name: str, own: Path, other: Path, why: str) -> None:
    """Check that the file that Python has for a module is not another file of the project; `why` it has that one.

    Raises:
        CollectError: It is.
    """
    if not is_project(str(other)) or not exists(other) or own.samefile(other):
        return
    if own.stem != "__init__" and own.read_bytes() == other.read_bytes():
        return
    raise CollectError(
        f"the module {name} to be {shown_source(own)}",
        found=f"{shown_source(other)}, {why}",
        do="rename one of them, make packages with names of their own, or run these models in sessions of their own",
    )


def _imported(path: Path, package: str) -> Iterator[str]:
    """Yield the top-level names of the modules that a file imports."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return  # the import will raise the error
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield package if node.level else (node.module or "").partition(".")[0]
