"""Names the nodes of a model after the modules that they come from.

    node            call of its primary origin   style path                    style tag
    node_linear     encoder.layer.0.dense        /encoder/layer.0/dense/Gemm   /Net/Encoder/Layer.0/Gemm
    node_linear_1   encoder.layer.0.dense@1      /encoder/layer.0/dense@1/Gemm /Net/Encoder/Layer.0/Gemm_1

In the style path, each call from the root to the node's gives a segment: its path relative to its caller's, and the
index of the call. A module that is not below its caller gets `.` and its path from the root.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from pytest_hierexport._calls.attribution import Attribution
from pytest_hierexport._calls.hierarchy import Call, Hierarchy
from pytest_hierexport._calls.names import call_name, encode
from pytest_hierexport._onnx.graph import walk
from pytest_hierexport._requests import check_choice
from pytest_hierexport._text import numbered

if TYPE_CHECKING:
    import onnx
    import onnx_ir as ir

NameStyle: TypeAlias = Literal["path", "tag"]
NAME_STYLES: tuple[NameStyle, ...] = get_args(NameStyle)


def rename_nodes(model: ir.Model | onnx.ModelProto, attribution: Attribution, style: NameStyle = "path") -> None:
    """Name every node after the call of its primary origin and its operator, in place; nothing else changes.

    Names are unique in the whole model, its subgraphs and functions included. A node without origins keeps its name,
    with a number if the name is not unique.

    Args:
        model: The model of the attribution.
        attribution: The origins of its nodes.
        style: `path` (`/encoder/layer.0/attention/self/query/MatMul`) or `tag` (`/Net/Encoder/Layer.0/MatMul`).

    Raises:
        UsageError: There is no such style, or the model or the attribution is of another type.
        KeyError: An origin is not a call of the attribution's hierarchy.
    """
    check_choice("node names", style, NAME_STYLES)
    hierarchy = attribution.hierarchy

    @cache
    def prefix(call: str) -> str:
        if style == "tag":
            return f"{hierarchy.tag(call).rstrip('/')}/"
        segments = [_segment(hierarchy, hierarchy[above]) for above in hierarchy.lineage(call)]
        return "/".join(["", *(segment for segment in reversed(segments) if segment), ""])

    taken: set[str] = set()
    free: dict[str, Iterator[str]] = {}
    for key, node in walk(model):
        origins = attribution.nodes.get(key, ())
        operator = encode(node.op_type)
        wanted = prefix(origins[0].call) + operator if origins else node.name or operator
        node.name = next(name for name in free.setdefault(wanted, numbered(wanted, "_", 1)) if name not in taken)
        taken.add(node.name)


def _segment(hierarchy: Hierarchy, call: Call) -> str:
    """Return a call's segment; the first call of the root has none."""
    if call.parent is None:
        return ""
    above = hierarchy[call.parent].path
    is_below = not above or call.path.startswith(f"{above}.")
    path = call.path[len(above) + 1 if above else 0 :] if is_below else f".{call.path}"
    return call_name(path, call.index)
