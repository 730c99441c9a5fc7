"""Names the places in a file where tags are written: the keys of metadata entries, and the choices of `tags=`."""

from __future__ import annotations

from typing import Literal

FORMAT = "hierexport.format"
CALLS = "hierexport.calls"
KEEP = "hierexport.keep"
INITIALIZERS = "hierexport.initializers"
TAG = "hierexport.tag"
ORIGINS = "hierexport.origins"
NAMESPACE = "namespace"

NODE_KEYS = frozenset((TAG, ORIGINS, NAMESPACE))

Tags = Literal["both", "metadata", "doc_string", "none"]
PLACES: tuple[Tags, ...] = ("both", "metadata", "doc_string", "none")
"""The choices for where tags are written."""
WITH_METADATA = frozenset(("both", "metadata"))
WITH_DOC_STRINGS = frozenset(("both", "doc_string"))

_REPLACED = ("hierexport.", "pkg.torch.", "pkg.onnxscript.")


def is_replaced(key: str) -> bool:
    """Whether a metadata key is written by this package, or by an exporter and replaced by this package."""
    return key.startswith(_REPLACED)


def is_replaced_on_node(key: str) -> bool:
    """As :func:`is_replaced`, for the keys of nodes."""
    return key == NAMESPACE or key.startswith(_REPLACED)
