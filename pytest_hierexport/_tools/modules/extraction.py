"""Extracts one module call from a model as a separate model.

The new model has every node with an origin in the call or below it, also those that other calls own too, and the
constants that these nodes need. Its inputs are the other values that these nodes consume. Its outputs are the values
that other calls consume, unless a consuming call co-owns the value's producer.

    k = Abs(m)       layer.0 and layer.1     extract layer.0    inputs  m, x
    y = Add(x, k)    layer.0                                    nodes   k, y
    z = Add(y, k)    layer.1                                    outputs y
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedFunctionsPass

from pytest_hierexport._calls.attribution import Attribution
from pytest_hierexport._calls.hierarchy import ROOT, Hierarchy
from pytest_hierexport._calls.modules import Module
from pytest_hierexport._calls.names import upwards
from pytest_hierexport._calls.patterns import calls_below
from pytest_hierexport._carry.definitions import is_pure
from pytest_hierexport._errors import UsageError
from pytest_hierexport._onnx.absent import fill_absent, stored_bytes
from pytest_hierexport._onnx.graph import initializers_ir, inventory_ir
from pytest_hierexport._onnx.ir_tags import write
from pytest_hierexport._onnx.models import Model
from pytest_hierexport._tools.modules.choice import named_call
from pytest_hierexport._tools.modules.flattening import flatten, working_copy
from pytest_hierexport._tools.modules.region import (
    Region,
    attribution_on,
    holders,
    nodes_inside,
    operands,
    origins_of,
    values_in,
)
from pytest_hierexport._tools.tagged_file import module_tree

if TYPE_CHECKING:
    from pytest_hierexport._proof.eager import Runnable

_LONGEST_SHAPE = 1024
"""The most bytes of a constant that type inference reads: shapes and axes are smaller."""


@dataclass(frozen=True)
class ExtractedModule:
    """One module call as a separate, tagged model, which shares the tensors of the whole model."""

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
    """Return a summary of the extracted model as an object for JSON."""
    return {
        "call": made.call,
        "tag": made.attribution.hierarchy.tag(made.call),
        "nodes": len(made.attribution.nodes),
        "initializers": len(made.model.graph.initializers),
        "inputs": {new: old for old, new in made.inputs.items()},
        "outputs": {new: old for old, new in made.outputs.items()},
    }


def modules_below(modules: Iterable[Module], hierarchy: Hierarchy, call: str) -> tuple[Module, ...]:
    """Return the module instances that run in a call, all below them, and, without parameters, those of other calls."""
    if call == ROOT:
        return tuple(modules)
    paths = {made.path for name, made in hierarchy.items() if hierarchy.within(name, call)}
    called = {made.path for made in hierarchy.values()}
    placed = ((module, not paths.isdisjoint(upwards(module.path))) for module in modules)
    kept = ((module, inside) for module, inside in placed if inside or module.path in called)
    return tuple(module if inside else replace(module, parameters=()) for module, inside in kept)


def extract(model: Model, attribution: Attribution, module: str, example: Runnable | None = None) -> ExtractedModule:
    """Extract one module call as a separate model; functions are inlined.

    Values keep their names. If the PyTorch model is given, an input that equals an argument of the module's `forward`
    gets the parameter's name, and an output that equals a part of the result gets the name of this part.

    Args:
        model: A path, a protobuf message or an onnx_ir model.
        attribution: The origins of its nodes.
        module: A pattern that names one module, as :func:`select_nodes` takes it, with `@k` from the second run on.
        example: The PyTorch model with its inputs, whose weights are those of the file.

    Raises:
        UsageError: There is no such call, there are several, it has no node, or a type or shape at its boundary is
            unknown.
    """
    hierarchy = attribution.hierarchy
    call = named_call(hierarchy, module, module_tree(model))
    whole = working_copy(model)
    flat = flatten(whole, attribution)
    boundary = _boundary(whole, hierarchy, call)
    names: dict[ir.Value, str] = {}
    if example is not None:
        from pytest_hierexport._tools.modules.forward_names import forward_names

        names = forward_names(example, whole, flat, call, inputs=boundary.inputs, outputs=boundary.outputs)
    graph = boundary.clone()
    extracted = ir.Model(
        graph,
        ir_version=whole.ir_version,
        producer_name=whole.producer_name,
        producer_version=whole.producer_version,
        metadata_props=dict(whole.metadata_props),
        functions=list(whole.functions.values()),
    )
    RemoveUnusedFunctionsPass()(extracted)  # type: ignore[no-untyped-call]  # onnx_ir leaves its signature open
    taken = {str(value.name) for value in values_in(graph)}
    inputs = _rename(boundary.inputs, graph.inputs, names, taken)
    outputs = _rename(boundary.outputs, graph.outputs, names, taken)
    used = {origin.call for _, part in inventory_ir(extracted).elements() for origin in origins_of(part)}
    tagged = attribution_on(extracted, _needed(hierarchy, call, used))
    write(extracted, tagged, "both", shared=True)
    return ExtractedModule(extracted, tagged, call, inputs, outputs)


def _unused(region: Region) -> list[ir.Value]:
    """Return the values of a region that nothing takes."""
    return [value for node in region.nodes for value in node.outputs if value.name and not value.uses()]


def _boundary(model: ir.Model, hierarchy: Hierarchy, call: str) -> ir.GraphView:
    """Return the nodes with an origin in a call or below it, and the constants that they need, in topological order."""
    region = _region_of(model, hierarchy, call)
    returned = [value for value in region.leaving if _is_returned(value, region, hierarchy, call)]
    outputs = returned or region.leaving or _unused(region)
    constants = _constants(model)
    computed: dict[ir.Node, None] = {}
    pending = [*region.entering]
    while pending:
        value = pending.pop()
        producer = value.producer()
        if value in constants and producer is not None and producer not in computed:
            computed[producer] = None
            pending += operands(producer)
    region = Region.sorted([*computed, *region.nodes], region.holders)
    return ir.GraphView(
        _typed(model, [each for each in region.entering if each.is_graph_input() or not each.is_initializer()]),
        _typed(model, outputs),
        nodes=region.nodes,
        initializers=[value for value in region.entering if value.is_initializer()],
        opset_imports=model.graph.opset_imports,
        name=model.graph.name,
    )


def _region_of(model: ir.Model, hierarchy: Hierarchy, call: str) -> Region:
    """Return the nodes of a call, and of those below it, in the innermost graph that contains them all.

    A node of a subgraph is represented by the node of that graph that holds the subgraph.
    """
    held_by, below = holders(model), calls_below(hierarchy, [call])

    def path(node: ir.Node) -> list[ir.Node]:
        """Return the holders of a node, the outermost first, and the node itself."""
        nodes = [node]
        while isinstance(nodes[0].graph, ir.Graph) and nodes[0].graph in held_by:
            nodes.insert(0, held_by[nodes[0].graph])
        return nodes

    paths = [path(node) for node in model.graph.all_nodes() if any(o.call in below for o in origins_of(node))]
    if not paths:
        raise UsageError(
            f"nodes of the module call {call!r}",
            found="none: it returns its inputs, was folded into a constant, or was optimized away",
            do=f"extract the call that made it: {hierarchy[call].parent or hierarchy.tag(ROOT)}",
        )
    depth = 0
    while all(len(nodes) > depth + 1 for nodes in paths) and len({nodes[depth + 1].graph for nodes in paths}) == 1:
        depth += 1
    return Region.sorted([*dict.fromkeys(nodes[depth] for nodes in paths)], held_by)


def _is_returned(value: ir.Value, region: Region, hierarchy: Hierarchy, call: str) -> bool:
    """Whether a value is an output of the graph, or has a consumer outside none of whose calls computes it too."""
    producer = value.producer()
    owners = () if producer is None else origins_of(producer)
    shared = [owner.call for owner in owners if not hierarchy.within(owner.call, call)]
    above = set(hierarchy.lineage(call))

    def computes(consumer: str) -> bool:
        """Whether the consuming call, or a call below its outermost ancestor beside the region's, co-owns the value."""
        beside = [name for name in hierarchy.lineage(consumer) if name not in above]
        return any(owner == consumer or (beside and hierarchy.within(owner, beside[-1])) for owner in shared)

    consumers = region.consumers_outside([value])
    return value.is_graph_output() or any(
        not any(computes(origin.call) for inner in nodes_inside([node]) for origin in origins_of(inner))
        for node in consumers
    )


