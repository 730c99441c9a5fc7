"""Searches a project's sources for functions that return a model with its inputs, without importing any.

    class Tower(nn.Module): ...

    def build():                                    # found: file.py::build
        model = Tower(width=16)
        return model.eval(), (torch.randn(2, 16),)

Found is a public function without required arguments and decorators that returns a tuple, a mapping or an `Example`
whose model is made by a class of `torch.nn`, or by one that the project derives from such a class, or by a method of
the latter: `Tower.from_config(3)`. A model from another package is not recognised: its source is not read.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from pytest_hierexport._calls.names import is_torch_nn
from pytest_hierexport._cases.factories import takes_nothing

_ENVIRONMENT = "pyvenv.cfg"
"""The file that a virtual environment has."""
_NOT_SEARCHED = frozenset({"build", "dist", "node_modules"})
"""The folders in which pytest looks for no tests either (`norecursedirs`); `build/lib` holds what setuptools copied."""
_EXAMPLES = frozenset({"Example", "dict"})
"""The names of what is called with a model and its inputs."""


@dataclass(frozen=True)
class _File:
    path: Path
    tree: ast.Module

    @cached_property
    def imported(self) -> Mapping[str, str]:
        """The qualified name of each imported name; a relative import counts by the name alone."""
        names: dict[str, str] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    top = alias.name.partition(".")[0]
                    names[alias.asname or top] = alias.name if alias.asname else top
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    names[alias.asname or alias.name] = f"{node.module or ''}.{alias.name}"
        return names

    def qualified(self, expression: ast.expr) -> str:
        """Return the qualified name of a dotted expression; empty for any other."""
        parts: list[str] = []
        while isinstance(expression, ast.Attribute):
            parts.insert(0, expression.attr)
            expression = expression.value
        if not isinstance(expression, ast.Name):
            return ""
        return ".".join([self.imported.get(expression.id, expression.id), *parts])


@dataclass(frozen=True)
class Sources:
    """The Python files of a project."""

    root: Path
    files: tuple[_File, ...] = field(repr=False)

    @cached_property
    def modules(self) -> frozenset[str]:
        """The names of the classes that derive from a class of `torch.nn`, directly or through each other."""
        classes = [(file, node) for file in self.files for node in file.tree.body if isinstance(node, ast.ClassDef)]
        known: set[str] = set()
        while True:
            more = {
                node.name
                for file, node in classes
                if node.name not in known and any(_is_module(file, base, known) for base in node.bases)
            }
            if not more:
                return frozenset(known)
            known |= more

    def factories(self) -> list[str]:
        """Return the selectors of the functions that are found, file by file: `folder/file.py::function`."""
        return [
            f"{file.path.relative_to(self.root).as_posix()}::{node.name}"
            for file in self.files
            for node in file.tree.body
            if isinstance(node, ast.FunctionDef) and takes_nothing(node) and self._gives_example(file, node)
        ]

    def _gives_example(self, file: _File, function: ast.FunctionDef) -> bool:
        values = dict(_assigned(function))
        returned = [node.value for node in ast.walk(function) if isinstance(node, ast.Return) and node.value]
        return any(self._makes_module(file, model, values) for value in returned for model in _model_of(file, value))

    def _makes_module(self, file: _File, expression: ast.expr, values: Mapping[str, ast.expr]) -> bool:
        """Whether an expression is a new module, perhaps after methods that return it: `Tower(3).eval()`."""
        followed: set[str] = set()
        while True:
            if isinstance(expression, ast.Name) and expression.id in values and expression.id not in followed:
                followed.add(expression.id)
                expression = values[expression.id]
            elif isinstance(expression, ast.Call):
                made = expression.func
                if _is_module(file, made, self.modules) or self._is_class_method(file, made):
                    return True
                inner = _changed_by(file, expression)
                if inner is None:
                    return False
                expression = inner
            else:
                return False

    def _is_class_method(self, file: _File, expression: ast.expr) -> bool:
        """Whether an expression is a method of a class that the project derives: `Tower.from_config`."""
        return isinstance(expression, ast.Attribute) and (
            file.qualified(expression.value).rpartition(".")[2] in self.modules
        )


def read_sources(root: Path) -> Sources:
    """Read the Python files below a folder, but for hidden folders, virtual environments and what tools built."""
    return Sources(root, tuple(filter(None, map(_read, _python_files(root)))))


def _python_files(root: Path) -> Iterator[Path]:
    for folder, below, files in os.walk(root):
        if _ENVIRONMENT in files:
            below.clear()
            continue
        below[:] = sorted(name for name in below if not name.startswith(".") and name not in _NOT_SEARCHED)
        yield from (Path(folder) / name for name in sorted(files) if name.endswith(".py"))


def _read(path: Path) -> _File | None:
    try:
        return _File(path, ast.parse(path.read_bytes()))
    except (OSError, SyntaxError, ValueError, RecursionError):
        return None


def _is_module(file: _File, expression: ast.expr, known: Iterable[str]) -> bool:
    name = file.qualified(expression)
    last = name.rpartition(".")[2]
    # The functions of torch.nn, as those of torch.nn.functional, return tensors; classes alone begin with a capital.
    return (is_torch_nn(name) and last[:1].isupper()) or last in known


def _changed_by(file: _File, call: ast.Call) -> ast.expr | None:
    """Return what a call may return changed: what its method is of, or the first argument of a function of torch.nn."""
    if is_torch_nn(file.qualified(call.func)):
        return next(iter(call.args), None)
    return call.func.value if isinstance(call.func, ast.Attribute) else None


def _assigned(function: ast.FunctionDef) -> Iterator[tuple[str, ast.expr]]:
    """Yield the names that a function assigns with their values, but for `model = model.eval()`."""
    for node in ast.walk(function):
        if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if len(targets) == 1 and isinstance(targets[0], ast.Name):
            name, used = targets[0].id, {each.id for each in ast.walk(node.value) if isinstance(each, ast.Name)}
            yield from [] if name in used else [(name, node.value)]


def _model_of(file: _File, returned: ast.expr) -> Iterator[ast.expr]:
    """Yield the model of a returned pair, mapping or `Example`."""
    if isinstance(returned, ast.Tuple) and len(returned.elts) > 1:
        yield returned.elts[0]
    if isinstance(returned, ast.Dict):
        pairs = zip(returned.keys, returned.values, strict=True)
        stated = {key.value: value for key, value in pairs if isinstance(key, ast.Constant)}
        yield from [stated["model"]] if len(stated) > 1 and "model" in stated else []
    if isinstance(returned, ast.Call) and file.qualified(returned.func).rpartition(".")[2] in _EXAMPLES:
        yield from returned.args[:1]
        yield from (keyword.value for keyword in returned.keywords if keyword.arg == "model")
