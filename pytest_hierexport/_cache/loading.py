"""Tells which modules of the project code imports, also those that are loaded already, and whose code runs just now.

No audit event tells of an import that finds its module in `sys.modules`: it ends in `builtins.__import__` or
`importlib.import_module`. Both are replaced, and so is the method that runs the code of a module. In tracebacks the
replacements look as Python's own, which Python leaves out.
"""

from __future__ import annotations

import builtins
import functools
import importlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from importlib.machinery import SourceFileLoader
from importlib.util import resolve_name
from itertools import accumulate
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from pytest_hierexport._files.paths import absolute, is_installed

_TRIMMED = ("<frozen importlib._bootstrap>", "_call_with_frames_removed")
"""The file and the function by which Python knows the frames of its own that tracebacks leave out."""

_executing: ContextVar[tuple[Path, ...]] = ContextVar("_executing", default=())
_in_any_thread: list[Path] = []
"""The files of the modules whose code any thread runs: a thread that such code starts has a context without them."""


def executing() -> tuple[Path, ...]:
    """Return the files of the modules whose code this thread runs, each imported by the one before it.

    Of a thread that runs none they are those of all threads: the code of a module may have started it.
    """
    return _executing.get() or tuple(_in_any_thread)


def file_of(module: ModuleType) -> Path | None:
    """Return the file that a module was loaded from, None where it has none."""
    file = vars(module).get("__file__")
    # torch has modules whose `__file__` is a mere name.
    return absolute(file) if isinstance(file, str) and os.path.isabs(file) else None  # noqa: PTH117


def watch_loading(imported: Callable[[Sequence[Path]], None], executed: Callable[[ModuleType, Path], None]) -> None:
    """Call a function with the files of the modules that each import names, another with each module that has run."""
    files = _Files()
    import_statement, import_module, run = builtins.__import__, importlib.import_module, SourceFileLoader.exec_module

    def statement_and_tell(
        name: str,
        globals: Mapping[str, Any] | None = None,  # noqa: A002  # as Python names it: some callers do, too
        locals: Mapping[str, Any] | None = None,  # noqa: A002
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        __tracebackhide__ = True  # the outermost frame remains; pytest leaves it out
        found = import_statement(name, globals, locals, fromlist or (), level)
        # torch imports inside functions, which run some ten thousand times in an export.
        if level or name not in files.installed:
            imported(files.named(name, globals or {}, fromlist or (), level))
        return found

    @functools.wraps(import_module)  # pickle finds it by its names
    def import_and_tell(name: str, package: str | None = None) -> ModuleType:
        __tracebackhide__ = True  # the outermost frame remains; pytest leaves it out
        found = import_module(name, package)
        imported(files.named(name, {"__package__": package}, (), len(name) - len(name.lstrip("."))))
        return found

    def run_and_tell(loader: SourceFileLoader, module: ModuleType) -> None:
        file = absolute(loader.path)
        token = _executing.set((*_executing.get(), file))
        _in_any_thread.append(file)
        try:
            run(loader, module)
        finally:
            _in_any_thread.remove(file)
            _executing.reset(token)
            if not is_installed(file):
                files.installed.clear()
        executed(module, file)

    builtins.__import__ = trimmed(statement_and_tell)
    importlib.import_module = trimmed(import_and_tell)
    SourceFileLoader.exec_module = trimmed(run_and_tell)  # type: ignore[method-assign]


def trimmed(function: Any) -> Any:
    """Make a function look as Python's own in tracebacks, and return it."""
    file, name = _TRIMMED
    assert isinstance(function, FunctionType)  # noqa: S101  # the type checker takes any callable for one
    function.__code__ = function.__code__.replace(co_filename=file, co_name=name)
    return function


class _Files:
    """The files of the project's modules, by the modules' names."""

    def __init__(self) -> None:
        self.installed: set[str] = set(sys.builtin_module_names)
        """The names of modules that are no part of the project, as those that they hold."""

    def named(self, name: str, names: Mapping[str, Any], fromlist: Sequence[str], level: int) -> list[Path]:
        """Return the files of the modules that an import has loaded or found, with the packages above them."""
        if level:
            with suppress(ImportError, ValueError, TypeError):
                dots = "" if name.startswith(".") else "." * level
                name = resolve_name(f"{dots}{name}", _package(names))
        file = self._loaded_from(name)
        if file is not None and is_installed(file):
            self.installed.add(name)
            return []
        package = sys.modules.get(name)
        if "*" in fromlist or hasattr(package, "__getattr__"):  # which may import a module when it is first asked for
            fromlist = [*fromlist, *getattr(package, "__dict__", ())]
        packages = accumulate(name.split("."), "{}.{}".format)  # the last is the module itself
        loaded = [*packages, *(f"{name}.{each}" for each in fromlist if isinstance(each, str))]
        files = filter(None, map(self._loaded_from, loaded))
        return [file for file in files if not is_installed(file)]

    @staticmethod
    def _loaded_from(name: str) -> Path | None:
        module = sys.modules.get(name)
        return file_of(module) if isinstance(module, ModuleType) else None


def _package(names: Mapping[str, Any]) -> str | None:
    """Return the package that the names of a module belong to."""
    package: str | None = names.get("__package__")
    if package is not None or "__name__" not in names:
        return package
    name: str = names["__name__"]
    return name if "__path__" in names else name.rpartition(".")[0]
