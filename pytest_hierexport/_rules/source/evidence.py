"""What yields a name of the model: attributes, methods and identifiers that say so."""

from __future__ import annotations

import ast
import re

from pytest_hierexport._rules.source.program import identifier
from pytest_hierexport._rules.source.values import NOTHING, Kind, Value, listed, mapped, of_kind, words

__all__ = [
    "ATTRIBUTES",
    "FILE_ATTRIBUTES",
    "METHODS",
    "NODE_ATTRIBUTES",
    "from_identifier",
    "is_file",
    "of_operator",
    "parameter",
    "tokens",
]

_NAME, _MODULE, _CLASS, _NODE = (of_kind(k) for k in (Kind.NAME, Kind.MODULE, Kind.CLASS, Kind.NODE))
_NAMED_MODULES = listed(Value(fields=(_NAME, _MODULE)))
_NAMED_TENSORS = listed(Value(fields=(_NAME, NOTHING)))
_STACK = mapped(_NAME, Value(fields=(_NAME, of_kind(Kind.CLASS, Kind.NAME))))

METHODS = {
    "named_modules": _NAMED_MODULES,
    "named_children": _NAMED_MODULES,
    "named_parameters": _NAMED_TENSORS,
    "named_buffers": _NAMED_TENSORS,
    "state_dict": mapped(_NAME, NOTHING),
    "modules": listed(_MODULE),
    "children": listed(_MODULE),
    "get_submodule": _MODULE,
    "get_parameter": NOTHING,
    "get_buffer": NOTHING,
    "_get_name": of_kind(Kind.CLASS_NAME),
    "mro": listed(_CLASS),
}
"""What methods of a module or class return."""

ATTRIBUTES = {
    "__module__": of_kind(Kind.HOME),
    "__class__": _CLASS,
    "__mro__": listed(_CLASS),
    "__bases__": listed(_CLASS),
    "_modules": mapped(_NAME, _MODULE),
    "_parameters": mapped(_NAME, NOTHING),
    "_buffers": mapped(_NAME, NOTHING),
    "node": listed(_NODE),
    "nodes": listed(_NODE),
    "initializer": listed(_NODE),
    "initializers": mapped(_NAME, _NODE),
    "metadata_props": Value(items=of_kind(Kind.ENTRY), values=_NAME),
    "nn_module_stack": _STACK,
    "class_hierarchy": _NAME,
    "name_scopes": _NAME,
    "model_type": of_kind(Kind.NAME, Kind.PIECE, Kind.MODEL_TYPE),
    "architectures": listed(of_kind(Kind.CLASS_NAME)),
}
"""What attributes give, and items under such a key."""

NODE_ATTRIBUTES = {"name": _NAME, "target": _NAME, "namespace": _NAME}
"""What further attributes of a node give."""

_OF_MODEL = words("module submodule class cls layer node scope param parameter initializer weight block component")
_LOOSE = words("name path tag namespace stack qualname fqn scope")
_OTHER = words(
    "op operator type dtype kind enum domain attribute attr field mode format version file filename dir "
    "directory folder url env option opt command exporter message os sys error source config setting args "
    "kwargs input output arg function func fn method key log logger line comment doc help device backend "
    "package pkg branch host user"
)
_OPERATOR = frozenset({"op", "operator", "dtype", "domain", "opset"})
FILE_ATTRIBUTES = words(
    "stem suffix suffixes parent parents with_suffix with_name with_stem exists is_file is_dir mkdir open "
    "read_text write_text read_bytes write_bytes resolve iterdir unlink as_posix joinpath absolute expanduser"
)
"""Attributes that only the path of a file has."""
_FILE_FUNCTIONS = words("open Path PurePath fspath dirname basename splitext exists isfile isdir makedirs")
_TEXT_TYPES = frozenset({"str", "Any", "object", "Hashable", "AnyStr"})
_COLLECTIONS = words(
    "Iterable Iterator Sequence Collection Container Mapping list List tuple Tuple set Set frozenset dict Dict"
)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def tokens(name: str) -> list[str]:
    """Split an identifier in its lower-case words: the same ones for `BertLayer` and `bert_layer`."""
    return [word.lower() for word in _WORD.findall(name)]


