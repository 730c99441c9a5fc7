"""Copies a model as one flat list of nodes, subgraphs and function calls expanded.

Transformations work in place, so both graphs are copied before they are compared. The nodes of a subgraph follow the
node that holds it. The body of a function is copied once for every call, with the call's values in place of the
function's inputs: a graph whose functions a tool inlined gives the same copy.

In goes a model of onnx_ir; out comes a :class:`Flat`, by :func:`flat_copy`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import onnx_ir as ir

from pytest_hierexport._calls.names import encode
from pytest_hierexport._carry.definitions import arity, attributes, is_pure, stated
from pytest_hierexport._carry.flat import Flat, Node, Value
from pytest_hierexport._carry.tensors import constant_tensor, tensor_key
from pytest_hierexport._onnx.graph import function_prefix, node_key, subgraphs_ir
from pytest_hierexport._onnx.order import topological_order


def flat_copy(model: ir.Model) -> Flat:
    """Return a flat copy of a model."""
    return _Copier(model).copy()


_Scope = dict[ir.Value, Value]


@dataclass(frozen=True)
class _Place:
    """What nodes are in: the main graph, a subgraph, or one call of a function."""

    prefix: str
    scope: _Scope
    parent: Node | None = None
    results: Mapping[ir.Value, str] = field(default_factory=dict)
    """The names of a function's outputs at its call."""
    named: bool = True
    """Whether names are unique in the model: those inside a function are not."""
    passed: Mapping[str, ir.Attr] = field(default_factory=dict)
    """The attributes that the call passes to the function."""

    def name(self, value: ir.Value) -> str:
        """Return the name in the model of a value that is computed here."""
        return self.results.get(value, self.label(value.name or ""))

    def label(self, name: str) -> str:
        """Return a name in the model, given the name here; empty inside a function."""
        return self.prefix + encode(name) if self.named else ""


class _Copier:
    def __init__(self, model: ir.Model) -> None:
        self.model = model
        self.flat = Flat(opsets=dict(model.opset_imports))

    def copy(self) -> Flat:
        graph = self.model.graph
        place = _Place("", {})
        for name, value in graph.initializers.items():
            self.flat.initializers[name] = self._leaf(place, value, place.label(name), ("initializer", name))
        for i, value in enumerate(graph.inputs):
            if value not in place.scope:
                copied = self._leaf(place, value, place.name(value), ("input", place.prefix, i), varying=True)
                self.flat.inputs.append(copied)
        self._nodes(graph, place)
        self.flat.outputs = [self._copied(place, value) for value in graph.outputs]
        return self.flat

    def _leaf(self, place: _Place, value: ir.Value, name: str, leaf: Hashable, *, varying: bool = False) -> Value:
        tensor = value.const_value
        content = tensor_key(tensor)
        known = leaf if content is None else content
        copied = Value(name, value.dtype, _shape(value), varying=varying, leaf=known, tensor=tensor)
        place.scope[value] = copied
        self.flat.leaves.append(copied)
        if name:
            self.flat.named[name] = copied
        return copied

    def _nodes(self, graph: Any, place: _Place) -> None:
        for position, node in topological_order(list(graph), _all_operands, lambda node: node.outputs):
            key = place.prefix + node_key([output.name or "" for output in node.outputs], position)
            self._node(node, key, place)

    def _node(self, node: ir.Node, key: str, place: _Place) -> None:
        function = self.model.functions.get(node.op_identifier())
        opsets, given = self.model.opset_imports, stated(node, place.passed)
        inputs = tuple(None if value is None else self._copied(place, value) for value in _given(node))
        outer = tuple(place.scope[value] for value in _captured(node) if value in place.scope)
        copied = Node(
            key=key,
            operator=node.op_identifier(),
            stated=given,
            attributes=attributes(node, opsets, given),
            inputs=inputs,
            outputs=self._outputs(node, given, place, (*inputs, *outer)) if function is None else (),
            outer=outer,
            arity=arity(node, opsets),
            pure=is_pure(node, opsets),
            parent=place.parent,
            source=node,
        )
        self.flat.nodes.append(copied)
        self.flat.named.update((value.name, value) for value in copied.outputs if value.name)
        if function is not None:
            self._body(copied, function, place)
        for name, graph in subgraphs_ir(node):
            self._subgraph(graph, copied, replace(place, prefix=f"{key}/{name}/", parent=copied))

    def _outputs(
        self, node: ir.Node, given: Mapping[str, ir.Attr], place: _Place, operands: Iterable[Value | None]
    ) -> tuple[Value, ...]:
        varying = any(value.varying for value in operands if value is not None)
        tensor = constant_tensor(node, given)
        content = tensor_key(tensor)
        leaf = ("constant", id(tensor)) if content is None and tensor is not None else content
        for output in node.outputs:
            value = Value(place.name(output), output.dtype, _shape(output), varying=varying, leaf=leaf, tensor=tensor)
            place.scope[output] = value
        return tuple(place.scope[output] for output in node.outputs)

    def _subgraph(self, graph: ir.Graph, holder: Node, place: _Place) -> None:
        for name, value in graph.initializers.items():
            copied = self._leaf(place, value, place.label(name), ("initializer", place.prefix, name))
            self.flat.initializers[place.prefix + encode(name)] = copied
        holder.body_inputs += tuple(
            self._leaf(place, value, place.name(value), ("input", place.prefix, i), varying=True)
            for i, value in enumerate(graph.inputs)
        )
        self._nodes(graph, place)
        holder.body_outputs += tuple(self._copied(place, value) for value in graph.outputs)

    def _body(self, call: Node, function: ir.Function, place: _Place) -> None:
        """Copy the function's body in place of the call, which itself has no outputs."""
        results = list(zip(function.outputs, call.source.outputs, strict=False))
        given = zip(function.inputs, call.inputs, strict=False)
        body = _Place(
            prefix=function_prefix(*call.source.op_identifier()),
            scope={inner: value for inner, value in given if value is not None},
            parent=call,
            results={inner: place.name(outer) for inner, outer in results},
            named=False,
            passed={**{n: each for n, each in function.attributes.items() if each.value is not None}, **call.stated},
        )
        self._nodes(function, body)
        for inner, outer in results:
            place.scope[outer] = self._copied(body, inner)

    def _copied(self, place: _Place, value: ir.Value) -> Value:
        """Return the copy of a value; an undeclared one (an input left out of a call) is a leaf of its own."""
        if value in place.scope:
            return place.scope[value]
        return self._leaf(place, value, "", ("undeclared", len(self.flat.leaves)))


def _shape(value: ir.Value) -> tuple[int | str | None, ...] | None:
    if value.shape is None:
        return None
    return tuple(dim if isinstance(dim, int) else dim.value for dim in value.shape)


def _given(node: ir.Node) -> Sequence[ir.Value | None]:
    """Return the inputs of a node without absent ones at the end: tools drop these."""
    count = max((i for i, value in enumerate(node.inputs, 1) if value is not None), default=0)
    return node.inputs[:count]


def _all_operands(node: ir.Node) -> Iterator[ir.Value]:
    yield from (value for value in node.inputs if value is not None)
    yield from _captured(node)


def _captured(node: ir.Node) -> Iterable[ir.Value]:
    """Return the values that the nodes in a node's subgraphs take: those from outside are among them.

    ONNX lets no subgraph return a value from outside: an `Identity` takes it.
    """
    inner = (each for _, graph in subgraphs_ir(node) for each in graph.all_nodes())
    return dict.fromkeys(value for each in inner for value in each.inputs if value is not None)
