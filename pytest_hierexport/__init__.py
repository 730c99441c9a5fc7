"""Export any PyTorch model to ONNX with every node tagged with the module call it came from.

What is listed here, with `pytest_hierexport.assertions`, is what users import; all else is private by its name. A
public name is imported when it is first used: importing the package costs nothing, and torch is imported by what
needs it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_hierexport._calls.attribution import Attribution, Evidence, Origin
    from pytest_hierexport._calls.hierarchy import Call, Hierarchy, Module, Parameter
    from pytest_hierexport._carry import carry
    from pytest_hierexport._cases import Case, Example
    from pytest_hierexport._errors import CollectError, ExportError, HierexportError, TagError, UsageError
    from pytest_hierexport._export.pipeline import export
    from pytest_hierexport._export.result import Export
    from pytest_hierexport._onnx.graph import node_key, walk
    from pytest_hierexport._onnx.storage import attach, read, rewrite, save
    from pytest_hierexport._proof import LooseOwner, Proof, Verdict, prove
    from pytest_hierexport._rules.base import ExportedCase, Rule, Violation

__all__ = [
    "Attribution",
    "Call",
    "Case",
    "CollectError",
    "Evidence",
    "Example",
    "Export",
    "ExportError",
    "ExportedCase",
    "Hierarchy",
    "HierexportError",
    "LooseOwner",
    "Module",
    "Origin",
    "Parameter",
    "Proof",
    "Rule",
    "TagError",
    "UsageError",
    "Verdict",
    "Violation",
    "attach",
    "carry",
    "export",
    "node_key",
    "prove",
    "read",
    "rewrite",
    "save",
    "walk",
]

# No module here bears a public name: importing it would put the module in the place of what the name promises.
_HOMES = {
    "_calls.attribution": ("Attribution", "Evidence", "Origin"),
    "_calls.hierarchy": ("Call", "Hierarchy", "Module", "Parameter"),
    "_carry": ("carry",),
    "_cases": ("Case", "Example"),
    "_errors": ("CollectError", "ExportError", "HierexportError", "TagError", "UsageError"),
    "_export.pipeline": ("export",),
    "_export.result": ("Export",),
    "_onnx.graph": ("node_key", "walk"),
    "_onnx.storage": ("attach", "read", "rewrite", "save"),
    "_proof": ("LooseOwner", "Proof", "Verdict", "prove"),
    "_rules.base": ("ExportedCase", "Rule", "Violation"),
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
