"""Counts the nodes and parameters of a tagged ONNX file, module by module."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pytest_hierexport._calls.attribution import Attribution
from pytest_hierexport._calls.hierarchy import ROOT, Call, Hierarchy
from pytest_hierexport._calls.modules import Module, element_count
from pytest_hierexport._calls.names import encode_operator, upwards
from pytest_hierexport._calls.patterns import calls_below, calls_of_class, matching_calls
from pytest_hierexport._errors import UsageError
from pytest_hierexport._onnx.graph import inventory_proto
from pytest_hierexport._tools.tagged_file import TaggedFile

if TYPE_CHECKING:
    import onnx


@dataclass(eq=False)
class ModuleFigures:
    """The figures of a module instance that has a segment in tags, summed over its calls."""

    segment: str
    """Its part of the tag, without the index of a call."""
    path: str
    cls: str
    calls: int = 0
    nodes: int = 0
    """The nodes whose primary tag is this module's."""
    parameters: int = 0
    """The elements of the parameters that the sidecar lists for it and its `torch.nn` modules; a shared parameter
    counts for the first of its modules that is called. Without a sidecar, the elements of the initializers whose
    primary origin is one of its calls."""
    all_nodes: int = 0
    """Its own nodes and those of all modules below it."""
    all_parameters: int = 0
    """Its own parameters and those of all modules below it."""
    children: list[ModuleFigures] = field(default_factory=list)
    """In the order of their first calls."""

    def rows(self, depth: int | None = None) -> Iterator[tuple[int, ModuleFigures]]:
        """Yield the module and those down to `depth` levels below it, each with its level and before its children."""
        pending = [(0, self)]
        while pending:
            level, figures = pending.pop()
            yield level, figures
            if depth is None or level < depth:
                pending.extend((level + 1, child) for child in reversed(figures.children))

    def prune(self, chosen: Container[ModuleFigures]) -> None:
        """Remove the modules below that are neither chosen nor above a chosen one; the sums do not change."""
        for _, figures in reversed(list(self.rows())):
            figures.children = [child for child in figures.children if child in chosen or child.children]


@dataclass(frozen=True)
class ModuleFilter:
    """Patterns for module instances by tag and class; None matches all.

        /Net/Encoder/Layer.*   by the whole tag, segment by segment
        Layer.[02]             by the last segment
        encoder.layer.0        by path, if no last segment matches; a shared module by each of its paths
        m.Layer, Layer         by class, with or without its module

    All instances below a matching one are selected too. With a tag and a class, an instance must be selected by both.
    """

    tag: str | None
    cls: str | None

    def choose(self, file: TaggedFile, instances: Mapping[str | None, ModuleFigures]) -> set[ModuleFigures]:
        """Return the selected instances, those below them included; calls without an instance cannot be selected.

        Raises:
            UsageError: There are none.
        """
        hierarchy, chosen = file.attribution.hierarchy, set(instances.values())
        by_tag = [_tagged(hierarchy, self.tag, file.modules)] if self.tag else []
        by_class = [calls_of_class(hierarchy, self.cls)] if self.cls else []
        for names in (*by_tag, *by_class):
            listed = [name for name in names if name in instances]
            chosen &= {instances[name] for name in calls_below(hierarchy, listed) if name in instances}
        if not chosen:
            patterns = [f"{name} {text!r}" for name, text in (("--tag", self.tag), ("--class", self.cls)) if text]
            raise UsageError(
                f"a module that matches {' and '.join(patterns)}",
                found="none in the table",
                do="take a tag or class from the table of hierexport analyze",
            )
        return chosen


def _tagged(hierarchy: Hierarchy, pattern: str, modules: Sequence[Module]) -> list[str]:
    if not pattern.startswith("/"):
        with suppress(UsageError):
            return matching_calls(hierarchy, f"/**/{pattern}")
    return matching_calls(hierarchy, pattern, modules)


@dataclass(frozen=True)
class Analysis:
    """The figures of a tagged ONNX file."""

    nodes: int
    """Every node, those of subgraphs and functions included."""
    initializers: int
    coverage: Mapping[str, int]
    """Nodes by the evidence of their primary origin, `untagged` among them; with a filter, the nodes that it keeps."""
    operators: Mapping[str, int]
    """Nodes by operator, the most frequent first; with a filter, the nodes that it keeps."""
    opsets: Mapping[str, int]
    """Operator set versions by domain."""
    exporter: str
    """The capture that made the file, as its sidecar says; a remark where the tags are torch's scopes; else empty."""
    sidecar: str
    """`fits`, `missing`, or the reason why the sidecar is not used."""
    tags_from: str
    """`file`, `sidecar`, or `torch` for the scopes that torch writes, which may be wrong."""
    declared: bool
    """Whether `parameters` counts the parameters of the sidecar; else the initializers of the file, some of which an
    optimizer may have folded or merged."""
    other_paths: Mapping[str, str]
    """For each module with several paths: its first path, by each other path; without the paths below these."""
    modules: ModuleFigures
    """The root, with all modules below it."""


