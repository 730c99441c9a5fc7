"""What yields a name of the model: the attributes, methods and identifiers from which the analysis starts."""

from __future__ import annotations

import re

from pytest_hierexport._rules.source.references import Imported
from pytest_hierexport._rules.source.values import NAME, NOTHING, Value, collection, mapping, pair, refers

__all__ = ["ATTRIBUTES", "ENTRY", "METHODS", "WORD", "is_other", "is_subject", "tokens"]

_MODULE = Value(module=True)

ENTRY = Imported("onnx.StringStringEntryProto")
"""A metadata entry: exporters write scopes there."""

METHODS = {
    "named_modules": collection(pair(NAME, _MODULE)),
    "named_children": collection(pair(NAME, _MODULE)),
    "named_parameters": collection(pair(NAME, NOTHING)),
    "named_buffers": collection(pair(NAME, NOTHING)),
    "state_dict": mapping(NAME, NOTHING),
    "modules": collection(_MODULE),
    "children": collection(_MODULE),
    "get_submodule": _MODULE,
    "_get_name": NAME,
}
"""What the methods of a module give, by method."""

ATTRIBUTES = {
    "__name__": NAME,
    "__qualname__": NAME,
    "__module__": NAME,
    "__class__": Value(type=True),
    "_modules": mapping(NAME, _MODULE),
    "_parameters": mapping(NAME, NOTHING),
    "_buffers": mapping(NAME, NOTHING),
    "metadata_props": collection(refers(ENTRY)),
    "attribute": collection(Value(apart=True)),
    "attributes": mapping(Value(apart=True), Value(apart=True)),
    "parameters": mapping(Value(apart=True), Value(apart=True)),
    "opset_import": collection(Value(apart=True)),
}
"""What attributes give, by attribute."""

_SUBJECTS = frozenset(
    {"name", "path", "scope", "tag", "fqn", "qualname", "namespace", "stack", "class", "cls", "klass"}
)
# What such an identifier is about, where it is not about the model's modules and nodes.
_OTHERS = frozenset(
    {
        *(
            "op",
            "operator",
            "type",
            "dtype",
            "kind",
            "enum",
            "domain",
            "attribute",
            "field",
            "mode",
            "format",
            "version",
        ),
        *("file", "filename", "dir", "directory", "folder", "url", "env", "option", "command", "exporter", "message"),
        *("os", "sys", "error", "source"),
    }
)
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
"""A word of an identifier, written in camel or snake case."""


def tokens(identifier: str) -> list[str]:
    """Split an identifier in its lower-case words: `BertSelfAttention` and `bert_self_attention` alike."""
    return [token.lower() for token in WORD.findall(identifier)]


def is_subject(identifier: str, of: str = "") -> bool:
    """Whether an identifier says that it is a name of a module, class, parameter or node.

    Args:
        identifier: A variable, attribute, function or key.
        of: The identifier before the dot.
    """
    words = [word for word in tokens(identifier) if not word.isdecimal()]
    last = words[-1] if words else ""
    if last not in _SUBJECTS and last.removesuffix("s") not in _SUBJECTS:
        return False
    return _OTHERS.isdisjoint(words) and _OTHERS.isdisjoint(tokens(of)[-1:])


def is_other(identifier: str) -> bool:
    """Whether an identifier says that it is about something else than the model's modules and nodes."""
    return not _OTHERS.isdisjoint(tokens(identifier))
