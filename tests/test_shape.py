"""Holds the shape of the code: sizes of files and classes, nesting, imports without circles, and the names of tests."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest_hierexport

ROOT = Path(__file__).parents[1]
PACKAGE = Path(pytest_hierexport.__file__).parent
BLOCKS = (ast.For, ast.While, ast.If, ast.With, ast.Try, ast.Match, ast.FunctionDef)


def parsed(*folders: Path) -> Iterator[tuple[str, ast.Module]]:
    for folder in folders:
        for file in sorted(folder.rglob("*.py")):
            yield str(file.relative_to(folder.parent)), ast.parse(file.read_text(encoding="utf-8"))


def depth(node: ast.AST, *, chained: bool = False) -> int:
    """Return how deep the blocks in a node are nested; an `elif` is as deep as its `if`."""
    below = 0
    for name, part in ast.iter_fields(node):
        for child in part if isinstance(part, list) else [part]:
            if isinstance(child, ast.AST):
                is_elif = isinstance(node, ast.If) and name == "orelse" and isinstance(child, ast.If) and len(part) == 1
                below = max(below, depth(child, chained=is_elif))
    return below + (isinstance(node, BLOCKS) and not chained)


def imported(file: Path) -> Iterator[Path]:
    """Yield the modules of the package that a file imports, at any place, also for the type checker alone."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pytest_hierexport."):
            for name in node.names:
                of_module = PACKAGE.parent.joinpath(*str(node.module).split("."))
                modules = (of_module / f"{name.name}.py", of_module.with_suffix(".py"))
                yield from [module for module in modules if module.is_file()][:1]


def test_modules_import_each_other_in_no_circle() -> None:
    graph = {file: set(imported(file)) for file in PACKAGE.rglob("*.py")}
    assert sum(map(len, graph.values())) > len(graph)
    TopologicalSorter(graph).prepare()


def test_no_file_has_more_than_300_lines() -> None:
    lines = {file: len(file.read_text(encoding="utf-8").splitlines()) for file in PACKAGE.rglob("*.py")}
    assert not {file: count for file, count in lines.items() if count > 300}


def test_no_class_has_more_than_15_methods() -> None:
    found = {
        (file, node.name): len([part for part in node.body if isinstance(part, ast.FunctionDef)])
        for file, module in parsed(PACKAGE)
        for node in ast.walk(module)
        if isinstance(node, ast.ClassDef)
    }
    assert not {name: count for name, count in found.items() if count > 15}


def test_no_function_is_nested_deeper_than_four() -> None:
    found = {
        (file, node.name): depth(node) - 1
        for file, module in parsed(PACKAGE)
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef)
    }
    assert not {name: levels for name, levels in found.items() if levels > 4}


def test_test_names_have_at_most_ten_words() -> None:
    found = {
        (file, node.name)
        for file, module in parsed(ROOT / "tests", ROOT / "musts")
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_") and len(node.name.split("_")) > 11
    }
    assert not found
