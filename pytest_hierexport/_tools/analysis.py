"""Counts the nodes and parameters of a tagged ONNX file, module by module."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_hierexport._calls.attribution import Attribution
from pytest_hierexport._calls.hierarchy import ROOT, Call, Hierarchy, Module, element_count
from pytest_hierexport._errors import TagError, UsageError
from pytest_hierexport._files.paths import exists
from pytest_hierexport._onnx import storage
from pytest_hierexport._onnx.graph import inventory_proto

if TYPE_CHECKING:
    import onnx

__all__ = ["Analysis", "ModuleFigures", "analyze"]


@dataclass(frozen=True)
class ModuleFigures:
    """The figures of a module instance that has a segment in tags, summed over its calls."""

    segment: str
    """Its part of the tag, without a call's index."""
    path: str
    cls: str
    calls: int
    nodes: int
    """The nodes whose primary tag is this module's."""
    parameters: int
    """Elements of the parameters that it and its `torch.nn` modules declare in the sidecar; a shared parameter counts
    for the first of its modules that is called. Without a sidecar, elements of the initializers whose primary origin it
    is."""
    all_nodes: int
    """Its own nodes and those of all modules below it."""
    all_parameters: int
    """Its own parameters and those of all modules below it."""
    children: tuple[ModuleFigures, ...]
    """In the order of their first calls."""

    def rows(self, depth: int | None = None) -> Iterator[tuple[int, ModuleFigures]]:
        """Yield the module and those below it, each with its level and before its children.

        Args:
            depth: The number of levels below this module; None for all.
        """
        pending = [(0, self)]
        while pending:
            level, figures = pending.pop()
            yield level, figures
            if depth is None or level < depth:
                pending.extend((level + 1, child) for child in reversed(figures.children))


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
    """The capture that succeeded; empty without a sidecar."""
    sidecar: str
    """`fits`, `missing`, or the reason why it is not used."""
    declared: bool
    """Whether parameters are counted as modules declare them; else as the tensors in the file, after an optimizer."""
    modules: ModuleFigures
    """The root, with all modules below it."""


def analyze(path: str | Path) -> Analysis:
    """Count the parts of an ONNX file, by the tags in it or in its sidecar; external data is not read.

    Raises:
        TagError: The file has no tags, or tags that cannot be parsed.
        UsageError: The file is not ONNX, or has a tensor with an impossible shape.
    """
    path = Path(path)
    proto = storage.load_proto(path)
    attribution = storage.read(path)
    exporter, sidecar, modules = _sidecar(path)
    counted = Counter(_operator(node) for _, node in inventory_proto(proto).nodes)
    return Analysis(
        nodes=counted.total(),
        initializers=len(inventory_proto(proto).initializers),
        coverage=attribution.coverage(),
        operators=dict(sorted(counted.items(), key=lambda item: (-item[1], item[0]))),
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
    if not exists(storage.sidecar_path(path)):
        return "", "missing", ()
    try:
        known = storage.read_sidecar(path)
    except TagError as error:
        return "", f"not used: {error.found}", ()
    return known.exporter, "fits", known.modules


def _declared(hierarchy: Hierarchy, modules: Iterable[Module]) -> list[tuple[str, int]]:
    """Return the elements of each trainable tensor, once, with the first call of the module that it counts for.

    This is the first called module of those that declare the tensor, or the nearest called one above the first of them.
    """
    calls: dict[str, str] = {}
    for name, call in hierarchy.items():
        calls.setdefault(call.path, name)
    owners: dict[str, str] = {}
    elements: dict[str, int] = {}
    for path, parameter in ((module.path, p) for module in modules for p in module.parameters if p.trainable):
        tensor = parameter.shared or (f"{path}.{parameter.name}" if path else parameter.name)
        elements[tensor] = element_count(parameter.shape)
        if owners.setdefault(tensor, path) not in calls and path in calls:
            owners[tensor] = path
    return [(calls[_called(owners[tensor], calls)], count) for tensor, count in elements.items()]


def _called(path: str, first: Mapping[str, str]) -> str:
    while path not in first:
        path = path.rpartition(".")[0]
    return path


def _held(attribution: Attribution, proto: onnx.ModelProto) -> list[tuple[str, int]]:
    """Return the elements of each initializer with its primary origin."""
    sizes = {key: _elements(key, tensor) for key, tensor in inventory_proto(proto).initializers}
    return [(origins[0].call, sizes.get(key, 0)) for key, origins in attribution.initializers.items() if origins]


def _elements(key: str, tensor: onnx.TensorProto) -> int:
    try:
        return element_count(tensor.dims)
    except ValueError as error:
        raise UsageError(
            "initializers with shapes that a tensor can have",
            found=f"{key!r}: {error}",
            do="export the model again: the file is damaged",
        ) from None


@dataclass
class _Sums:
    segment: str
    call: Call
    calls: int = 0
    nodes: int = 0
    parameters: int = 0


def _modules(attribution: Attribution, parameters: Iterable[tuple[str, int]]) -> ModuleFigures:
    instances = _Instances(attribution.hierarchy)
    for origins in attribution.nodes.values():
        if origins:
            instances.sums(origins[0].call).nodes += 1
    for call, elements in parameters:
        instances.sums(call).parameters += elements
    return instances.figures()


class _Instances:
    """The module instances with segments in tags, by number: the root is 0, a caller comes before its callees."""

    def __init__(self, hierarchy: Hierarchy) -> None:
        self._hierarchy = hierarchy
        self._sums = [_Sums(_segment(hierarchy, ROOT), hierarchy[ROOT])]
        self._callers = [0]
        self._of_call = {ROOT: 0}
        self._count_calls()

    def sums(self, call: str) -> _Sums:
        """Return the sums of the instance of a call, or of the nearest call above it that has an instance."""
        return self._sums[self._number(self._hierarchy.kept(call))]

    def _number(self, kept: str | None) -> int:
        return 0 if kept is None else self._of_call[kept]

    def _count_calls(self) -> None:
        """Number every instance at its first call: the calls by one caller under one segment are one instance."""
        numbers: dict[tuple[int, str], int] = {}
        self._sums[0].calls = 1
        for name, call in self._hierarchy.items():
            if name == ROOT or not self._hierarchy.is_kept(name):
                continue
            caller, segment = self._number(self._hierarchy.kept_above(name)), _segment(self._hierarchy, name)
            number = numbers.setdefault((caller, segment), len(self._sums))
            if number == len(self._sums):
                self._sums.append(_Sums(segment, call))
                self._callers.append(caller)
            self._of_call[name] = number
            self._sums[number].calls += 1

    def figures(self) -> ModuleFigures:
        """Return the figures of the root, computed from the leaves up: callers have lower numbers than callees."""
        below: list[list[ModuleFigures]] = [[] for _ in self._sums]
        for number in range(len(self._sums) - 1, 0, -1):
            below[self._callers[number]].append(_figures(self._sums[number], below[number]))
        return _figures(self._sums[0], below[0])


def _segment(hierarchy: Hierarchy, name: str) -> str:
    return (hierarchy.segment(name) if hierarchy.is_kept(name) else "") or "/"


def _figures(own: _Sums, below: list[ModuleFigures]) -> ModuleFigures:
    return ModuleFigures(
        segment=own.segment,
        path=own.call.path,
        cls=own.call.cls,
        calls=own.calls,
        nodes=own.nodes,
        parameters=own.parameters,
        all_nodes=own.nodes + sum(child.all_nodes for child in below),
        all_parameters=own.parameters + sum(child.all_parameters for child in below),
        children=tuple(reversed(below)),
    )
