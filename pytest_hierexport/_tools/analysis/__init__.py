"""Shows the content of a tagged ONNX file: figures by module, and the origins of each node."""

from __future__ import annotations

from pytest_hierexport._tools.analysis.contamination import ContaminatedNode, contaminated_nodes
from pytest_hierexport._tools.analysis.figures import Analysis, ModuleFigures, analyze
from pytest_hierexport._tools.analysis.filtering import ModuleFilter
from pytest_hierexport._tools.analysis.listing import ListedPart, UntaggedNode, listed_parts, untagged_nodes
from pytest_hierexport._tools.analysis.rendering import as_csv, as_dict, as_lines, as_tree, coverage_line

__all__ = [
    "LISTED",
    "Analysis",
    "ModuleFigures",
    "ModuleFilter",
    "analyze",
    "as_csv",
    "as_dict",
    "as_lines",
    "as_tree",
    "contaminated_nodes",
    "coverage_line",
    "listed_parts",
    "untagged_nodes",
]

LISTED = {"origins": ListedPart, "untagged": UntaggedNode, "contamination": ContaminatedNode}
"""The classes of the rows of each list of nodes."""
