"""Tells for which modules Python looks in which folders, and compares what it found with what it would find now.

A model imports helper, which is not in /tests and is in /project, and asks in vain for extra:

    /tests      helper: nothing      extra: nothing
    /project    helper: helper.py    extra: nothing

A new file changes a result only where it has a name that was looked for: /tests/helper.py, /project/extra.py or
/project/helper/__init__.py, which Python prefers to helper.py.

No audit event tells of a search in one folder: it ends in `FileFinder.find_spec`, which is replaced. Finders before it,
such as pytest's for modules with assertions, end there, too.
"""

from __future__ import annotations

import importlib.machinery
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib.machinery import FileFinder, ModuleSpec
from traceback import walk_stack
from types import FrameType, ModuleType

from pytest_hierexport._cache.loading import trimmed
from pytest_hierexport._files.listings import names_in
from pytest_hierexport._files.paths import of_standard_library

_SUFFIXES = tuple(importlib.machinery.all_suffixes())


def watch_searches(searched: Callable[[str, str, ModuleSpec | None], None]) -> None:
    """Call a function with each module that is looked for from now on, the folder, and what was found there."""
    find = FileFinder.find_spec

    def find_and_tell(finder: FileFinder, fullname: str, target: ModuleType | None = None) -> ModuleSpec | None:
        __tracebackhide__ = True  # the outermost frame remains; pytest leaves it out
        found = find(finder, fullname, target)
        searched(fullname, finder.path, found)
        return found

    FileFinder.find_spec = trimmed(find_and_tell)  # type: ignore[method-assign]


def nearest_importer() -> str:
    """Return the file of the code for which a module is looked for just now; empty where it is Python's."""
    # The frames above, up to that of the replaced method, are the recorder's.
    above = ((frame, frame.f_code.co_filename) for frame, _ in walk_stack(sys._getframe(3)))
    others = (file for frame, file in above if not of_standard_library(file) and not _is_asked_by_python(frame))
    return next(others, "")


def _is_asked_by_python(frame: FrameType) -> bool:
    """Whether a frame is of a finder, such as pytest's, which looks on behalf of the code that imports."""
    asker = frame.f_back.f_code.co_filename if frame.f_back else ""
    return frame.f_code.co_name == "find_spec" and asker.startswith("<frozen importlib._bootstrap")


def modules_of(names: Iterable[tuple[str, str]]) -> dict[str, dict[str, str]]:
    """Return by folder what Python finds now under each name that was looked for; empty for nothing."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for folder, name in names:
        found[folder][name] = _present(folder, name)
    return dict(found)


def _present(folder: str, name: str) -> str:
    listed = names_in(folder)
    files, known = _files_by_module(listed)
    found = list(files.get(name, ()))
    if name in known and os.path.isdir(path := f"{folder}{os.sep}{name}"):  # noqa: PTH112  # fast
        # Without any of these files it is a namespace package, whatever it holds.
        packages = _files_by_module(names_in(path))[0].get("__init__", ())
        found += [f"{name}/{file}" for file in packages] or [f"{name}/"]
    return " ".join(found)


@cache
def _files_by_module(names: tuple[str, ...]) -> tuple[Mapping[str, Sequence[str]], frozenset[str]]:
    """Return the files of modules by the modules' names, and all names."""
    files: dict[str, list[str]] = defaultdict(list)
    for name in sorted(names):
        if name.endswith(_SUFFIXES):
            files[name.partition(".")[0]].append(name)
    return dict(files), frozenset(names)
