"""Replaces comparisons, lookups and searches in functions by calls that watch them.

    before                                after
    if path.startswith(PREFIX):           if watch.called(7, path.startswith)(PREFIX):
    return name in TABLE                  return watch.compare(8, "In", name, TABLE)
    f"{name}_block"                       watch.joined(watch.formatted(name, -1, ""), "_block")
    config.model_type                     watch.attribute(config, "model_type")

Live functions get the code that their own source then compiles to. So modules are not imported again: what they have
registered, and the classes that they have defined, stay the same.
"""

from __future__ import annotations

import ast
import gc
import warnings
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import NamedTuple

from pytest_hierexport._errors import UsageError
from pytest_hierexport._rules.decisions.operations import OPERATORS, STAYING, WATCH
from pytest_hierexport._rules.decisions.source import resolved


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
def instrumented(codes: Mapping[Path, Code], without: Collection[FunctionType] = ()) -> Iterator[None]:
    """Instrument the functions of some files, `without` some of them, while the context lasts."""
    changed: list[tuple[FunctionType, CodeType]] = []
    try:
        for function in live_functions():
            code = function.__code__
            found = codes.get(resolved(code.co_filename))
            new = None if found is None or function in without else found.instrumented(code)
            if new is not None and new.co_freevars == code.co_freevars:
                changed.append((function, code))
                function.__code__ = new
        yield
    finally:
        for function, code in changed:
            function.__code__ = code


def live_functions() -> list[FunctionType]:
    """Return all functions of this process."""
    frozen = gc.get_freeze_count()
    gc.unfreeze()  # `get_objects` lists no frozen objects
    found = [each for each in gc.get_objects() if type(each) is FunctionType]
    if frozen:
        gc.freeze()
    return found


class Code:
    """The code of a file, as it is and instrumented."""

    def __init__(self, path: Path, source: bytes) -> None:
        """Compile the file's contents."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source, str(path))
            self.split = frozenset(_split(tree))
            """The texts that the source writes as one and splits: `"query key".split()`."""
            new = ast.fix_missing_locations(_Rewriter(path).visit(tree))
            old, new_code = (compile(each, str(path), "exec", dont_inherit=True) for each in (source, new))
            self.without_docs = compile(source, str(path), "exec", dont_inherit=True, optimize=2)
            """The code of the module without docstrings."""
        self._by_code = dict(_pairs(old, new_code))
        self._by_place: defaultdict[tuple[str, int], list[CodeType]] = defaultdict(list)
        for code, instrumented_code in self._by_code.items():
            self._by_place[code.co_name, code.co_firstlineno].append(instrumented_code)

    def instrumented(self, code: CodeType) -> CodeType | None:
        """Return the instrumented code of a function; None where the file has no such function."""
        of_place = self._by_place[code.co_name, code.co_firstlineno]
        # pytest compiles the functions of tests in a way of its own, with the same names and lines.
        is_pytests = len(of_place) == 1 and any(name.startswith("@py") for name in code.co_varnames + code.co_names)
        return self._by_code.get(code, of_place[0] if is_pytests else None)


def code_of(path: Path) -> Code:
    """Return the code of a file as it is now.

    Raises:
        UsageError: It cannot be read, is not valid Python, or nests too deeply.
    """
    try:
        return _code_of(path, path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
        is_deep = isinstance(error, (RecursionError, MemoryError))
        raise UsageError(
            "the exporter's source to be Python that can be read",
            found=f"{path}: {'its expressions or statements nest too deeply' if is_deep else error}",
            do="name an exporter whose source is at hand, with its largest tables in data files",
        ) from error


_code_of = lru_cache(maxsize=1024)(Code)


def _split(tree: ast.AST) -> Iterator[str]:
    """Yield the parts of each constant text that the source splits by constants."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "split":
            with suppress(ValueError, TypeError):
                text, *by = (ast.literal_eval(each) for each in (node.func.value, *node.args))
                yield from str.split(text, *by)


