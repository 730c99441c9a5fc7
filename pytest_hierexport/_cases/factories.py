"""Finds the function of `file.py::factory` or `package.module:factory` without an import, and calls it later."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import os
import re
import symtable
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from importlib.machinery import ModuleSpec
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any

from pytest_hierexport._cases.neighbours import check_neighbours, check_taken
from pytest_hierexport._errors import CollectError, UsageError, proposal, source_place
from pytest_hierexport._files.paths import absolute, text_digest

_OTHER_MEANS = re.compile(
    r"\bimport\s*\*|\bglobal\b|\b__getattr__\b|\.(?:modules|__dict__)\b"
    r"|(?<!\.)\b(?:globals|locals|vars|setattr|exec|eval)\b"
)
"""The means by which a module can define names other than by a statement at its top level."""

_FILES = 16
"""The number of parsed files that are remembered: many models may be in one."""


def find_module(name: str, root: Path, *, root_first: bool = False) -> ModuleSpec | None:
    """Find a module on `sys.path`, then in `root`, or the other way round; nothing is imported."""
    first, second = ([str(root)], None) if root_first else (None, [str(root)])
    return _find(name, first) or _find(name, second)


def file_of_spec(spec: ModuleSpec | None) -> Path | None:
    """Return the Python file of a found module, None where it has none."""
    return absolute(spec.origin) if spec and spec.has_location and spec.origin else None


def _find(name: str, path: Sequence[str] | None) -> ModuleSpec | None:
    spec: ModuleSpec | None = None
    parts = name.split(".")
    for i, part in enumerate(parts):
        finders = [finder for finder in sys.meta_path if part.isidentifier() and hasattr(finder, "find_spec")]
        found = (_found_by(finder, ".".join(parts[: i + 1]), path) for finder in finders)
        spec = next(filter(None, found), None)
        if spec is None:
            return None
        path = list(spec.submodule_search_locations or ())
    return spec


def _found_by(finder: Any, name: str, path: Sequence[str] | None) -> ModuleSpec | None:
    try:
        spec: ModuleSpec | None = finder.find_spec(name, path)
    except KeyError:
        # A namespace package asks for its parent, which is not imported; one of the last name alone has no parent.
        spec = finder.find_spec(name.rpartition(".")[2], path)
    return spec


def bring_in_reach(module: str, root: Path) -> ModuleSpec | None:
    """Find a module as :func:`find_module` does, and add `root` to `sys.path` if it is only found there."""
    found = _find(module, None)
    if found is None and (found := _find(module, [str(root)])) is not None:
        sys.path.append(str(root))
    return found


def load_from_module(module: str, name: str, root: Path, file: Path | None = None) -> object:
    """Import a module and call the function of that name in it.

    Args:
        module: The module's dotted name.
        name: The function's name; dotted for one inside a class.
        root: A folder to import from if `sys.path` does not have the module.
        file: The module's file, where it was found before anything was imported.
    """
    bring_in_reach(module, root)
    if file is not None:
        check_taken(module, file)
        check_neighbours(file, module)
    return call_by_name(importlib.import_module(module), name)


def load_from_file(path: Path, name: str) -> object:
    """Import a file, its folder on `sys.path`, and call the function of that name in it."""
    check_neighbours(path, _import_name(path)[1])
    return call_by_name(_import_file(path), name)


def _import_file(path: Path) -> ModuleType:
    # The project may have imported the file under another name; its classes must not exist twice.
    for known, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        # Of thousands of files few have the name, and a path takes time.
        if isinstance(file, str) and file.endswith(path.name) and absolute(file) == path:
            # This is an import like any other, also for those who watch imports.
            return importlib.import_module(known)
    folder, name = _import_name(path)
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    spec = None if name in sys.modules else _find(name, None)
    if spec is not None and spec.origin is not None and absolute(spec.origin) == path:
        return importlib.import_module(name)
    return _import_alone(path)


def _import_name(path: Path) -> tuple[Path, str]:
    """Return the folder above the packages of a file, and the dotted name of its module from there."""
    folder, parts = path.parent, [] if path.stem == "__init__" else [path.stem]
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    return folder, ".".join(parts)


def _import_alone(path: Path) -> ModuleType:
    """Import a file whose module name is already taken by another file.

    Its classes get that module name nevertheless: it must not depend on what was imported before.
    """
    name = f"{path.stem}_{text_digest(str(path))[:8]}"
    spec = importlib.util.spec_from_file_location(_import_name(path)[1], path)
    if spec is None or spec.loader is None:
        raise CollectError("a Python file", found=str(path), do="name a file that ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def call_by_name(module: ModuleType, name: str) -> object:
    """Call the function of that name in a module.

    Raises:
        CollectError: The module has no such function; the message proposes similar names.
    """
    try:
        target: Any = attrgetter(name)(module)
    except AttributeError:
        known = [other for other, value in vars(module).items() if callable(value) and not other.startswith("_")]
        raise CollectError(
            f"a factory named {name} in {module.__file__ or module.__name__}",
            found="no such name",
            do=proposal(name, known) if known else "name another module: this one defines no function",
        ) from None
    if not callable(target):
        raise CollectError(
            f"{name} in {module.__name__} to be a function that makes a model",
            found=f"a {type(target).__name__}",
            do="wrap it in a function",
        )
    _check_parameters(target, name)
    return target()


@contextmanager
def folder_as_found() -> Iterator[None]:
    """Restore the working directory: a function of the project may leave another one, where later ones find no file."""
    folder = Path.cwd()
    try:
        yield
    finally:
        os.chdir(folder)


def _check_parameters(target: Callable[..., object], name: str) -> None:
    try:
        signature = inspect.signature(target)
    except ValueError:  # some functions of C have none
        return
    try:
        signature.bind()
    except TypeError:
        code = getattr(inspect.unwrap(target), "__code__", None)
        place = source_place(Path(code.co_filename), code.co_firstlineno) if code else ""
        raise CollectError(
            f"{name} to be a factory, which is called without arguments",
            found=f"{name}{signature}{place}",
            do="give its parameters defaults, or wrap it in a function without parameters",
        ) from None


def functions_of(path: Path) -> list[str]:
    """Return the names of the functions that a file defines, without importing it."""
    return [node.name for node in _definitions(path)]


def proposed_function(path: Path, name: str) -> str:
    """Return what to do about a function that a file does not define."""
    functions = functions_of(path)
    return proposal(name, functions) if functions else "name another file: this one defines no function"


def factories_of(path: Path) -> list[str]:
    """Return the names of the functions of a file that could be factories, without importing it.

    They are public, take no argument and return a value.
    """
    return [node.name for node in _definitions(path) if takes_nothing(node) and _returns(node)]


def takes_nothing(function: ast.FunctionDef) -> bool:
    """Whether a function is public and can be called without arguments; decorators may change that, so it has none."""
    stated = function.args
    required = len(stated.posonlyargs) + len(stated.args) - len(stated.defaults) + stated.kw_defaults.count(None)
    return required == 0 and not function.decorator_list and not function.name.startswith("_")


def _returns(function: ast.FunctionDef) -> bool:
    return any(isinstance(node, ast.Return) and node.value is not None for node in ast.walk(function))


def check_defined(path: Path, name: str, what: str) -> None:
    """Check, without an import, that a file can define a function.

    Args:
        path: The file.
        name: The function's name; dotted for one inside a class.
        what: The begin of the message, up to the name: `a factory named`.

    Raises:
        UsageError: It cannot; the message proposes similar functions.
    """
    if not may_define(path, name):
        raise UsageError(
            f"{what} {name} in {path}",
            found="no such name",
            do=proposed_function(path, name),
        )


def may_define(path: Path, name: str) -> bool:
    """Whether importing a file may define a name; False is certain."""
    try:
        spelled, is_certain = _spelled(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return True  # the import will raise the error
    return name.partition(".")[0] in spelled or not is_certain


@lru_cache(maxsize=_FILES)
def _spelled(content: bytes) -> tuple[frozenset[str], bool]:
    """Return the names that a source spells out at its top level, and whether importing it defines no others."""
    source = importlib.util.decode_source(content)
    symbols = symtable.symtable(source, "a factory's file", "exec").get_symbols()
    spelled = frozenset(symbol.get_name() for symbol in symbols if symbol.is_assigned() or symbol.is_imported())
    return spelled, _OTHER_MEANS.search(source) is None


def line_of(path: Path, name: str) -> int:
    """Return the line of a function's definition, 1 if it is not found."""
    return next((node.lineno for node in _definitions(path) if node.name == name), 1)


def _definitions(path: Path) -> Sequence[ast.FunctionDef]:
    try:
        return _parsed_definitions(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return []


@lru_cache(maxsize=_FILES)
def _parsed_definitions(content: bytes) -> Sequence[ast.FunctionDef]:
    return [node for node in ast.parse(content).body if isinstance(node, ast.FunctionDef)]
