"""Export any PyTorch model to ONNX with every node tagged with the module call it came from.

What is listed here, with `pytest_hierexport.assertions`, is what users import; all else is private by its name. A
public name is imported when it is first used: importing the package costs nothing, and torch is imported by what
needs it.
"""

from __future__ import annotations

import importlib
from types import FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_hierexport._calls.attribution import Attribution, Evidence, Origin
    from pytest_hierexport._calls.hierarchy import Call, Hierarchy
    from pytest_hierexport._calls.modules import Module, Parameter
    from pytest_hierexport._carry import carry
    from pytest_hierexport._cases import Case, Example, KnownFailure, Step
    from pytest_hierexport._errors import CollectError, ExportError, HierexportError, TagError, UsageError
    from pytest_hierexport._export.pipeline import export
    from pytest_hierexport._export.result import Export
    from pytest_hierexport._onnx.graph import node_key, walk
    from pytest_hierexport._onnx.node_names import rename_nodes
    from pytest_hierexport._onnx.storage import attach, read, rewrite, save
    from pytest_hierexport._proof import LooseOwner, Proof, Verdict, prove
    from pytest_hierexport._rules.base import ExportedCase, Rule, Violation
    from pytest_hierexport._tools.divergence.comparing import diverge
    from pytest_hierexport._tools.divergence.results import CallGap, Divergence, Exclusion, Gap, ValueGap
    from pytest_hierexport._tools.modules.extraction import ExtractedModule, extract
    from pytest_hierexport._tools.modules.outlining import ModelWithFunctions, ModuleFunction, modules_as_functions
    from pytest_hierexport._tools.placement import annotate_nodes, place_nodes
    from pytest_hierexport._tools.profiling.figures import CallProfile, ClassProfile, KernelSlice, NodeProfile, Profile
    from pytest_hierexport._tools.profiling.profiler import profile
    from pytest_hierexport._tools.selection import select_nodes

__all__ = [
    "Attribution",
    "Call",
    "CallGap",
    "CallProfile",
    "Case",
    "ClassProfile",
    "CollectError",
    "Divergence",
    "Evidence",
    "Example",
    "Exclusion",
    "Export",
    "ExportError",
    "ExportedCase",
    "ExtractedModule",
    "Gap",
    "Hierarchy",
    "HierexportError",
    "KernelSlice",
    "KnownFailure",
    "LooseOwner",
    "ModelWithFunctions",
    "Module",
    "ModuleFunction",
    "NodeProfile",
    "Origin",
    "Parameter",
    "Profile",
    "Proof",
    "Rule",
    "Step",
    "TagError",
    "UsageError",
    "ValueGap",
    "Verdict",
    "Violation",
    "annotate_nodes",
    "attach",
    "carry",
    "diverge",
    "export",
    "extract",
    "modules_as_functions",
    "node_key",
    "place_nodes",
    "profile",
    "prove",
    "read",
    "rename_nodes",
    "rewrite",
    "save",
    "select_nodes",
    "walk",
]

# No module here bears a public name: importing it would put the module in the place of what the name promises.
_HOMES = {
    "_calls.attribution": ("Attribution", "Evidence", "Origin"),
    "_calls.hierarchy": ("Call", "Hierarchy"),
    "_calls.modules": ("Module", "Parameter"),
    "_carry": ("carry",),
    "_cases": ("Case", "Example", "KnownFailure", "Step"),
    "_errors": ("CollectError", "ExportError", "HierexportError", "TagError", "UsageError"),
    "_export.pipeline": ("export",),
    "_export.result": ("Export",),
    "_onnx.graph": ("node_key", "walk"),
    "_onnx.node_names": ("rename_nodes",),
    "_onnx.storage": ("attach", "read", "rewrite", "save"),
    "_proof": ("LooseOwner", "Proof", "Verdict", "prove"),
    "_rules.base": ("ExportedCase", "Rule", "Violation"),
    "_tools.profiling.figures": ("CallProfile", "ClassProfile", "KernelSlice", "NodeProfile", "Profile"),
    "_tools.profiling.profiler": ("profile",),
    "_tools.placement": ("annotate_nodes", "place_nodes"),
    "_tools.selection": ("select_nodes",),
    "_tools.modules.extraction": ("ExtractedModule", "extract"),
    "_tools.modules.outlining": ("ModelWithFunctions", "ModuleFunction", "modules_as_functions"),
    "_tools.divergence.comparing": ("diverge",),
    "_tools.divergence.results": ("CallGap", "Divergence", "Exclusion", "Gap", "ValueGap"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import the module that defines a public name; a function checks its arguments here, not where we call it."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    if isinstance(found, FunctionType):
        from pytest_hierexport._requests import checked

        found = checked(found)
        # A function is pickled by the name of its module and its own.
        found.__module__ = __name__
    return globals().setdefault(name, found)


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(__all__)
