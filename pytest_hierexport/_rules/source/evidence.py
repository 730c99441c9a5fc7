"""What yields a name of the model: attributes, methods, keys and identifiers that say so."""

from __future__ import annotations

import ast
import re
from collections.abc import Hashable

from pytest_hierexport._rules.source.program import identifier
from pytest_hierexport._rules.source.values import ITEM, NOTHING, VALUE, Kind, Role, Thing, Value

__all__ = ["ATTRIBUTES", "METHODS", "OF_FILES", "from_identifier", "of_attribute", "parameter", "tokens"]


def _tuple(*fields: Value) -> Value:
    return Value.of(Thing(Role.COLLECTION, "", dict(enumerate(fields))))


def _list(item: Value) -> Value:
    return Value.of(Thing(Role.COLLECTION, "", {ITEM: item}))


def _map(key: Value, value: Value) -> Value:
    return Value.of(Thing(Role.COLLECTION, "", {ITEM: key, VALUE: value}))


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _named(names: str, value: Value) -> dict[str, Value]:
    return dict.fromkeys(names.split(), value)


_NAME, _CLASS_NAME, _HOME = Value.of(Kind.NAME), Value.of(Kind.CLASS_NAME), Value.of(Kind.HOME)
_MODULE, _CLASS, _NODE = Value.of(Kind.MODULE), Value.of(Kind.CLASS), Value.of(Kind.NODE)
_LIKELY, _UNKNOWN, _TEXT = Value.of(Kind.LIKELY_MODULE), Value.of(Kind.UNKNOWN), Value.of(Kind.UNKNOWN, Kind.PIECE)


def _fields(**fields: Value) -> Value:
    return Value.of(Thing(Role.COLLECTION, "", dict[Hashable, Value](fields.items())))


# The results of this package, which an exporter of a project's own changes.
_CALL = _fields(path=_NAME, name=_NAME, parent=_NAME, class_name=_CLASS_NAME, cls=_CLASS_NAME)
_ORIGIN = _fields(call=_NAME)
_ORIGINS = _map(_TEXT, _list(_ORIGIN))
_HIERARCHY = _map(_NAME, _CALL)
_ATTRIBUTION = _fields(hierarchy=_HIERARCHY, nodes=_ORIGINS, initializers=_map(_NAME, _list(_ORIGIN)))

METHODS = {
    **_named("named_modules named_children", _list(_tuple(_NAME, _MODULE))),
    **_named("named_parameters named_buffers", _list(_tuple(_NAME, NOTHING))),
    **_named("modules children", _list(_MODULE)),
    **_named("get_parameter get_buffer", NOTHING),
    "state_dict": _map(_NAME, NOTHING),
    "get_submodule": _MODULE,
    "_get_name": _CLASS_NAME,
    "scopeName": _NAME,
    "mro": _list(_CLASS),
    "lineage": _list(_NAME),
}
"""What methods of a module, of a class or of a node of TorchScript return."""
ATTRIBUTES = {
    "__module__": _HOME,
    "__class__": _CLASS,
    **_named("__mro__ __bases__", _list(_CLASS)),
    "_modules": _map(_NAME, _MODULE),
    **_named("_parameters _buffers", _map(_NAME, NOTHING)),
    "attribution": _ATTRIBUTION,
    **_named("node nodes initializer", _list(_NODE)),
    "initializers": _map(_NAME, _NODE),
    "metadata_props": _map(Value.of(Kind.ENTRY), _NAME),
    "nn_module_stack": _map(_NAME, _tuple(_NAME, Value.of(Kind.CLASS, Kind.NAME))),
    **_named("class_hierarchy name_scopes base_model_prefix", _NAME),
    **_named("model_type name_or_path _name_or_path", Value.of(Kind.NAME, Kind.PIECE, Kind.MODEL_TYPE)),
    **_named("architectures _no_split_modules", _list(_CLASS_NAME)),
}
"""What attributes give, and items under such a key."""
# The inputs of a node are names of parameters, or of what operators return.
_NODE_ATTRIBUTES = {**_named("name target namespace doc_string", _NAME), "input": _list(_TEXT)}
_TEXTS = frozenset({"str", "Any", "object", "Hashable"})
_COLLECTIONS = re.compile(r"(?i)iterable|iterator|sequence|collection|container|mapping|list|tuple|set|dict|frozenset")
_TYPES = {
    **_named("Module PreTrainedModel GraphModule", _LIKELY),
    **_named("Node NodeProto TensorProto", _NODE),
    **_named("type Type", _CLASS),
    "Attribution": _ATTRIBUTION,
    "Hierarchy": _HIERARCHY,
    "Call": _CALL,
    "Origin": _ORIGIN,
}
_OF_MODEL = _words("module submodule class cls layer node scope param parameter initializer weight block component")
# What a parameter of unknown origin is for its last word alone, if it has none of the words below.
_LOOSE = {
    **_named("name path tag namespace stack qualname fqn scope", _NAME),
    **_named("model module submodule layer", _LIKELY),
    **_named("class cls klass", _CLASS),
    **_named("node initializer", _NODE),
}
_OTHER = _words("""
    op operator type dtype kind enum domain attribute attr field mode format version file filename dir directory folder
    url env option opt command exporter message os sys error source config setting args kwargs input output arg function
    func fn method key log logger line comment doc help device backend package pkg branch host user
""")
OF_FILES = _words("""
    stem suffix suffixes parent parents with_suffix with_name with_stem exists is_file is_dir mkdir open read_text
    write_text read_bytes write_bytes resolve iterdir unlink as_posix joinpath absolute expanduser Path PurePath fspath
    dirname basename splitext isfile isdir makedirs
""")
"""What is asked of the path of a file alone."""
_LISTS = {value: _list(value) for value in (_NAME, _CLASS_NAME, *_LOOSE.values())}


