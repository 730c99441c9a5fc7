"""What an annotation says of a value: whether it may hold text, and of which class of the source it is."""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Iterator

from pytest_hierexport._rules.source.expressions import evaluate
from pytest_hierexport._rules.source.references import Class, Imported, Instance
from pytest_hierexport._rules.source.state import Frame
from pytest_hierexport._rules.source.values import Value

__all__ = ["declared", "is_container", "may_hold_text"]

_TEXT = frozenset({"str", "Any", "object", "Hashable", "AnyStr", "Text"})
_CONTAINERS = frozenset(
    {
        *("Iterable", "Iterator", "Generator", "Sequence", "Collection", "Container", "Mapping", "MutableMapping"),
        *("list", "List", "tuple", "Tuple", "set", "Set", "frozenset", "dict", "Dict", "deque", "AbstractSet"),
    }
)
_ANYTHING = _TEXT | _CONTAINERS
# Where Python keeps what holds anything.
_OF_ANYTHING = {"builtins", "collections", "typing", "types"}


def may_hold_text(annotation: ast.expr | None) -> bool:
    """Whether an annotation leaves room for text: `Any`, `str`, `list`, `dict[str, int]`, and no annotation at all."""
    if annotation is None:
        return True
    annotation = _parsed(annotation)
    if isinstance(annotation, ast.Subscript) and _last(annotation.value) in _CONTAINERS:
        return any(may_hold_text(part) for part in _parts(annotation.slice))
    if isinstance(annotation, ast.BinOp):
        return may_hold_text(annotation.left) or may_hold_text(annotation.right)
    if isinstance(annotation, ast.Subscript):
        return _last(annotation.value) in ("Optional", "Union") and any(map(may_hold_text, _parts(annotation.slice)))
    return _last(annotation) in _ANYTHING


def is_container(annotation: ast.expr | None) -> bool:
    """Whether an annotation is that of a list, set, mapping or the like."""
    if annotation is None:
        return False
    annotation = _parsed(annotation)
    return _last(annotation.value if isinstance(annotation, ast.Subscript) else annotation) in _CONTAINERS


def _parsed(annotation: ast.expr) -> ast.expr:
    """Return an annotation that is written as text as the expression that it is."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        try:
            return ast.parse(annotation.value, mode="eval").body
        except SyntaxError:
            return annotation
    return annotation


def declared(annotation: ast.expr | None, frame: Frame) -> Value:
    """Return what a value annotated so is: an object of a class of the source, or of one of Python's own."""
    classes = _classes(annotation) if annotation is not None else ()
    found = [reference for cls in classes for reference in evaluate(cls, frame).references]
    apart = any(isinstance(r, Imported) and _is_of_python(r.dotted) for r in found)
    return Value(apart=apart, references=frozenset(Instance(r.number) for r in found if isinstance(r, Class)))


def _classes(annotation: ast.expr) -> Iterator[ast.expr]:
    """Yield the expressions of the classes that a value may be of; items of containers are left out."""
    annotation = _parsed(annotation)
    if isinstance(annotation, ast.BinOp):
        yield from _classes(annotation.left)
        yield from _classes(annotation.right)
    elif isinstance(annotation, (ast.Name, ast.Attribute)):
        yield annotation


def _is_of_python(dotted: str) -> bool:
    """Whether a class is an exception, or of a module of Python's own, and so no part of a model."""
    home, _, last = dotted.rpartition(".")
    cls = getattr(builtins, last, None)
    if isinstance(cls, type) and issubclass(cls, BaseException):
        return True
    return home.partition(".")[0] in sys.stdlib_module_names - _OF_ANYTHING


def _parts(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, ast.Tuple) else [node]


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
