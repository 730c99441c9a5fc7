"""Finds the nodes of modules, and returns their names in the forms that other tools take.

A selection has every node with an origin in one of the modules. A node that an optimizer made from operations of two
modules belongs to both: if one module is to stay in float, the node must.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import onnx

from pytest_hierexport._calls.attribution import Attribution
from pytest_hierexport._calls.modules import Module
from pytest_hierexport._calls.names import encode_operator
from pytest_hierexport._calls.patterns import calls_below, matching_calls
from pytest_hierexport._errors import UsageError
from pytest_hierexport._onnx.graph import subgraphs_proto, walk
from pytest_hierexport._onnx.loading import import_runtime
from pytest_hierexport._onnx.models import Model
from pytest_hierexport._requests import check_choice
from pytest_hierexport._text import counted
from pytest_hierexport._tools.tagged_file import described

OriginChoice: TypeAlias = Literal["any", "primary"]
ORIGINS = ("any", "primary")
Consumer: TypeAlias = Literal["names", "regex", "glob", "nodes_to_exclude", "node_block_list"]

_RENAME = "name the nodes after their modules first: hierexport rename, or rename_nodes()"


@dataclass(frozen=True)
class Selection:
    """The nodes of some modules, and all other nodes, which names must not confuse with them."""

    attribution: Attribution
    calls: Mapping[str, Sequence[str]]
    """The calls that each pattern names."""
    nodes: Mapping[str, Any]
    """The selected nodes by key, in file order: nodes of onnx_ir or protobuf."""
    others: Sequence[Any]
    """All other nodes."""
    origins: OriginChoice = "any"

    def names(self) -> list[str]:
        """Return the names of the nodes, in file order.

        Raises:
            UsageError: A node has no name, or the name of another node.
        """
        counts = Counter(node.name for node in (*self.nodes.values(), *self.others))
        for key, node in self.nodes.items():
            if not node.name or counts[node.name] > 1:
                found = f"{counts[node.name]} nodes named {node.name!r}" if node.name else f"none for {key!r}"
                raise UsageError("a name of its own for every selected node", found=found, do=_RENAME)
        return [node.name for node in self.nodes.values()]

    def as_dict(self) -> dict[str, object]:
        """Return the selection as an object for JSON; see `schema/select.json`."""
        return {
            "patterns": {pattern: list(calls) for pattern, calls in self.calls.items()},
            "origins": self.origins,
            "nodes": [
                {
                    "key": key,
                    "name": node.name,
                    "operator": encode_operator(node.domain, node.op_type),
                    "tag": self.attribution.tag(key),
                    "origins": [[origin.call, origin.evidence.value] for origin in self.attribution.nodes[key]],
                }
                for key, node in self.nodes.items()
            ],
        }


def select_nodes(
    model: Model,
    patterns: str | Sequence[str],
    *,
    attribution: Attribution | None = None,
    origins: OriginChoice = "any",
    consumer: Consumer = "names",
) -> list[str]:
    """Return the names of the nodes of some modules, in file order and in the form that a tool takes.

    Args:
        model: A tagged ONNX file, a `ModelProto` or an onnx_ir model.
        patterns: Paths (`encoder.layer.0`), tags (`/Net/Layer.0`) or classes (`class:Layer`), with wildcards (`*`, `?`,
            `[0-3]`, and `**` for any number of segments) and, for one call of several, its index (`@1`). A module
            stands for all below it.
        attribution: The origins of the nodes; None reads the tags in the model, or in the file's sidecar.
        origins: `any`: every node with an origin in the modules; `primary`: only nodes whose primary origin is in them.
        consumer: `names`; `regex` or `glob` for tools that match names (escaped, and anchored: each matches one name);
            `nodes_to_exclude` for ONNX Runtime's quantizers, which split some nodes before they look at names, so the
            names of the parts are listed too; `node_block_list` for its float16 conversion.

    Raises:
        UsageError: A pattern matches no module or a module without nodes; a node has no unique name.
        TagError: The model has no tags.
    """
    check_choice("consumer", consumer, tuple(CONSUMERS))
    selection = find_nodes(*described(model, attribution), patterns, origins)
    return CONSUMERS[consumer](selection)


def find_nodes(
    model: Any,
    attribution: Attribution,
    modules: Sequence[Module],
    patterns: str | Sequence[str],
    origins: OriginChoice = "any",
) -> Selection:
    """Find the nodes of the modules that the patterns name; see :func:`select_nodes`. The module tree may be empty.

    Raises:
        UsageError: A pattern matches no module, or a module without nodes.
    """
    check_choice("origins", origins, ORIGINS)
    wanted = [patterns] if isinstance(patterns, str) else list(patterns)
    if not wanted:
        raise UsageError("a pattern for modules", found="none", do="name one, such as encoder.layer.0")
    calls = {pattern: matching_calls(attribution.hierarchy, pattern, modules) for pattern in wanted}
    nodes = dict(walk(model))
    chosen: set[str] = set()
    for pattern, named in calls.items():
        inside = calls_below(attribution.hierarchy, named)
        owned = ((key, attribution.nodes.get(key, ())[: 1 if origins == "primary" else None]) for key in nodes)
        found = {key for key, own in owned if any(origin.call in inside for origin in own)}
        if not found:
            raise UsageError(
                f"nodes of {pattern!r}",
                found=f"none in {counted(len(named), 'call')}: their work was folded or fused, or they compute nothing",
                do="leave the pattern out, or name a module above it"
                + ("" if origins == "any" else ", or count any origin of a node, not only the primary"),
            )
        chosen |= found
    return Selection(
        attribution,
        calls,
        {key: node for key, node in nodes.items() if key in chosen},
        [node for key, node in nodes.items() if key not in chosen],
        origins,
    )


def quantized_names(nodes: Iterable[Any]) -> list[str]:
    """Return the names of nodes, or of those by which ONNX Runtime's quantizers replace them beforehand."""
    import onnx_ir as ir

    protos = (ir.to_proto(node) if isinstance(node, ir.Node) else node for node in nodes)
    # The graph has these nodes only, so all nodes of the result come from them. Nodes with subgraphs are not split;
    # the nodes of the subgraphs are among `nodes`.
    flat = [node for node in protos if not any(subgraphs_proto(node))]
    as_quantized = import_runtime("onnxruntime.quantization.onnx_model").ONNXModel
    split = as_quantized(onnx.helper.make_model(onnx.helper.make_graph(flat, "selected", [], [])))
    split.replace_gemm_with_matmul()
    return [node.name for node in split.nodes()]


CONSUMERS: Mapping[str, Callable[[Selection], list[str]]] = {
    "names": Selection.names,
    "regex": lambda selection: [f"^{re.escape(name)}$" for name in selection.names()],
    "glob": lambda selection: [re.sub(r"[*?[]", r"[\g<0>]", name) for name in selection.names()],
    "nodes_to_exclude": lambda selection: [
        *dict.fromkeys([*selection.names(), *quantized_names(selection.nodes.values())])
    ],
    "node_block_list": Selection.names,
}
"""The function for each form of the names."""
