"""Takes one module call out of a model, as a model of its own.

The model has every node that has an origin in the call or below it, those shared with other calls included, and the
constants that these nodes need. What they take from elsewhere are its inputs; its outputs are what other calls take
from it and do not compute together with it.

    k = Abs(m)       layer.0 and layer.1     extract layer.0    inputs  m, x
    y = Add(x, k)    layer.0                                    nodes   k, y
    z = Add(y, k)    layer.1                                    outputs y
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedFunctionsPass, ShapeInferencePass

from pytest_hierexport._calls.attribution import Attribution, Origins
from pytest_hierexport._calls.hierarchy import ROOT, Hierarchy, Module
from pytest_hierexport._errors import UsageError
from pytest_hierexport._onnx.graph import inventory_ir, subgraphs_ir
from pytest_hierexport._onnx.ir_tags import write
from pytest_hierexport._onnx.operators import is_deterministic
from pytest_hierexport._tools.modules.choice import named_call
from pytest_hierexport._tools.modules.flattening import flatten
from pytest_hierexport._tools.modules.region import (
    Region,
    attribution_on,
    holders,
    nodes_inside,
    operands,
    origins_of,
)
from pytest_hierexport._tools.modules.working_copy import working_copy
from pytest_hierexport._tools.tagged_file import module_tree

if TYPE_CHECKING:
    from pytest_hierexport._onnx.models import Model
    from pytest_hierexport._proof.eager import Runnable


@dataclass(frozen=True)
class ExtractedModule:
    """One module call as a model of its own, its nodes tagged; it shares the tensors of the whole model."""

    model: ir.Model
    attribution: Attribution
    """Its nodes have the tags that they have in the whole model."""
    call: str
    inputs: Mapping[str, str]
    """The name of each input, by the name of the value in the whole model."""
    outputs: Mapping[str, str]
    """The name of each output, by the name of the value in the whole model."""

    @property
    def renamed(self) -> int:
        """The number of inputs and outputs with another name than in the whole model."""
        return sum(old != new for names in (self.inputs, self.outputs) for old, new in names.items())


def as_dict(made: ExtractedModule) -> dict[str, Any]:
    """Return what was extracted as an object for JSON."""
    return {
        "call": made.call,
        "tag": made.attribution.hierarchy.tag(made.call),
        "nodes": len(made.attribution.nodes),
        "initializers": len(made.model.graph.initializers),
        "inputs": {new: old for old, new in made.inputs.items()},
        "outputs": {new: old for old, new in made.outputs.items()},
    }


def modules_below(modules: Iterable[Module], hierarchy: Hierarchy, call: str) -> tuple[Module, ...]:
    """Return the module instances that run in a call, and those that they hold."""
    paths = {f"{made.path}." for name, made in hierarchy.items() if hierarchy.within(name, call)}
    if call == ROOT:
        return tuple(modules)
    return tuple(module for module in modules if any(f"{module.path}.".startswith(path) for path in paths))


def extract(model: Model, attribution: Attribution, module: str, example: Runnable | None = None) -> ExtractedModule:
    """Return one module call as a model of its own; functions are inlined.

    Values keep their names, inputs and outputs too. With the PyTorch model, these get the names of the parameters of
    the module's `forward` and of the parts of its result, where a value of the eager run equals them.

    Args:
        model: A path, a protobuf message or an onnx_ir model.
        attribution: The origins of its nodes.
        module: A pattern that names one module, as :func:`select_nodes` takes it, with `@k` from the second run on.
        example: The PyTorch model with its inputs, whose weights are those of the file.

    Raises:
        UsageError: There is no such call or there are several, it has no node, or the type of an input is unknown.
    """
    hierarchy = attribution.hierarchy
    call = named_call(hierarchy, module, module_tree(model))
    whole = working_copy(model)
    flat = flatten(whole, attribution)
    boundary = _Boundary.of(whole, hierarchy, call)
    names: dict[ir.Value, str] = {}
    if example is not None:
        from pytest_hierexport._tools.modules.forward_names import forward_names

        names = forward_names(example, whole, flat, call, inputs=boundary.inputs, outputs=boundary.outputs)
    extracted = boundary.copied(whole)
    graph = extracted.graph
    taken = {str(value.name) for node in nodes_inside(graph) for value in (*operands(node), *node.outputs)}
    inputs = _rename(boundary.inputs, graph.inputs, names, taken)
    outputs = _rename(boundary.outputs, graph.outputs, names, taken)
    parts = inventory_ir(extracted)
    used = {origin.call for _, node in parts.nodes for origin in origins_of(node)}
    used |= {origin.call for _, value in parts.initializers for origin in origins_of(value)}
    tagged = attribution_on(extracted, Attribution(_needed(hierarchy, call, used)))
    write(extracted, tagged, "both", tensors=False)
    return ExtractedModule(extracted, tagged, call, inputs, outputs)


@dataclass(frozen=True)
class _Boundary:
    """The nodes of an extracted model, in topological order, and what enters and leaves them."""

    nodes: Sequence[ir.Node]
    inputs: Sequence[ir.Value]
    initializers: Sequence[ir.Value]
    outputs: Sequence[ir.Value]

    @classmethod
    def of(cls, model: ir.Model, hierarchy: Hierarchy, call: str) -> _Boundary:
        """Find the nodes that have an origin in a call or below it, and the constants that they take."""
        region = _region_of(model, hierarchy, call)
        outputs = [value for value in region.leaving if _is_returned(value, region, hierarchy, call)]
        constants = _constants(model)
        needed: dict[ir.Value, None] = {}
        pending = region.entering
        while pending:
            value = pending.pop()
            producer = value.producer()
            if value in needed or producer is None or value not in constants:
                continue
            needed[value] = None
            pending += operands(producer)
        computed = {value.producer(): None for value in needed}
        region = Region.sorted([*filter(None, computed), *region.nodes], region.holders)
        inputs = [value for value in region.entering if not value.is_initializer()]
        initializers = [value for value in region.entering if value.is_initializer()]
        return cls(region.nodes, _typed(model, inputs), initializers, _typed(model, outputs or region.leaving))

    def copied(self, model: ir.Model) -> ir.Model:
        """Return a copy of the nodes as a model of its own."""
        view = ir.GraphView(
            self.inputs,
            self.outputs,
            nodes=self.nodes,
            initializers=self.initializers,
            opset_imports=model.graph.opset_imports,
            name=model.graph.name,
        )
        copy = ir.Model(
            view.clone(),
            ir_version=model.ir_version,
            producer_name=model.producer_name,
            producer_version=model.producer_version,
            metadata_props=dict(model.metadata_props),
            functions=list(model.functions.values()),
        )
        RemoveUnusedFunctionsPass()(copy)  # type: ignore[no-untyped-call]  # onnx_ir leaves its signature open
        return copy


def _region_of(model: ir.Model, hierarchy: Hierarchy, call: str) -> Region:
    """Return the nodes of a call in the innermost graph that has all of them, itself or in graphs that nodes hold."""
    held_by = holders(model)

    @cache
    def is_own(origins: Origins) -> bool:
        return any(hierarchy.within(origin.call, call) for origin in origins)

    def path(node: ir.Node) -> list[ir.Node]:
        """Return the nodes that hold a node, the outermost first, and the node itself."""
        found = [node]
        while isinstance(found[0].graph, ir.Graph) and found[0].graph in held_by:
            found.insert(0, held_by[found[0].graph])
        return found

    paths = [path(node) for node in model.graph.all_nodes() if is_own(origins_of(node))]
    if not paths:
        raise UsageError(
            f"nodes of the module call {call!r}",
            found="none: it returns its inputs, was folded into a constant, or was optimized away",
            do=f"extract the call that made it: {hierarchy[call].parent or '/'}",
        )
    depth = 0
    while all(len(nodes) > depth + 1 for nodes in paths) and len({nodes[depth + 1].graph for nodes in paths}) == 1:
        depth += 1
    return Region.sorted([*dict.fromkeys(nodes[depth] for nodes in paths)], held_by)


def _is_returned(value: ir.Value, region: Region, hierarchy: Hierarchy, call: str) -> bool:
    """Whether a value leaves a call for a node that does not compute it together with the call."""
    producer = value.producer()
    shared = [] if producer is None else [o.call for o in origins_of(producer) if not hierarchy.within(o.call, call)]

    def computes(consumer: str) -> bool:
        """Whether an owner of the value is the consuming call, or below its ancestor that is beside the call."""
        beside = [name for name in hierarchy.lineage(consumer) if not hierarchy.within(call, name)]
        return any(owner == consumer or (beside and hierarchy.within(owner, beside[-1])) for owner in shared)

    consumers = region.consumers_outside([value])
    return value.is_graph_output() or any(
        not any(computes(origin.call) for inner in nodes_inside([node]) for origin in origins_of(inner))
        for node in consumers
    )


def _constants(model: ir.Model) -> set[ir.Value]:
    """Return the computed values that depend on no input of the graph."""
    found: set[ir.Value] = set()
    for node in model.graph.all_nodes():
        fixed = all(value is None or value.is_initializer() or value in found for value in node.inputs)
        known = node.op_identifier() not in model.functions and next(subgraphs_ir(node), None) is None
        opset = model.opset_imports.get(node.domain, 1)
        if fixed and known and is_deterministic(node.op_type, opset, node.domain):
            found.update(node.outputs)
    return found


def _typed(model: ir.Model, values: Sequence[ir.Value]) -> Sequence[ir.Value]:
    """Return the values, each with a type: the file states it, or ONNX infers it.

    Raises:
        UsageError: The type of a value remains unknown.
    """
    if any(value.type is None or value.shape is None for value in values):
        # Data propagation takes time and memory that grow with the elements of a long chain of nodes.
        ShapeInferencePass(check_type=False, strict_mode=False, data_prop=False)(model)
    untyped = next((value for value in values if value.type is None), None)
    if untyped is not None:
        raise UsageError(
            "a type for each value that enters or leaves the module",
            found=f"none for {untyped.name!r}, and ONNX cannot infer it",
            do="export the model again; torch's exporters state the types of all values",
        )
    return values


def _needed(hierarchy: Hierarchy, call: str, used: Collection[str]) -> Hierarchy:
    """Return the call, those below and above it and the origins that are used, with siblings that decide on tags."""
    above = {name for origin in (call, *used) for name in hierarchy.lineage(origin)}
    below = {name for name in hierarchy if hierarchy.within(name, call)}
    siblings = {child for name in above for child in hierarchy.children[name]}
    kept = above | below | siblings
    needed = Hierarchy([made for name, made in hierarchy.items() if name in kept], hierarchy.keep)
    is_same = all(needed.tag(name) == hierarchy.tag(name) for name in above | below)
    return needed if is_same else hierarchy


def _rename(
    olds: Sequence[ir.Value], news: Sequence[ir.Value], names: Mapping[ir.Value, str], taken: set[str]
) -> dict[str, str]:
    """Give values their new names, unless another value has one; return all names by the old ones."""
    renamed = {}
    for old, new in zip(olds, news, strict=True):
        name = names.get(old)
        if name and name not in taken:
            new.name = name
            taken.add(name)
        renamed[str(old.name)] = str(new.name)
    return renamed