def _constants(model: ir.Model) -> set[ir.Value]:
    """Return the constants: the outputs of nodes that do not depend on a graph input."""
    constants: set[ir.Value] = set()
    for node in model.graph.all_nodes():
        fixed = all(value is None or value.is_initializer() or value in constants for value in node.inputs)
        if fixed and node.op_identifier() not in model.functions and is_pure(node, model.opset_imports):
            constants.update(node.outputs)
    return constants


def _typed(model: ir.Model, values: Sequence[ir.Value]) -> Sequence[ir.Value]:
    """Return the values after type inference, which runs if a type or shape is missing.

    Raises:
        UsageError: The type of a value, or the shape of a tensor, is still unknown: ONNX requires both at a boundary.
    """
    if any(value.type is None or value.shape is None for value in values):
        _infer(model)
    for value in values:
        is_tensor = isinstance(value.type, (ir.TensorType, ir.SparseTensorType))
        lacking = "type" if value.type is None else "shape" if is_tensor and value.shape is None else ""
        if lacking:
            raise UsageError(
                "a type and a shape for each value that enters or leaves the module",
                found=f"no {lacking} of {value.name!r} in the file, and ONNX cannot infer it",
                do="infer shapes by the tool that made the file, or extract from the export that the tool was given",
            )
    return values


