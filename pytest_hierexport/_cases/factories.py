"""The function behind `file.py::factory` and `package.module:factory`, found without importing it."""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import symtable
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from pytest_hierexport._errors import CollectError, UsageError, nearest
from pytest_hierexport._files.paths import absolute

__all__ = [
    "FoundModule",
    "bring_in_reach",
    "call_by_name",
    "check_defined",
    "find_module",
    "functions_of",
    "line_of",
    "load_from_file",
    "load_from_module",
    "may_define",
]

_BY_OTHER_MEANS = frozenset({"globals", "locals", "vars", "setattr", "exec", "eval"})
"""What a module that makes names without spelling them uses."""


@dataclass(frozen=True)
class FoundModule:
    """Where a module would be imported from."""

    file: Path | None
    """None for a module that is no Python file."""


def find_module(name: str, root: Path) -> FoundModule | None:
    """Look for a module on `sys.path`, then in `root`, importing neither it nor the packages above it."""
    spec = _find(name, None) or _find(name, [str(root)])
    if spec is None:
        return None
    file = absolute(spec.origin) if spec.has_location and spec.origin else None
    return FoundModule(file)


def _find(name: str, path: Sequence[str] | None) -> ModuleSpec | None:
    spec: ModuleSpec | None = None
    parts = name.split(".")
    for i in range(len(parts)):
        spec = _ask_finders(".".join(parts[: i + 1]), path)
        if spec is None:
            return None
        path = list(spec.submodule_search_locations or ())
    return spec


def _ask_finders(name: str, path: Sequence[str] | None) -> ModuleSpec | None:
    if not name.rpartition(".")[2].isidentifier():
        return None
    found = (finder.find_spec(name, path) for finder in sys.meta_path if hasattr(finder, "find_spec"))
    return next((spec for spec in found if spec is not None), None)


def bring_in_reach(module: str, root: Path) -> bool:
    """Let Python find a module in a folder, where `sys.path` does not have it; return whether it is found at all."""
    if _find(module, None) is None and _find(module, [str(root)]) is not None:
        sys.path.append(str(root))
    return _find(module, None) is not None


def load_from_module(module: str, name: str, root: Path | None) -> object:
    """Import a module and call the function of that name in it.

    Args:
        module: The module's dotted name.
        name: The function's name; dotted for one inside a class.
        root: A folder to import from where `sys.path` does not have the module.
    """
    if root is not None:
        bring_in_reach(module, root)
    return call_by_name(importlib.import_module(module), name)


def load_from_file(path: Path, name: str) -> object:
    """Import a file, its folder on `sys.path`, and call the function of that name in it."""
    return call_by_name(_import_file(path), name)


def _import_file(path: Path) -> ModuleType:
    # The module that the project itself imports the file as, if it does: its classes must not exist twice.
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and absolute(file) == path:
            return module
    folder, name = _import_name(path)
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    spec = None if name in sys.modules else _find(name, None)
    if spec is not None and spec.origin is not None and absolute(spec.origin) == path:
        return importlib.import_module(name)
    return _import_alone(path)


def _import_name(path: Path) -> tuple[Path, str]:
    """Return the folder to import from, above the packages that the file lies in, and the dotted name from there."""
    folder, parts = path.parent, [path.stem]
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    return folder, ".".join(parts)


def _import_alone(path: Path) -> ModuleType:
    """Import a file whose own name belongs to another module.

    Its classes bear that name all the same: what a file calls them must not hang on what was imported before it.
    """
    name = f"{path.stem}_{hashlib.sha256(bytes(path)).hexdigest()[:8]}"
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
        CollectError: The module has none, with the nearest names.
    """
    target: Any = module
    for part in name.split("."):
        if not hasattr(target, part):
            known = [other for other, value in vars(module).items() if callable(value) and not other.startswith("_")]
            raise CollectError(
                f"a factory named {name} in {module.__file__ or module.__name__}",
                found="no such name",
                do=f"choose from: {nearest(name, known) or '(it defines no function)'}",
            )
        target = getattr(target, part)
    if not callable(target):
        raise CollectError(
            f"{name} in {module.__name__} to be a function that makes a model",
            found=f"a {type(target).__name__}",
            do="wrap it in a function",
        )
    return target()


def functions_of(path: Path) -> list[str]:
    """Return the functions that a file defines, without importing it."""
    return [node.name for node in _definitions(path)]


def check_defined(path: Path, name: str, what: str) -> None:
    """Find out before anything is imported that a file cannot give a function.

    Args:
        path: The file.
        name: The function's name; dotted for one inside a class.
        what: What the function is for, up to its name: `a factory named`.

    Raises:
        UsageError: It has no such name, with the nearest.
    """
    if not may_define(path, name):
        raise UsageError(
            f"{what} {name} in {path}",
            found="no such name",
            do=f"choose from: {nearest(name, functions_of(path)) or '(it defines no function)'}",
        )


def may_define(path: Path, name: str) -> bool:
    """Whether importing a file can give it a name, as far as reading it shows."""
    try:
        source = importlib.util.decode_source(path.read_bytes())
        table, tree = symtable.symtable(source, str(path), "exec"), ast.parse(source)
    except (OSError, SyntaxError, ValueError):
        return True  # what importing it says of that is more than we know
    symbols = {symbol.get_name(): symbol for symbol in table.get_symbols()}
    first = name.partition(".")[0]
    if first in symbols and (symbols[first].is_assigned() or symbols[first].is_imported()):
        return True
    return any(_may_bind(node, first) for node in ast.walk(tree))


def _may_bind(node: ast.AST, name: str) -> bool:
    """Whether a node may give the module a name without spelling it at its top level."""
    if isinstance(node, ast.ImportFrom):
        return any(alias.name == "*" for alias in node.names)
    if isinstance(node, ast.Global):
        return name in node.names
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return node.name == "__getattr__"
    if isinstance(node, ast.Attribute):
        return node.attr in {"__dict__", "modules"}
    return isinstance(node, ast.Name) and node.id in _BY_OTHER_MEANS


def line_of(path: Path, name: str) -> int:
    """Return the line of a function's definition, 1 where it is not found."""
    return next((node.lineno for node in _definitions(path) if node.name == name), 1)


def _definitions(path: Path) -> list[ast.FunctionDef]:
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return []
    return [node for node in tree.body if isinstance(node, ast.FunctionDef)]
