"""Replaces comparisons, lookups and searches in functions by calls that watch them.

    before                                after
    if path.startswith(PREFIX):           if watch.called(7, path.startswith)(PREFIX):
    return name in TABLE                  return watch.compare(8, "In", name, TABLE)
    kind = f"{config.model_type}_block"   kind = watch.joined((watch.attribute(config, "model_type"), -1, ""), "_block")

Live functions get the code that their own source then compiles to. So modules are not imported again: what they have
registered, and the classes that they have defined, stay the same.
"""

from __future__ import annotations

import ast
import gc
from collections import defaultdict
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from pytest_hierexport._rules.decisions.operations import METHODS, OPERATORS, STAYING, WATCH
from pytest_hierexport._rules.decisions.source import parsed, resolved, unreadable


class Site(NamedTuple):
    """A place in a source file."""

    path: Path
    node: ast.expr

    @property
    def code(self) -> str:
        """Its source, in one line."""
        source = self.path.read_text(encoding="utf-8", errors="replace")
        return " ".join((ast.get_source_segment(source, self.node) or "").split())


SITES: list[Site] = []
"""The watched places, by the numbers that instrumented code has for them."""


@contextmanager
def instrumented(files: Collection[Path], without: Collection[CodeType] = ()) -> Iterator[None]:
    """Have the functions of some files tell what decides in them, while the context lasts.

    Args:
        files: The files.
        without: Code of functions to leave as they are.

    Raises:
        UsageError: A file cannot be read, is no Python, or nests too deeply.
    """
    codes = {path: _Codes.of(path) for path in files}
    changed: list[tuple[FunctionType, CodeType]] = []
    try:
        for function in live_functions():
            code = function.__code__
            found = codes.get(resolved(code.co_filename))
            new = None if found is None or code in without else found.instrumented(code)
            if new is not None and new.co_freevars == code.co_freevars:
                changed.append((function, code))
                function.__code__ = new
        yield
    finally:
        for function, code in changed:
            function.__code__ = code


def live_functions() -> list[FunctionType]:
    """Return all functions of this process."""
    return [each for each in gc.get_objects() if type(each) is FunctionType]


class _Codes:
    """The code of a file, as it is and instrumented."""

    def __init__(self, path: Path) -> None:
        tree = parsed(path)
        try:
            new = ast.fix_missing_locations(_Rewriter(path).visit(ast.parse(path.read_bytes(), str(path))))
            pairs = _pairs(*(compile(each, str(path), "exec", dont_inherit=True) for each in (tree, new)))
        except RecursionError as error:
            raise unreadable(path, error) from error
        self._by_code = dict(pairs)
        self._by_place: defaultdict[tuple[str, int], list[CodeType]] = defaultdict(list)
        for code, new_code in self._by_code.items():
            self._by_place[code.co_name, code.co_firstlineno].append(new_code)

    @staticmethod
    @lru_cache(maxsize=1024)
    def of(path: Path) -> _Codes:
        """Return the code of a file, which is read once."""
        return _Codes(path)

    def instrumented(self, code: CodeType) -> CodeType | None:
        """Return the instrumented code; None where the file has no such function, or several of its name and line."""
        # pytest compiles the functions of tests in a way of its own, with the same names and lines.
        of_place = self._by_place[code.co_name, code.co_firstlineno]
        return self._by_code.get(code, of_place[0] if len(of_place) == 1 else None)


def _pairs(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """Yield each code object within one, beside that of the other."""
    within = ([const for const in code.co_consts if isinstance(const, CodeType)] for code in (old, new))
    for one, other in zip(*within, strict=False):
        yield one, other
        yield from _pairs(one, other)


class _Rewriter(ast.NodeTransformer):
    """Replaces what may decide by calls of the watching object."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """Watch a comparison of two values."""
        site = self._site(node)
        self.generic_visit(node)
        symbol = type(node.ops[0]).__name__
        if len(node.ops) > 1:
            return node
        return _call(node, "compare", site, ast.Constant(symbol), node.left, node.comparators[0])

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """Watch what may be an intersection or a difference of sets, or a text that is formatted."""
        site = self._site(node)
        self.generic_visit(node)
        symbol = type(node.op).__name__
        if symbol not in OPERATORS:
            return node
        return _call(node, "compare", site, ast.Constant(symbol), node.left, node.right)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """Watch a lookup; a slice decides nothing."""
        site = self._site(node)
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load) or isinstance(node.slice, (ast.Slice, ast.Tuple)):
            return node
        return _call(node, "item", site, node.value, node.slice)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """Watch methods that search, and attributes that give names."""
        site = self._site(node)
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load):
            return node
        if node.attr in STAYING:
            return _call(node, "attribute", node.value, ast.Constant(node.attr))
        return _call(node, "called", site, node) if node.attr in METHODS else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Watch what is called."""
        site = self._site(node)
        function = node.func
        if isinstance(function, ast.Attribute):
            function.value = self.visit(function.value)
        elif not isinstance(function, ast.Name):
            function = self.visit(function)
        node.args = [self.visit(each) for each in node.args]
        node.keywords = [self.visit(each) for each in node.keywords]
        # Without its name in the function, `super` does not find its class.
        is_super = isinstance(function, ast.Name) and function.id == "super"
        node.func = function if is_super else _call(function, "called", site, function)
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        """Join the parts of an f-string where marks are kept."""
        self.generic_visit(node)
        parts = [part if isinstance(part, ast.Constant) else _formatted(part) for part in node.values]
        return _call(node, "joined", *parts)

    def visit_Match(self, node: ast.Match) -> ast.AST:
        """Watch what a subject is compared with."""
        head = ast.copy_location(ast.expr(), node)
        head.end_lineno, head.end_col_offset = node.subject.end_lineno, node.subject.end_col_offset
        site = self._site(head)
        self.generic_visit(node)
        patterns: list[Any] = [each for case in node.cases for each in ast.walk(case.pattern)]
        wanted = [each.value for each in patterns if isinstance(each, ast.MatchValue)]
        wanted += [key for each in patterns if isinstance(each, ast.MatchMapping) for key in each.keys]
        wanted += [each.cls for each in patterns if isinstance(each, ast.MatchClass)]
        node.subject = _call(node.subject, "matched", site, node.subject, *wanted)
        return node

    def visit_match_case(self, node: ast.match_case) -> ast.AST:
        """Leave patterns as they are: they take no calls."""
        node.guard = None if node.guard is None else self.visit(node.guard)
        node.body = [self.visit(statement) for statement in node.body]
        return node

    def _site(self, node: ast.expr) -> ast.Constant:
        """Return the number of a place."""
        place = ast.copy_location(ast.expr(), node)
        SITES.append(Site(self._path, place))
        return ast.Constant(len(SITES) - 1)


def _formatted(part: Any) -> ast.expr:
    """Return a value of an f-string with its conversion and its format."""
    spec = part.format_spec or ast.Constant("")
    return ast.Tuple([part.value, ast.Constant(part.conversion), spec], ast.Load())


def _call(at: ast.AST, method: str, *args: ast.expr) -> ast.expr:
    """Return a call of a method of the watching object, placed where a node is."""
    made = ast.Call(ast.Attribute(ast.Name(WATCH, ast.Load()), method, ast.Load()), list(args), [])
    return ast.copy_location(made, at)