def tokens(name: str) -> list[str]:
    """Split an identifier in its lower-case words: the same ones for `BertLayer` and `bert_layer`."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)]


def of_attribute(base: Value, attr: str) -> Value | None:
    """Return what an attribute must be, whatever is asked for it; None if only the object can tell."""
    if attr in ATTRIBUTES:
        return ATTRIBUTES[attr]
    if Kind.NODE in base.kinds and attr in _NODE_ATTRIBUTES:
        return _NODE_ATTRIBUTES[attr]
    return (_UNKNOWN if attr == "value" else NOTHING) if Kind.ENTRY in base.kinds else None


def from_identifier(name: str, *, loose: bool = False) -> Value:
    """Return what a variable, attribute, key or function must give for its identifier.

    Args:
        name: The identifier; the last part of a dotted key.
        loose: Whether `name` and `path` alone are enough, as they are for a parameter of unknown origin.
    """
    name = name.rpartition(".")[2]
    words = [word for word in tokens(name) if not word.isdecimal()]
    if name in ATTRIBUTES or not words:
        return ATTRIBUTES.get(name, NOTHING)
    *before, last = words
    one = last if last == "class" else last.removesuffix("s")
    if one == "name" and {"class", "cls"}.intersection(before):
        found = _CLASS_NAME
    elif one == "fqn" or (one in {"name", "path"} and _OF_MODEL.intersection(before)):
        found = _NAME
    else:
        found = _LOOSE.get(one, NOTHING) if loose and not _OTHER.intersection(words) else NOTHING
    return _LISTS[found] if found and one != last else found


def parameter(arg: ast.arg, function: ast.AST, *, has_default: bool) -> Value:
    """Return what a parameter may be that callers outside the source pass."""
    if arg.arg not in ATTRIBUTES and (_OTHER.intersection(tokens(arg.arg)) or _is_file(arg.arg, function)):
        return NOTHING
    found = from_identifier(arg.arg, loose=True)
    if arg.annotation is not None:
        return _annotated(arg.annotation, found)
    return found or (NOTHING if has_default else _UNKNOWN)


def _annotated(annotation: ast.expr, found: Value) -> Value:
    """Return what an annotation leaves room for; nothing where it is of a type that holds no text."""
    if isinstance(annotation, ast.Constant):
        try:
            annotation = ast.parse(str(annotation.value), mode="eval").body
        except SyntaxError:
            return NOTHING
    if isinstance(annotation, ast.BinOp):
        annotation = annotation.left
    of, inner = identifier(annotation), getattr(annotation, "slice", None)
    if of in _TEXTS:
        return found or (_TEXT if of == "str" else _UNKNOWN)
    if of == "Optional" and inner is not None:
        return _annotated(inner, found)
    if not _COLLECTIONS.fullmatch(of):
        return _TYPES.get(of, NOTHING)
    held = inner.elts[0] if isinstance(inner, ast.Tuple) and inner.elts else inner
    return _list(found.each or _UNKNOWN) if held is None or identifier(held) in _TEXTS else NOTHING


def _is_file(name: str, function: ast.AST) -> bool:
    """Return whether a function uses one of its variables as the path of a file."""

    def used(node: ast.AST) -> list[ast.expr]:
        if isinstance(node, ast.Attribute):
            return [node.value] if node.attr in OF_FILES else []
        if isinstance(node, ast.Call):
            return node.args if identifier(node.func) in OF_FILES else []
        return [node.left] if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) else []

    return any(isinstance(e, ast.Name) and e.id == name for node in ast.walk(function) for e in used(node))
