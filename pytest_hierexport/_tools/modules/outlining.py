"""Turns modules into ONNX functions: one node replaces the nodes of a call, and calls a function that contains them.

    before                          origins         after                            origins
    h = MatMul(x, layer.0.w)        layer.0.fc      y = Layer(x, layer.0.w)          layer.0
    y = Relu(h)                     layer.0         z = Layer(y, layer.1.w)          layer.1
    i = MatMul(y, layer.1.w)        layer.1.fc      function Layer(x, w):
    z = Relu(i)                     layer.1           h = MatMul(x, w)               layer.0.fc, layer.1.fc
                                                      y = Relu(h)                    layer.0, layer.1

A node belongs to the nearest common call of its origins, so a mask of two layers stays outside both functions. Callees
are replaced before callers: the function of a layer calls that of its attention. If the new node would close a cycle,
the nodes of the region that cause it stay in the caller.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any

import onnx_ir as ir
from onnx_ir.passes.common import TopologicalSortPass

from pytest_hierexport._calls.attribution import Attribution, Evidence, Origin, order_origins
from pytest_hierexport._onnx.graph import subgraphs_ir, walk
from pytest_hierexport._onnx.inlining import name_results
from pytest_hierexport._onnx.ir_tags import write
from pytest_hierexport._onnx.models import Model
from pytest_hierexport._text import numbered
from pytest_hierexport._tools.modules.body import DOMAIN, function_of, region_key
from pytest_hierexport._tools.modules.choice import chosen_calls
from pytest_hierexport._tools.modules.flattening import working_copy
from pytest_hierexport._tools.modules.region import (
    Region,
    attribution_on,
    holders,
    keep_origins,
    nodes_inside,
    note_origins,
    origins_of,
)
from pytest_hierexport._tools.tagged_file import module_tree


@dataclass
class ModuleFunction:
    """An ONNX function that replaced the nodes of module calls."""

    name: str
    cls: str
    """The qualified class of the modules."""
    calls: list[str]
    """The calls whose nodes it replaced."""
    nodes: int
    """The number of nodes in the function, those of subgraphs included."""


@dataclass(frozen=True)
class ModelWithFunctions:
    """A tagged model whose modules are ONNX functions; it shares the tensors of the original model."""

    model: ir.Model
    attribution: Attribution
    functions: tuple[ModuleFunction, ...]
    outside: Mapping[str, tuple[str, ...]]
    """By node key: the chosen calls that own the node, but whose function does not contain it. These are nodes of
    several calls, and nodes that would close a cycle."""


def modules_as_functions(
    model: Model, attribution: Attribution, *, depth: int | None = None, module: str | None = None
) -> ModelWithFunctions:
    """Return a copy of a model in which modules are ONNX functions; equal modules share a function.

    Two modules are equal if they have the same class and equal nodes, except for names and initializers; initializers
    become inputs of the function. A node in a shared function has the origins of all nodes that it replaced.

    Args:
        model: A path, a protobuf message or an onnx_ir model.
        attribution: The origins of its nodes.
        depth: Only modules whose tags have this number of segments below the root's.
        module: Only modules that match this pattern, as in :func:`select_nodes`. Without depth and pattern, all modules
            with a segment in tags, except the root, are replaced; functions call functions then.

    Raises:
        UsageError: No module matches, or the file is not ONNX.
    """
    calls = chosen_calls(attribution.hierarchy, module_tree(model), depth=depth, pattern=module)
    copied = working_copy(model)
    outliner = _Outliner(copied, attribution, frozenset(calls))
    for call in reversed(calls):
        outliner.outline(call)
    functions = outliner.named()
    TopologicalSortPass()(copied)
    tagged = attribution_on(copied, attribution.hierarchy)
    write(copied, tagged, "both", shared=True)
    return ModelWithFunctions(copied, tagged, functions, outliner.outside)


def as_dict(made: ModelWithFunctions) -> dict[str, Any]:
    """Return the functions, and the nodes outside them, as an object for JSON."""
    return {
        "functions": [asdict(function) for function in made.functions],
        "outside": {key: list(calls) for key, calls in made.outside.items()},
    }


@dataclass
class _Outliner:
    """Replaces the nodes of calls by nodes that call functions, callees before callers."""

    model: ir.Model
    attribution: Attribution
    chosen: frozenset[str]
    functions: dict[Hashable, ModuleFunction] = field(default_factory=dict)
    """By the class and the key of the regions that share the function."""
    outside: dict[str, tuple[str, ...]] = field(default_factory=dict)
    shared: dict[ir.Node | ir.Value, list[Origin]] = field(default_factory=dict)
    """By node or initializer of a shared function: its origins, and those of the parts that it replaced."""

    def __post_init__(self) -> None:
        """Give each node to the nearest chosen call that all its origins have in common."""
        keep_origins(self.model, self.attribution)
        name_results(self.model)
        self._hierarchy = self.attribution.hierarchy
        self._nearest = cache(self._nearest_chosen)
        self._common = cache(self._hierarchy.common)
        self._keys = {node: key for key, node in walk(self.model)}
        self._holders = holders(self.model)
        # ONNX Runtime refuses a model in which two nodes have the same name.
        self._labels = {node.name for node in self._keys}
        self._enclosing: dict[ir.Graph, str | None] = {}
        self._waiting: dict[str, dict[ir.Graph, list[ir.Node]]] = defaultdict(dict)
        self._taken = {name for domain, name, _ in self.model.functions if domain == DOMAIN}
        self._scan(self.model.graph, None)

    def _nearest_chosen(self, call: str | None) -> str | None:
        if call is None:
            return None
        return next((name for name in self._hierarchy.lineage(call) if name in self.chosen), None)

    def _place(self, node: ir.Node) -> str | None:
        """Return the nearest chosen call that contains all origins of a node and of the nodes in its subgraphs."""
        several = [origins_of(inner) for inner in nodes_inside([node])]
        if not all(several):
            return None
        return self._nearest(self._common(frozenset(origin.call for origins in several for origin in origins)))

    def _scan(self, graph: ir.Graph, enclosing: str | None) -> None:
        self._enclosing[graph] = enclosing
        for node in graph:
            place = self._place(node)
            self._wait(place, graph, node)
            above = {None} if place is None else {None, *self._hierarchy.lineage(place)}
            lacking = {self._nearest(origin.call) for origin in origins_of(node)} - above
            self._leave_out(node, [call for call in lacking if call is not None])
            for _, below in subgraphs_ir(node):
                self._scan(below, place)

    def _leave_out(self, node: ir.Node, calls: list[str]) -> None:
        if calls and node in self._keys:
            key = self._keys[node]
            known = {*self.outside.get(key, ()), *calls}
            self.outside[key] = tuple(sorted(known, key=self._hierarchy.position.__getitem__))

    def _wait(self, call: str | None, graph: ir.Graph, node: ir.Node) -> None:
        """Add a node to those that a call's function will contain.

        Not so for a node of a subgraph whose holder has the same call: it moves with the holder.
        """
        if call is not None and call != self._enclosing[graph]:
            self._waiting[call].setdefault(graph, []).append(node)

    def outline(self, call: str) -> None:
        """Replace the nodes of a call by a node that calls a function, once in each graph that has such nodes."""
        caller = self._nearest(self._hierarchy[call].parent)
        for graph, nodes in self._waiting.pop(call, {}).items():
            whole = Region.sorted(nodes, self._holders)
            region = Region(whole.convex_part(), self._holders)
            left = [node for node in whole.nodes if node not in region.inside]
            if region.leaving:
                left.append(self._replaced(region, graph, call))
            else:
                left = nodes
            for node in left:
                self._leave_out(node, [call])
                self._wait(caller, graph, node)

    def _replaced(self, region: Region, graph: ir.Graph, call: str) -> ir.Node:
        """Replace a region by a node that calls its function; return that node."""
        name = self._function(region, call)
        label = next(label for label in numbered(self._hierarchy.tag(call), "_") if label not in self._labels)
        self._labels.add(label)
        node = ir.Node(DOMAIN, name, region.entering, num_outputs=len(region.leaving), name=label)
        note_origins(node, (Origin(call, Evidence.TRACED),))
        for old, new in zip(region.leaving, node.outputs, strict=True):
            new.metadata_props.update(old.metadata_props)
        last = region.nodes[-1]
        ir.convenience.replace_nodes_and_values(graph, last, region.nodes, [node], region.leaving, node.outputs)
        return node

    def _function(self, region: Region, call: str) -> str:
        """Return the name of the function for a region; a function is made if no equal region has one."""
        for node in region.nodes:
            for _, below in subgraphs_ir(node):
                below.sort()  # a node that replaced others stands where the last of them did, behind its consumers
        module = self._hierarchy[call]
        key = module.cls, region_key(region, self.model.opset_imports)
        known = self.functions.get(key)
        if known is None:
            name = next(name for name in numbered(module.class_name, "_") if name not in self._taken)
            self._taken.add(name)
            function = function_of(region, name, module.path, self.model.opset_imports)
            self.model.functions[function.identifier()] = function
            known = self.functions[key] = ModuleFunction(name, module.cls, [], sum(1 for _ in nodes_inside(function)))
        else:
            function = self.model.functions[DOMAIN, known.name, ""]
            self._share(function, region.nodes)
        known.calls.insert(0, call)
        _detach(region.nodes)
        return known.name

    def named(self) -> tuple[ModuleFunction, ...]:
        """Number the functions of a class in execution order, callers first, and return them.

        Their nodes get the origins of all nodes that they replaced, here and not one by one before, which would take
        quadratic time.
        """
        for part, origins in self.shared.items():
            note_origins(part, order_origins(self._hierarchy, origins))
        made = tuple(reversed(self.functions.values()))
        by_class: dict[str, list[str]] = defaultdict(list)
        for each in self.functions.values():
            by_class[self._hierarchy[each.calls[0]].class_name].append(each.name)
        new = {each.name: by_class[self._hierarchy[each.calls[0]].class_name].pop(0) for each in made}
        bodies = {each.name: self.model.functions.pop((DOMAIN, each.name, "")) for each in made}
        # onnx's reference evaluator needs a function before its callers.
        for each in self.functions.values():
            body = bodies[each.name]
            each.name = body.name = new[each.name]
            self.model.functions[body.identifier()] = body
        for _, node in walk(self.model):
            if node.domain == DOMAIN:
                node.op_type = new.get(node.op_type, node.op_type)
        if made:
            self.model.opset_imports[DOMAIN] = 1
        return made

    def _share(self, kept: Iterable[ir.Node], dropped: Iterable[ir.Node]) -> None:
        """Collect the origins of the nodes that a function's nodes replace, and of the initializers in subgraphs."""
        for part, equal in zip(_parts(kept), _parts(dropped), strict=True):
            self.shared.setdefault(part, [*origins_of(part)]).extend(origins_of(equal))


def _parts(nodes: Iterable[ir.Node]) -> Iterator[ir.Node | ir.Value]:
    """Yield nodes and those of their subgraphs, each followed by the initializers of its subgraphs."""
    for node in nodes_inside(nodes):
        yield node
        for _, graph in subgraphs_ir(node):
            yield from graph.initializers.values()


def _detach(nodes: Iterable[ir.Node]) -> None:
    """Remove all inputs of the nodes in subgraphs.

    The holders are removed next. onnx_ir would keep the nodes in their subgraphs as consumers of the inputs.
    """
    for node in nodes:
        for _, graph in subgraphs_ir(node):
            for inner in nodes_inside(graph):
                inner.resize_inputs(0)
