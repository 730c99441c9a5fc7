"""What yields a name of the model: attributes, methods, keys and identifiers that say so."""

from __future__ import annotations

import ast
import re

from pytest_hierexport._rules.source import fact
from pytest_hierexport._rules.source.fact import ITEM, NOTHING, VALUE, Facts, Kind
from pytest_hierexport._rules.source.program import last_name


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _map(key: Facts, value: Facts) -> Facts:
    return fact.below(ITEM, key) | fact.below(VALUE, value)


def _fields(**fields: Facts) -> Facts:
    return fact.join(fact.below(name, facts) for name, facts in fields.items())


def _named(names: str, facts: Facts) -> dict[str, Facts]:
    return dict.fromkeys(names.split(), facts)


_NAME, _CLASS_NAME, _CLASS, _NODE = (fact.of(kind) for kind in (Kind.NAME, Kind.CLASS_NAME, Kind.CLASS, Kind.NODE))
_MODULE, _LIKELY, _UNKNOWN, _TEXT = (
    fact.of(Kind.MODULE),
    fact.of(Kind.LIKELY_MODULE),
    fact.of(Kind.UNKNOWN),
    fact.of(Kind.UNKNOWN, Kind.PIECE),
)
# The results of this package, which an exporter of a project's own changes.
_CALL = _fields(path=_NAME, name=_NAME, parent=_NAME, class_name=_CLASS_NAME, cls=_CLASS_NAME)
_ORIGIN = _fields(call=_NAME)
_HIERARCHY = _map(_NAME, _CALL)
_ATTRIBUTION = _fields(
    hierarchy=_HIERARCHY, nodes=_map(_TEXT, fact.listed(_ORIGIN)), initializers=_map(_NAME, fact.listed(_ORIGIN))
)
METHODS = {
    **_named("named_modules named_children", fact.listed(_NAME, _MODULE)),
    **_named("named_parameters named_buffers", fact.listed(_NAME, NOTHING)),
    **_named("modules children", fact.listed(_MODULE)),
    **_named("get_parameter get_buffer", NOTHING),
    "state_dict": _map(_NAME, NOTHING),
    "get_submodule": _MODULE,
    "_get_name": _CLASS_NAME,
    "scopeName": _NAME,
    "mro": fact.listed(_CLASS),
    "lineage": fact.listed(_NAME),
}
"""What methods of a module, of a class or of a node of TorchScript return."""
ATTRIBUTES = {
    "__module__": fact.of(Kind.HOME),
    "__class__": _CLASS,
    **_named("__mro__ __bases__", fact.listed(_CLASS)),
    "_modules": _map(_NAME, _MODULE),
    **_named("_parameters _buffers", _map(_NAME, NOTHING)),
    "attribution": _ATTRIBUTION,
    **_named("node nodes initializer", fact.listed(_NODE)),
    "initializers": _map(_NAME, _NODE),
    # What `torch.export` takes as inputs.
    "input_specs": fact.listed(_fields(target=_NAME)),
    **_named("inputs_to_parameters inputs_to_buffers", _map(NOTHING, _NAME)),
    "metadata_props": fact.listed(_fields(value=_UNKNOWN, key=NOTHING)) | fact.below(VALUE, _NAME),
    "nn_module_stack": _map(_NAME, fact.below(0, _NAME) | fact.below(1, _CLASS | _NAME)),
    **_named("class_hierarchy name_scopes base_model_prefix", _NAME),
    **_named("model_type name_or_path _name_or_path", fact.of(Kind.NAME, Kind.PIECE, Kind.MODEL_TYPE)),
    **_named("architectures _no_split_modules", fact.listed(_CLASS_NAME)),
}
"""What attributes give, and items under such a key."""
# The inputs of a node are names of parameters, or of what operators return.
NODE_ATTRIBUTES = {**_named("name target namespace doc_string", _NAME), "input": fact.listed(_TEXT)}
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
_OF_MODEL = _words("""
    module submodule class cls layer node scope param parameter initializer weight block component
""")
# What a parameter of unknown origin is for its last word alone, if it has none of the words below.
_LOOSE = {
    **_named("name path tag namespace stack qualname fqn scope", _NAME),
    **_named("model module submodule layer", _LIKELY),
    **_named("class cls klass", _CLASS),
    **_named("node initializer", _NODE),
}
_OTHER = _words("""
    op operator type dtype kind enum domain attribute attr field mode format version file filename dir directory
    folder url env option opt command exporter message os sys error source config setting args kwargs input
    output arg function func fn method key log logger line comment doc help device backend package pkg branch
    host user
""")
OF_FILES = _words("""
    stem suffix suffixes parent parents with_suffix with_name with_stem exists is_file is_dir mkdir open
    read_text write_text read_bytes write_bytes resolve iterdir unlink as_posix joinpath absolute expanduser
    Path PurePath fspath dirname basename splitext isfile isdir makedirs
""")
"""What is asked of the path of a file alone."""


def tokens(name: str) -> list[str]:
    """Split an identifier in its lower-case words: the same ones for `BertLayer` and `bert_layer`."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)]


def from_identifier(name: str, *, loose: bool = False) -> Facts:
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
    found = NOTHING
    if one == "name" and {"class", "cls"}.intersection(before):
        found = _CLASS_NAME
    elif one == "fqn" or (one in {"name", "path"} and _OF_MODEL.intersection(before)):
        found = _NAME
    elif loose and not _OTHER.intersection(words):
        found = _LOOSE.get(one, NOTHING)
    return found if one == last else fact.listed(found)


def of_parameter(arg: ast.arg, function: ast.AST, *, has_default: bool) -> Facts:
    """Return what a parameter may be that callers outside the source pass."""
    if arg.arg not in ATTRIBUTES and (_OTHER.intersection(tokens(arg.arg)) or _is_file(arg.arg, function)):
        return NOTHING
    found = from_identifier(arg.arg, loose=True)
    if arg.annotation is not None:
        return _annotated(arg.annotation, found)
    return found or (NOTHING if has_default else _UNKNOWN)


def _annotated(annotation: ast.expr, found: Facts) -> Facts:
    """Return what an annotation leaves room for; nothing where it is of a type that holds no text."""
    words = re.findall(r"\w+", ast.unparse(annotation))
    if "Callable" in words or not _TEXTS.intersection(words):
        return fact.join(_TYPES.get(word, NOTHING) for word in words)
    unknown = fact.listed(_UNKNOWN) if any(map(_COLLECTIONS.fullmatch, words)) else _UNKNOWN
    return found or (_TEXT if words == ["str"] else unknown)


def _is_file(name: str, function: ast.AST) -> bool:
    """Return whether a function uses one of its variables as the path of a file."""

    def used(node: ast.AST) -> list[ast.expr]:
        if isinstance(node, ast.Attribute):
            return [node.value] if node.attr in OF_FILES else []
        if isinstance(node, ast.Call):
            return node.args if last_name(node.func) in OF_FILES else []
        return [node.left] if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) else []

    return any(isinstance(e, ast.Name) and e.id == name for node in ast.walk(function) for e in used(node))
