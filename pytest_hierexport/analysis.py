"""What a tagged ONNX file and its sidecar hold, module by module."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_hierexport import storage
from pytest_hierexport.attribution import Attribution
from pytest_hierexport.errors import TagError
from pytest_hierexport.graph import inventory_proto
from pytest_hierexport.hierarchy import ROOT, Call, Hierarchy, Module

if TYPE_CHECKING:
    import onnx

__all__ = ["Analysis", "ModuleFigures", "analyze"]

_CALL_INDEX = re.compile(r"@\d+(?=/|$)")


@dataclass(frozen=True)
class ModuleFigures:
    """A module instance that has a segment in tags, below the one that calls it, with all its calls taken together."""

    segment: str
    """Its part of the tag, without a call's index."""
    path: str
    cls: str
    calls: int
    nodes: int
    """Nodes of its own: those whose primary tag is this module's."""
    parameters: int
    """Elements of the parameters that it declares, with those of its `torch.nn` modules, as the sidecar has them: a
    parameter that several modules share counts for the first of them that is called. Where there is no sidecar,
    elements of the initializers whose primary origin it is, as they are or folded."""
    all_nodes: int
    """Its own nodes and those of all modules below it."""
    all_parameters: int
    """Its own parameters and those of all modules below it."""
    children: tuple[ModuleFigures, ...]
    """In the order of their first calls."""


@dataclass(frozen=True)
class Analysis:
    """The figures of a tagged ONNX file."""

    nodes: int
    """Every node, those of subgraphs and functions included."""
    initializers: int
    coverage: Mapping[str, int]
    """Nodes by the evidence of their primary origin, `untagged` among them."""
    operators: Mapping[str, int]
    """Nodes by operator, the most frequent first."""
    opsets: Mapping[str, int]
    """Operator set versions by domain."""
    exporter: str
    """The capture that served; empty where no sidecar tells."""
    sidecar: str
    """`fits`, `missing`, or what is wrong with it."""
    declared: bool
    """Whether parameters are those that modules declare; else they are the tensors that the file holds, after what an
    optimizer folded or merged."""
    modules: ModuleFigures
    """The root, with all modules below it."""


def analyze(path: str | Path) -> Analysis:
    """Count what an ONNX file holds, by the tags in it or in its sidecar; external data is not read.

    Raises:
        TagError: The file has no tags, or tags that cannot be read.
        UsageError: The file is not ONNX.
    """
    path = Path(path)
    proto = storage.load_proto(path)
    attribution = storage.read(path)
    exporter, sidecar, modules = _sidecar(path)
    operators = Counter(_operator(node) for _, node in inventory_proto(proto).nodes)
    return Analysis(
        nodes=operators.total(),
        initializers=len(inventory_proto(proto).initializers),
        coverage=attribution.coverage(),
        operators=dict(sorted(operators.items(), key=lambda item: (-item[1], item[0]))),
        opsets={opset.domain: opset.version for opset in proto.opset_import},
        exporter=exporter,
        sidecar=sidecar,
        declared=bool(modules),
        modules=_modules(
            attribution, _declared(attribution.hierarchy, modules) if modules else _held(attribution, proto)
        ),
    )


def _operator(node: onnx.NodeProto) -> str:
    return f"{node.domain}::{node.op_type}" if node.domain else node.op_type


def _sidecar(path: Path) -> tuple[str, str, tuple[Module, ...]]:
    if not storage.sidecar_path(path).exists():
        return "", "missing", ()
    try:
        known = storage.read_sidecar(path)
    except TagError as error:
        return "", f"not used: {error.found}", ()
    return known.exporter, "fits", known.modules


def _declared(hierarchy: Hierarchy, modules: Iterable[Module]) -> list[tuple[str, int]]:
    """Return the elements of each trainable tensor, once, with the first call of the module that it counts for.

    Of the modules that declare a tensor this is the first that is called; where none is, the nearest one above the
    first of them that is.
    """
    calls: dict[str, str] = {}
    for name, call in hierarchy.items():
        calls.setdefault(call.path, name)
    owners: dict[str, str] = {}
    elements: dict[str, int] = {}
    for path, parameter in ((module.path, p) for module in modules for p in module.parameters if p.trainable):
        tensor = parameter.shared or (f"{path}.{parameter.name}" if path else parameter.name)
        elements[tensor] = math.prod(parameter.shape)
        if owners.setdefault(tensor, path) not in calls and path in calls:
            owners[tensor] = path
    return [(calls[_called(owners[tensor], calls)], count) for tensor, count in elements.items()]


def _called(path: str, first: Mapping[str, str]) -> str:
    while path not in first:
        path = path.rpartition(".")[0]
    return path


def _held(attribution: Attribution, proto: onnx.ModelProto) -> list[tuple[str, int]]:
    """Return the elements of each initializer with its primary origin."""
    sizes = {key: math.prod(tensor.dims) for key, tensor in inventory_proto(proto).initializers}
    return [(origins[0].call, sizes.get(key, 0)) for key, origins in attribution.initializers.items() if origins]


@dataclass
class _Sums:
    call: Call
    calls: int = 0
    nodes: int = 0
    parameters: int = 0


def _modules(attribution: Attribution, parameters: Iterable[tuple[str, int]]) -> ModuleFigures:
    hierarchy = attribution.hierarchy
    sums = _sums(hierarchy)
    for origins in attribution.nodes.values():
        if origins:
            sums[_instance(hierarchy, origins[0].call)].nodes += 1
    for call, elements in parameters:
        sums[_instance(hierarchy, call)].parameters += elements
    return _tree(sums, _instance(hierarchy, ROOT))


def _sums(hierarchy: Hierarchy) -> dict[str, _Sums]:
    """Return a place to count for every instance, in the order of their first calls, the root's first."""
    sums = {_instance(hierarchy, ROOT): _Sums(hierarchy[ROOT])}
    for name, call in hierarchy.items():
        if hierarchy.is_kept(name) or name == ROOT:
            sums.setdefault(_instance(hierarchy, name), _Sums(call)).calls += 1
    return sums


def _instance(hierarchy: Hierarchy, name: str) -> str:
    """Return the tag of a call without the indices: the same for every call of an instance by one caller."""
    return _CALL_INDEX.sub("", hierarchy.tag(name))


def _tree(sums: Mapping[str, _Sums], root: str) -> ModuleFigures:
    """Return the figures of the root, made from the leaves up: a tag stands after the one that it continues."""
    children: dict[str, list[str]] = {tag: [] for tag in sums}
    for tag in sums:
        if tag != root:
            children[tag.rpartition("/")[0] or root].append(tag)
    figures: dict[str, ModuleFigures] = {}
    for tag, own in reversed(list(sums.items())):
        figures[tag] = _figures(tag, own, tuple(figures[child] for child in children[tag]))
    return figures[root]


def _figures(tag: str, own: _Sums, below: tuple[ModuleFigures, ...]) -> ModuleFigures:
    return ModuleFigures(
        segment=tag.rpartition("/")[2] or "/",
        path=own.call.path,
        cls=own.call.cls,
        calls=own.calls,
        nodes=own.nodes,
        parameters=own.parameters,
        all_nodes=own.nodes + sum(child.all_nodes for child in below),
        all_parameters=own.parameters + sum(child.all_parameters for child in below),
        children=below,
    )
