"""Encodes an attribution as text (metadata entries, doc strings, JSON), and decodes it. Knows no ONNX.

`places` names the keys and places, `origins` handles a node or an initializer, `model` the model itself.
"""

from __future__ import annotations

from pytest_hierexport._onnx.codec.model import (
    FORMAT_VERSION,
    calls_to_json,
    check_format,
    hierarchy_from_entries,
    hierarchy_from_json,
    initializers,
    model_entries,
)
from pytest_hierexport._onnx.codec.origins import Reader, Writer, check_origins, is_our_doc, origins_to_json
from pytest_hierexport._onnx.codec.places import (
    CALLS,
    FORMAT,
    INITIALIZERS,
    KEEP,
    NAMESPACE,
    NODE_KEYS,
    ORIGINS,
    PLACES,
    TAG,
    WITH_DOC_STRINGS,
    WITH_METADATA,
    Tags,
    is_replaced,
    is_replaced_on_node,
)

__all__ = [
    "CALLS",
    "FORMAT",
    "FORMAT_VERSION",
    "INITIALIZERS",
    "KEEP",
    "NAMESPACE",
    "NODE_KEYS",
    "ORIGINS",
    "PLACES",
    "TAG",
    "WITH_DOC_STRINGS",
    "WITH_METADATA",
    "Reader",
    "Tags",
    "Writer",
    "calls_to_json",
    "check_format",
    "check_origins",
    "hierarchy_from_entries",
    "hierarchy_from_json",
    "initializers",
    "is_our_doc",
    "is_replaced",
    "is_replaced_on_node",
    "model_entries",
    "origins_to_json",
]
