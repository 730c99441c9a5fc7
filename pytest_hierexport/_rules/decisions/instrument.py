"""Replaces comparisons, lookups and searches in functions by calls that watch them.

    before                                after
    if path.startswith(PREFIX):           if watch.called(path.startswith)(PREFIX):
    return name in TABLE                  return watch.operate("In", name, TABLE)
    config.model_type                     watch.operate("Attribute", config, "model_type")
    case "encoder":                       case watch.value("encoder").held:

Live functions get the code that their own source then compiles to. So modules are not imported again: what they have
registered, and the classes that they have defined, stay the same. The calls are where the source has what they replace.
"""

from __future__ import annotations

import ast
import gc
import re
import warnings
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import ExitStack, contextmanager, suppress
from functools import lru_cache
from operator import attrgetter
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from pytest_hierexport._errors import UsageError
from pytest_hierexport._rules.decisions.deciding import STAYING
from pytest_hierexport._rules.decisions.operations import OPERATIONS, WATCH
from pytest_hierexport._rules.decisions.source import resolved


@contextmanager
def instrumented(codes: Mapping[Path, Code], without: AbstractSet[CodeType] = frozenset()) -> Iterator[None]:
    """Instrument the functions of some files, `without` those of some code, while the context lasts."""
    with ExitStack() as before:
        for function in live_functions():
            code = function.__code__
            found = codes.get(resolved(code.co_filename))
            if found is not None and code not in without and (new := found.instrumented.get(code)) is not None:
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
            """The texts that the source writes as one: `"query key".split()`, `"query, key"`."""
            new = ast.fix_missing_locations(_Rewriter().visit(tree))
            self.module, watched = (compile(each, str(path), "exec", dont_inherit=True) for each in (source, new))
        others = nested(watched)
        # Python leaves out what comes after a constant condition that is false, but not after a watched one.
        self.instrumented = {c: next((o for o in others if _place(o) == _place(c)), None) for c in nested(self.module)}
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
_CALLERS = {"map", "filter", "filterfalse", "starmap", "takewhile", "dropwhile"}
_BETWEEN = re.compile(r"[,;:=\n\"'{}\[\]]")
"""What is between names in a list, in JSON, YAML or TOML, and in `package.module:Class`."""
_OF_SENTENCES = re.compile(r"[^-\w.]")
_place = attrgetter("co_name", "co_firstlineno", "co_freevars")


def _split(tree: ast.AST) -> Iterator[str]:
    """Yield the parts of texts that the source splits, and the names in texts that hold names and no sentences."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "split":
            with suppress(ValueError, TypeError):
                text, *by = (ast.literal_eval(each) for each in (node.func.value, *node.args))
                yield from map(str.strip, str.split(text, *by))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            pieces = [piece.strip("- \t\r") for piece in _BETWEEN.split(node.value)]
            if not any(map(_OF_SENTENCES.search, pieces)):
                yield from pieces
                yield from (last for piece in pieces if (last := piece.rpartition(".")[2])[:1].isupper())


def nested(code: CodeType, without: AbstractSet[str] = frozenset()) -> Iterator[CodeType]:
    """Yield some code and all code within it, `without` that of classes and functions of some names."""
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType) and const.co_name not in without:
            yield from nested(const, without)


class _Rewriter(ast.NodeTransformer):
    """Replaces each operation that may decide by a call of the watching object, inner nodes first."""

    def visit(self, node: ast.AST) -> Any:
        """Return a node's replacement; annotations stay, whose text others read, and patterns, which take no calls."""
        left = {each: vars(node).pop(each) for each in {"annotation", "returns", "pattern"} & vars(node).keys()}
        self.generic_visit(node)
        vars(node).update(left)
        return getattr(self, f"visit_{type(node).__name__}", self._operation)(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """Watch an attribute that gives a name."""
        return self._operation(node) if node.attr in STAYING else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Watch what is called, and what others call: `map(by_name, names)`, `key=ORDER.index`."""
        passes = getattr(node.func, "id", getattr(node.func, "attr", "")) in _CALLERS
        if passes and node.args and not isinstance(node.args[0], ast.Starred):
            node.args[0] = _call("passed", node, node.args[0])
        node.func = _call("called", node, node.func)
        for keyword in node.keywords:
            if keyword.arg == "key" and isinstance(keyword.value, (ast.Attribute, ast.Call)):
                keyword.value = _call("passed", node, keyword.value)
        return node

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.AST:
        """Watch a part of an f-string that has no format (`:>10`) and no conversion (`!r`)."""
        is_plain = node.conversion in {-1, ord("s")} and node.format_spec is None
        return self._operation(node) if is_plain else ast.JoinedStr([node])

    def visit_Match(self, node: ast.Match) -> ast.AST:
        """Watch the keys and the classes of patterns, which the subject is asked for, and what values are compared."""
        patterns: list[Any] = [each for case in node.cases for each in ast.walk(case.pattern)]
        keys = [key for each in patterns for key in getattr(each, "keys", ()) if isinstance(key, ast.Constant)]
        classes = [ast.Constant(ast.unparse(each.cls)) for each in patterns if isinstance(each, ast.MatchClass)]
        tuples = (ast.Tuple(list(each), ast.Load()) for each in (keys, classes))
        for each in (node.subject, *patterns):
            each.col_offset = 0  # the word before it is shown as well
        node.subject = _call("operate", node.subject, ast.Constant("Match"), node.subject, *tuples)
        for each in patterns:
            if isinstance(each, ast.MatchValue):  # which takes constants and attributes alone
                each.value = ast.Attribute(_call("value", each, each.value), "held", ast.Load())
        return node

    @staticmethod
    def _operation(node: ast.AST) -> ast.AST:
        """Return a watched operation on what a node has in its fields; the node itself where it is not watched."""
        fields = dict(ast.iter_fields(node))
        symbol, *others = fields.pop("ops", None) or (fields.pop("op", node),)
        name, context = type(symbol).__name__, fields.pop("ctx", None)
        is_read = context is None or isinstance(context, ast.Load)
        if not isinstance(node, ast.expr) or name not in OPERATIONS or others or not is_read:
            return node
        held = [each for field in fields.values() for each in (field if isinstance(field, list) else [field])]
        operands = (each if isinstance(each, ast.expr) else ast.Constant(each) for each in held)
        return _call("operate", node, ast.Constant(name), *operands)


def _call(method: str, at: ast.expr | ast.pattern, *args: ast.expr) -> ast.expr:
    """Return a call of a method of the watching object at a place."""
    return ast.copy_location(ast.Call(ast.Attribute(ast.Name(WATCH, ast.Load()), method, ast.Load()), [*args], []), at)