def analyze(file: TaggedFile, wanted: ModuleFilter | None = None) -> Analysis:
    """Count the parts of an ONNX file by its tags; external data is not read.

    With a filter, the modules that it selects are kept, with those above them, and their nodes are counted by evidence
    and operator; without one, untagged nodes are counted too.

    Raises:
        UsageError: The file has a tensor with an impossible shape, or no module is selected.
    """
    attribution, parts = file.attribution, inventory_proto(file.proto)
    declared = bool(file.modules)
    parameters = (
        _of_modules(attribution.hierarchy, file.modules)
        if declared
        else _of_initializers(attribution, parts.initializers)
    )
    figures, nodes = _figures(attribution, parameters), parts.nodes
    if wanted is not None:
        chosen, kept = wanted.choose(file, figures), attribution.hierarchy.kept
        figures[None].prune(chosen)
        own = {key: each for key, each in attribution.nodes.items() if each and figures[kept(each[0].call)] in chosen}
        attribution = replace(attribution, nodes=own)
        nodes = [(key, node) for key, node in nodes if key in own]
    counted = Counter(encode_operator(node.domain, node.op_type) for _, node in nodes)
    return Analysis(
        nodes=len(parts.nodes),
        initializers=len(parts.initializers),
        coverage=attribution.coverage(),
        operators=dict(sorted(counted.items(), key=lambda item: (-item[1], item[0]))),
        opsets={opset.domain: opset.version for opset in file.proto.opset_import},
        exporter=file.exporter,
        sidecar=file.sidecar,
        tags_from=file.tags_from,
        declared=declared,
        other_paths=_other_paths(file.modules),
        modules=figures[None],
    )


def _other_paths(modules: Iterable[Module]) -> dict[str, str]:
    shared = {module.path: module.shared for module in modules if module.shared is not None}
    return {path: first for path, first in shared.items() if path.rpartition(".")[0] not in shared}


def _of_modules(hierarchy: Hierarchy, modules: Iterable[Module]) -> list[tuple[str, int]]:
    """Return for each trainable tensor, once, the call that it counts for and its number of elements.

    It counts for the first call of the first module that owns it and was called; if none was called, for that of the
    nearest called module above the first owner.
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
    return [
        (next(calls[path] for path in upwards(owner) if path in calls), elements[tensor])
        for tensor, owner in owners.items()
    ]


def _of_initializers(
    attribution: Attribution, initializers: Iterable[tuple[str, onnx.TensorProto]]
) -> Iterator[tuple[str, int]]:
    """Yield the call of each initializer's primary origin, with the number of elements."""
    for key, tensor in initializers:
        try:
            elements = element_count(tensor.dims)
        except ValueError as error:
            raise UsageError(
                "initializers with shapes that a tensor can have",
                found=f"{key!r}: {error}",
                do="export the model again: the file is damaged",
            ) from None
        if key in attribution.initializers:
            yield attribution.initializers[key][0].call, elements


def _figures(attribution: Attribution, parameters: Iterable[tuple[str, int]]) -> dict[str | None, ModuleFigures]:
    hierarchy = attribution.hierarchy
    of_call = instances(hierarchy)
    for origins in attribution.nodes.values():
        if origins:
            of_call[hierarchy.kept(origins[0].call)].nodes += 1
    for call, elements in parameters:
        of_call[hierarchy.kept(call)].parameters += elements
    # Callers come before their callees: in reverse order, the sums of all children are complete when they are added.
    for figures in reversed(dict.fromkeys(of_call.values())):
        figures.all_nodes = figures.nodes + sum(child.all_nodes for child in figures.children)
        figures.all_parameters = figures.parameters + sum(child.all_parameters for child in figures.children)
    return of_call


def instances(hierarchy: Hierarchy) -> dict[str | None, ModuleFigures]:
    """Return the instance of each kept call; for the key None, the root.

    The calls that one caller makes under one segment belong to one instance; a call below another call of its module
    belongs to the instance of that one.
    """
    root = hierarchy[ROOT]
    segment = hierarchy.segment(ROOT) if hierarchy.is_kept(ROOT) else ""
    of_root = ModuleFigures(segment or "/", root.path, root.cls, calls=1)
    of_call: dict[str | None, ModuleFigures] = {None: of_root, ROOT: of_root}
    known: dict[tuple[ModuleFigures, str], ModuleFigures] = {}
    for name, call in hierarchy.items():
        if name == ROOT or not hierarchy.is_kept(name):
            continue
        caller, segment = of_call[hierarchy.kept_above(name)], hierarchy.segment(name) or "/"
        outer = _outer_call(hierarchy, call)
        if outer is None and (caller, segment) not in known:
            known[caller, segment] = ModuleFigures(segment, call.path, call.cls)
            caller.children.append(known[caller, segment])
        of_call[name] = known[caller, segment] if outer is None else of_call[outer]
        of_call[name].calls += 1
    return of_call


def _outer_call(hierarchy: Hierarchy, call: Call) -> str | None:
    """Return the nearest call above a call that ran the same module; None where there is none."""
    # A call of index 0, as most are, has none: an outer call of its module would have a lower index.
    above = () if call.index == 0 or call.parent is None else hierarchy.lineage(call.parent)
    return next((name for name in above if hierarchy[name].path == call.path), None)
