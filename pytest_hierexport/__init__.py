"""Export any PyTorch model to ONNX with every node tagged with the module calls it came from.

The public names are resolved when they are first asked for: importing the package costs nothing, and torch is
imported by what needs it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_hierexport._calls.attribution import Attribution, Evidence, Origin
    from pytest_hierexport._calls.hierarchy import Call, Hierarchy
    from pytest_hierexport._carry import carry
    from pytest_hierexport._errors import CollectError, ExportError, HierexportError, TagError, UsageError
    from pytest_hierexport._export import Export, export
    from pytest_hierexport._onnx.storage import read, save

__all__ = [
    "Attribution",
    "Call",
    "CollectError",
    "Evidence",
    "Export",
    "ExportError",
    "Hierarchy",
    "HierexportError",
    "Origin",
    "TagError",
    "UsageError",
    "carry",
    "export",
    "read",
    "save",
]

# No module here bears a public name: importing it would put the module in the place of what the name promises.
_HOMES = {
    "attribution": ("Attribution", "Evidence", "Origin"),
    "_carry": ("carry",),
    "errors": ("CollectError", "ExportError", "HierexportError", "TagError", "UsageError"),
    "exporter": ("Export", "export"),
    "hierarchy": ("Call", "Hierarchy"),
    "storage": ("read", "save"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import the module that defines a public name."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(__all__)