def _infer(model: ir.Model) -> None:
    """State the types and shapes that ONNX infers; onnx_ir's pass, which does so, takes sequences for tensors."""
    import onnx

    copied = model.clone()
    for value in initializers_ir(copied):
        if stored_bytes(value.const_value) > _LONGEST_SHAPE:
            value.const_value = None
    fill_absent(copied)
    try:
        # Without data propagation: its time and memory grow with the number of elements in a long chain of nodes.
        inferred = ir.from_proto(onnx.shape_inference.infer_shapes(ir.to_proto(copied)))
    except Exception:  # noqa: BLE001  # onnx raises errors of several classes; what is lacking then is told
        return
    for graph, other in zip(model.graphs(), inferred.graphs(), strict=True):
        known = ir.convenience.create_value_mapping(other)
        for name, value in ir.convenience.create_value_mapping(graph).items():
            if name in known:
                value.type, value.shape = known[name].type, known[name].shape


def _needed(hierarchy: Hierarchy, call: str, used: Collection[str]) -> Hierarchy:
    """Return a smaller hierarchy: the call, the calls below it, the used origins, and the ancestors of all these.

    Their siblings are included, since keys in tags depend on them. If a tag would differ all the same, the whole
    hierarchy is returned.
    """
    above = {name for origin in (call, *used) for name in hierarchy.lineage(origin)}
    below = calls_below(hierarchy, [call])
    siblings = {child for name in above for child in hierarchy.children[name]}
    kept = above | below | siblings
    needed = Hierarchy([made for name, made in hierarchy.items() if name in kept], hierarchy.keep)
    is_same = all(needed.tag(name) == hierarchy.tag(name) for name in above | below)
    return needed if is_same else hierarchy


def _rename(
    olds: Sequence[ir.Value], news: Sequence[ir.Value], names: Mapping[ir.Value, str], taken: set[str]
) -> dict[str, str]:
    """Rename values, unless the new name is taken; return the resulting names by the old ones."""
    renamed = {}
    for old, new in zip(olds, news, strict=True):
        name = names.get(old)
        if name and name not in taken:
            new.name = name
            taken.add(name)
        renamed[str(old.name)] = str(new.name)
    return renamed