def _pairs(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """Yield each code object within one, beside that of the other; none where Python 3.10 made one of two."""
    within = [[const for const in code.co_consts if isinstance(const, CodeType)] for code in (old, new)]
    for one, other in zip(*within, strict=False) if len(within[0]) == len(within[1]) else ():
        if (one.co_name, one.co_firstlineno) == (other.co_name, other.co_firstlineno):
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
        return node if len(node.ops) > 1 else _compared(site, node, node.ops[0], node.left, node.comparators[0])

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """Watch what may be an intersection or a difference of sets, or a text that is formatted."""
        site = self._site(node)
        self.generic_visit(node)
        return _compared(site, node, node.op, node.left, node.right)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """Watch a lookup, and a text that is cut."""
        site = self._site(node)
        self.generic_visit(node)
        key = node.slice
        parts = key.elts if isinstance(key, ast.Tuple) else []
        if not isinstance(node.ctx, ast.Load) or any(isinstance(part, (ast.Slice, ast.Starred)) for part in parts):
            return node
        if isinstance(key, ast.Slice):
            bounds = (each or ast.Constant(None) for each in (key.lower, key.upper, key.step))
            return _call(node, "cut", node.value, *bounds)
        return _call(node, "item", site, node.value, key)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """Watch an attribute that gives a name."""
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load) or node.attr not in STAYING:
            return node
        return _call(node, "attribute", node.value, ast.Constant(node.attr))

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Watch what is called, and what others call: `map(by_name, names)`, `key=ORDER.index`."""
        site = self._site(node)
        called = getattr(node.func, "id", "")
        self.generic_visit(node)
        # Without its name in the function, `super` does not find its class.
        node.func = node.func if called == "super" else _call(node.func, "called", site, node.func)
        if called in {"map", "filter"} and node.args and not isinstance(node.args[0], ast.Starred):
            # A function of the exporter's own may have such a name, and be given a class.
            method = "called" if isinstance(node.args[0], ast.Attribute) else "passed"
            node.args[0] = _call(node, method, site, node.args[0])
        for keyword in node.keywords:
            if keyword.arg == "key" and isinstance(keyword.value, (ast.Attribute, ast.Call)):
                keyword.value = _call(node, "passed", site, keyword.value)
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        """Join the parts of an f-string where marks are kept."""
        self.generic_visit(node)
        return _call(node, "joined", *node.values)

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.AST:
        """Format a part of an f-string where marks are kept."""
        self.generic_visit(node)
        spec = node.format_spec or ast.Constant("")
        return _call(node, "formatted", node.value, ast.Constant(node.conversion), spec)

    def visit_Match(self, node: ast.Match) -> ast.AST:
        """Watch the keys and the classes of patterns, which the subject is asked for."""
        head = ast.copy_location(ast.expr(), node)
        head.end_lineno, head.end_col_offset = node.subject.end_lineno, node.subject.end_col_offset
        patterns = [each for case in node.cases for each in ast.walk(case.pattern)]
        keys = [key for each in patterns for key in getattr(each, "keys", ()) if isinstance(key, ast.Constant)]
        classes = [ast.Constant(ast.unparse(each.cls)) for each in patterns if isinstance(each, ast.MatchClass)]
        site = self._site(head)
        self.generic_visit(node)
        tuples = (ast.Tuple(list(each), ast.Load()) for each in (keys, classes))
        node.subject = _call(node.subject, "matched", site, node.subject, *tuples)
        return node

    def visit_match_case(self, node: ast.match_case) -> ast.AST:
        """Watch the values of a pattern."""
        self._case = ast.copy_location(ast.expr(), node.pattern)
        self._case.col_offset = 0
        return self.generic_visit(node)

    def visit_MatchValue(self, node: ast.MatchValue) -> ast.AST:
        """Watch what is compared with a value of a pattern, which has to be an attribute of something."""
        value = _call(node, "value", self._site(self._case), node.value)
        node.value = ast.copy_location(ast.Attribute(value, "held", ast.Load()), node)
        return node

    def _visit_what_runs(self, node: ast.AST) -> ast.AST:
        """Leave annotations as they are, whose texts others read, and parts of patterns that take no calls."""
        held = vars(node)
        kept = [(name, held.pop(name)) for name in ("annotation", "returns", "cls", "keys") if name in held]
        self.generic_visit(node)
        held.update(kept)
        return node

    visit_arg = visit_AnnAssign = visit_FunctionDef = _visit_what_runs  # noqa: N815  # ast gives the names
    visit_AsyncFunctionDef = visit_MatchClass = visit_MatchMapping = _visit_what_runs  # noqa: N815

    def _site(self, node: ast.expr) -> ast.Constant:
        """Return the number of a place."""
        place = ast.copy_location(ast.expr(), node)
        SITES.append(Site(self._path, place))
        return ast.Constant(len(SITES) - 1)


def _compared(site: ast.Constant, node: ast.expr, symbol: ast.AST, left: ast.expr, right: ast.expr) -> ast.expr:
    """Return a watched operation; the node itself where its operator is not watched."""
    name = type(symbol).__name__
    return _call(node, "compare", site, ast.Constant(name), left, right) if name in OPERATORS else node


def _call(at: ast.AST, method: str, *args: ast.expr) -> ast.expr:
    """Return a call of a method of the watching object, placed where a node is."""
    made = ast.Call(ast.Attribute(ast.Name(WATCH, ast.Load()), method, ast.Load()), list(args), [])
    return ast.copy_location(made, at)