def from_identifier(name: str, *, loose: bool = False) -> Value:
    """Return what a variable, attribute, key or function must give for its identifier.

    Args:
        name: The identifier; the last part of a dotted key.
        loose: Whether `name` and `path` alone are enough, as they are for a parameter of unknown origin.
    """
    name = name.rpartition(".")[2]
    if name in ATTRIBUTES:
        return ATTRIBUTES[name]
    parts = [word for word in tokens(name) if not word.isdecimal()]
    if not parts or (loose and not _OTHER.isdisjoint(parts)):
        return NOTHING
    *before, last = parts
    one = last.removesuffix("s") if last not in {"class", "cls"} else last
    value = _named(set(before), one, loose=loose)
    return value if one == last or value is NOTHING else listed(value)


def _named(before: set[str], last: str, *, loose: bool) -> Value:
    if before & {"class", "cls"} and last == "name":
        return of_kind(Kind.CLASS_NAME)
    if last == "fqn" or (before & _OF_MODEL and last in {"name", "path", "fqn"}):
        return _NAME
    if not loose:
        return NOTHING
    if last in _LOOSE:
        return _NAME
    kinds = {"cls": _CLASS, "klas": _CLASS, "clas": _CLASS, "class": _CLASS, "node": _NODE, "initializer": _NODE}
    return _MODULE if last in {"model", "module", "submodule", "layer"} else kinds.get(last, NOTHING)


def of_operator(name: str) -> bool:
    """Return whether an identifier says that it is an operator's or a type's name, and no module's."""
    return not _OPERATOR.isdisjoint(tokens(name))


def parameter(name: str, annotation: ast.expr | None, *, has_default: bool) -> Value:
    """Return what a parameter may be that callers outside the source pass."""
    if not _OTHER.isdisjoint(tokens(name)) and name not in ATTRIBUTES:
        return NOTHING
    if annotation is not None:
        if isinstance(annotation, ast.Constant):
            annotation = _parsed(str(annotation.value))
        return _annotated(name, annotation)
    found = from_identifier(name, loose=True)
    return of_kind(Kind.UNKNOWN) if found is NOTHING and not has_default else found


_TYPES = {
    **dict.fromkeys(("Module", "PreTrainedModel"), _MODULE),
    **dict.fromkeys(("Node", "NodeProto", "TensorProto"), _NODE),
    **dict.fromkeys(("type", "Type"), _CLASS),
}


def _annotated(name: str, annotation: ast.expr) -> Value:
    """Return what an annotation leaves room for; nothing where it is of a type that holds no text."""
    if isinstance(annotation, ast.BinOp):
        return _annotated(name, annotation.left)
    of, guess = identifier(annotation), from_identifier(name, loose=True)
    if of in _TYPES or of not in _TEXT_TYPES | _COLLECTIONS:
        return _TYPES.get(of, NOTHING)
    if of in _TEXT_TYPES:
        unknown = of_kind(Kind.UNKNOWN, *([Kind.PIECE] if of == "str" else []))
        return unknown if guess is NOTHING else guess
    inner = annotation.slice if isinstance(annotation, ast.Subscript) else None
    held = inner.elts[0] if isinstance(inner, ast.Tuple) and inner.elts else inner
    has_text = held is None or identifier(held) in _TEXT_TYPES | _COLLECTIONS
    return listed(guess.each if guess.holds else of_kind(Kind.UNKNOWN)) if has_text else NOTHING


def _parsed(annotation: str) -> ast.expr:
    try:
        return ast.parse(annotation, mode="eval").body
    except SyntaxError:
        return ast.Constant(None)


def is_file(name: str, function: ast.AST) -> bool:
    """Return whether a function uses one of its variables as the path of a file."""

    def is_it(node: ast.AST) -> bool:
        return isinstance(node, ast.Name) and node.id == name

    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and node.attr in FILE_ATTRIBUTES and is_it(node.value):
            return True
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and is_it(node.left):
            return True
        if isinstance(node, ast.Call) and identifier(node.func) in _FILE_FUNCTIONS and any(map(is_it, node.args)):
            return True
    return False
