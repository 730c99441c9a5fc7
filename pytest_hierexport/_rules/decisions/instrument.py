"""Replaces comparisons, lookups and searches in functions by calls that watch them.

    before                                after (the numbers are those of the sites)
    if path.startswith(PREFIX):           if watch.called(7, path.startswith)(PREFIX):
    return name in TABLE                  return watch.operate(8, "In", name, TABLE)
    config.model_type                     watch.operate(9, "Attribute", config, "model_type")
    case "encoder":                       case watch.value(10, "encoder").held:

Live functions get the code that their own source then compiles to. So modules are not imported again: what they have
registered, and the classes that they have defined, stay the same.
"""

from __future__ import annotations

import ast
import gc
import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from pytest_hierexport._errors import UsageError
from pytest_hierexport._rules.decisions.operations import OPERATIONS, STAYING, WATCH
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
    with ExitStack() as before:
        for function in live_functions():
            code = function.__code__
            found = codes.get(resolved(code.co_filename))
            new = None if found is None or function in without else found.instrumented.get(code)
            if new is not None and new.co_freevars == code.co_freevars:
                before.callback(setattr, function, "__code__", code)
                function.__code__ = new
        yield


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
        self.instrumented = dict(_pairs(old, new_code))
        """The instrumented code of each function, by its code."""


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
    """Replaces what may decide by calls of the watching object, what is within a node before the node."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def visit(self, node: ast.AST) -> Any:
        """Return what a node is replaced by: not annotations, whose texts others read, nor what takes no calls."""
        left = ("keys",) if isinstance(node, ast.MatchMapping) else ("annotation", "returns", "cls")
        kept = {name: vars(node).pop(name) for name in left if name in vars(node)}
        self.generic_visit(node)
        vars(node).update(kept)
        return getattr(self, f"visit_{type(node).__name__}", lambda same: same)(node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """Watch a comparison of two values."""
        return node if len(node.ops) > 1 else self._operation(node, node.ops[0], node.left, node.comparators[0])

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """Watch what may be an intersection or a difference of sets, or a text that is written."""
        return self._operation(node, node.op, node.left, node.right)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """Watch a lookup, and a text that is cut."""
        return self._operation(node, node, node.value, node.slice) if isinstance(node.ctx, ast.Load) else node

    def visit_Slice(self, node: ast.Slice) -> ast.AST:
        """Make a slice a value as any other."""
        return self._operation(
            node, node, *(each or ast.Constant(None) for each in (node.lower, node.upper, node.step))
        )

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """Watch an attribute that gives a name."""
        is_watched = node.attr in STAYING and isinstance(node.ctx, ast.Load)
        return self._operation(node, node, node.value, ast.Constant(node.attr)) if is_watched else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Watch what is called, and what others call: `map(by_name, names)`, `key=ORDER.index`."""
        called = getattr(node.func, "id", "")
        # Without its name in the function, `super` does not find its class.
        node.func = node.func if called == "super" else self._call("called", node, node.func)
        if called in {"map", "filter"} and node.args and not isinstance(node.args[0], ast.Starred):
            node.args[0] = self._call("passed", node, node.args[0])
        for keyword in node.keywords:
            if keyword.arg == "key" and isinstance(keyword.value, (ast.Attribute, ast.Call)):
                keyword.value = self._call("passed", node, keyword.value)
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        """Watch the text of an f-string, of its parts."""
        return self._operation(node, node, ast.List(node.values, ast.Load()))

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.AST:
        """Watch a part of an f-string, but in columns or quotes."""
        symbol = {-1: "Format", ord("s"): "Str"}.get(node.conversion)
        is_plain = symbol is not None and node.format_spec is None
        return self._call("operate", node, ast.Constant(symbol), node.value) if is_plain else ast.JoinedStr([node])

    def visit_Match(self, node: ast.Match) -> ast.AST:
        """Watch the keys and the classes of patterns, which the subject is asked for."""
        patterns = [each for case in node.cases for each in ast.walk(case.pattern)]
        keys = [key for each in patterns for key in getattr(each, "keys", ()) if isinstance(key, ast.Constant)]
        classes = [ast.Constant(ast.unparse(each.cls)) for each in patterns if isinstance(each, ast.MatchClass)]
        tuples = (ast.Tuple(list(each), ast.Load()) for each in (keys, classes))
        node.subject = self._operation(_line_of(node.subject), node, node.subject, *tuples)
        return node

    def visit_match_case(self, node: ast.match_case) -> ast.AST:
        """Watch what is compared with a value of a pattern, which has to be an attribute of something."""
        for each in ast.walk(node.pattern):
            if isinstance(each, ast.MatchValue):
                value = self._call("value", _line_of(node.pattern), each.value)
                each.value = ast.Attribute(value, "held", ast.Load())
        return node

    def _operation(self, at: ast.expr, symbol: ast.AST, *operands: ast.expr) -> ast.expr:
        """Return a watched operation; the node itself where it is not watched."""
        name = type(symbol).__name__
        return self._call("operate", at, ast.Constant(name), *operands) if name in OPERATIONS else at

    def _call(self, method: str, at: ast.expr, *args: ast.expr) -> ast.expr:
        """Return a call of a method of the watching object for a place, and put it there."""
        SITES.append(Site(self._path, ast.copy_location(ast.expr(), at)))
        function = ast.Attribute(ast.Name(WATCH, ast.Load()), method, ast.Load())
        return ast.copy_location(ast.Call(function, [ast.Constant(len(SITES) - 1), *args], []), at)


def _line_of(part: ast.expr | ast.pattern) -> ast.expr:
    """Return the place of a part of a statement, from the begin of its line."""
    place = ast.copy_location(ast.expr(), part)
    place.col_offset = 0
    return place
