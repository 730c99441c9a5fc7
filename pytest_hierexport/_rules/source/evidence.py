"""What yields a name of the model: attributes, methods, keys and identifiers that say so."""

from __future__ import annotations

import ast
import re

from pytest_hierexport._rules.source import fact
from pytest_hierexport._rules.source.fact import NOTHING, VALUE, Facts, Kind

NAME, CLASS_NAME, CLASS, _NODE = (fact.of(kind) for kind in (Kind.NAME, Kind.CLASS_NAME, Kind.CLASS, Kind.NODE))


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _named(names: str, facts: Facts) -> dict[str, Facts]:
    return dict.fromkeys(names.split(), facts)


_ORIGINS = fact.mapped(NOTHING, fact.listed(fact.below("call", NAME)))
METHODS = {
    **_named("named_modules named_children named_parameters named_buffers", fact.listed(NAME, NOTHING)),
    "state_dict": fact.mapped(NAME, NOTHING),
    "_get_name": CLASS_NAME,
    "scopeName": NAME,
    "mro": fact.listed(CLASS),
    "lineage": fact.listed(NAME),
}
"""What methods of a module, of a class, of a node of TorchScript or of a hierarchy return."""
ATTRIBUTES = {
    "__module__": fact.of(Kind.HOME),
    "__class__": CLASS,
    **_named("__mro__ __bases__", fact.listed(CLASS)),
    **_named("_modules _parameters _buffers", fact.mapped(NAME, NOTHING)),
    **_named("node nodes initializer", fact.listed(_NODE)),
    "initializers": fact.mapped(NAME, _NODE),
    # What `torch.export` takes as inputs.
    "input_specs": fact.listed(fact.below("target", NAME)),
    **_named("inputs_to_parameters inputs_to_buffers", fact.mapped(NOTHING, NAME)),
    "metadata_props": fact.below(VALUE, NAME),
    "nn_module_stack": fact.mapped(NAME, fact.below(0, NAME) | fact.below(1, CLASS | NAME)),
    **_named("class_hierarchy name_scopes", NAME),
    "attribution": fact.join(fact.below(each, _ORIGINS) for each in ("nodes", "initializers")),
    **_named("model_type name_or_path _name_or_path", fact.of(Kind.NAME, Kind.PIECE, Kind.MODEL_TYPE)),
    **_named("architectures _no_split_modules", fact.listed(CLASS_NAME)),
}
"""What attributes give, and items under such a key."""
OF_NODE = frozenset({"name", "target", "namespace", "doc_string"})
_OF_MODEL = _words("""
    module submodule class cls layer node scope param parameter initializer weight block
""")
# What a parameter of unknown origin is for its last word alone, if it has none of the words below.
_LOOSE = {
    **_named("name path tag namespace stack qualname fqn scope", NAME),
    **_named("class cls klass", CLASS),
    **_named("node initializer", _NODE),
}
_OTHER = _words("""
    op operator type dtype kind enum domain attribute attr field mode format version file filename dir directory
    folder url env option opt command exporter message os sys error source config setting args kwargs input output
    arg function func fn method key log logger line comment doc help device backend package pkg branch host user
""")


def tokens(name: str) -> list[str]:
    """Split an identifier in its lower-case words: the same ones for `BertLayer` and `bert_layer`."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)]


def last_name(node: ast.AST | None) -> str:
    """Return the last identifier of an expression: `c` of `a.b.c`, `a.c()` and `c[0]`."""
    while isinstance(node, (ast.Call, ast.Subscript)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


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
        found = CLASS_NAME
    elif one == "fqn" or (one in {"name", "path"} and _OF_MODEL.intersection(before)):
        found = NAME
    elif loose and not _OTHER.intersection(words):
        found = _LOOSE.get(one, NOTHING)
    return found if one == last else fact.listed(found)


def of_parameter(arg: ast.arg) -> Facts:
    """Return what a parameter may be that callers outside the source pass."""
    annotated = "" if arg.annotation is None else ast.unparse(arg.annotation)
    if annotated and (re.search(r"\bCallable\b", annotated) or not re.search(r"\b(str|Any|object)\b", annotated)):
        return _NODE if re.search(r"\b(Node|NodeProto|TensorProto)\b", annotated) else NOTHING
    return from_identifier(arg.arg, loose=True)
