"""Inlines a model's functions and the branches that are taken, so that each of their values can be computed.

A function's body replaces each call of it. An `If` stays where it is; the nodes of the branch that ran are copied
before it, and it counts as a consumer of what they return. Loops and functions of another operator version are not
entered: their node has the origins of all nodes inside it.

    before  y = If (c) <then_branch = { p = Relu(t) }, else_branch = { q = Abs(t) }>      c is true
    after   y/then_branch/p = Relu(t)                    key y/then_branch/p, holder y
            y = If (c) <as before>                       returned y/then_branch/p

onnx's own inliner inlines functions alone, and its names do not lead back to the keys of the nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import onnx

from pytest_hierexport._calls.attribution import Attribution
from pytest_hierexport._onnx.graph import function_prefix, node_key, subgraphs_proto
from pytest_hierexport._onnx.order import topological_order
from pytest_hierexport._proof.steps import Site, Step
from pytest_hierexport._proof.subgraphs import captured, renamed
from pytest_hierexport._proof.tolerance import Array

__all__ = ["Inlining"]

_FunctionId = tuple[str, str, str]
Run = Callable[[Sequence[str]], Mapping[str, Array]]
"""Runs the model as it is and returns the named values."""


@dataclass(frozen=True)
class _Scope:
    """The graph or body whose nodes become steps."""

    prefix: str = ""
    """The beginning of the key of each node."""
    label: str = ""
    """The beginning of each copied value's name; empty for nodes of the main graph, which are not copied."""
    names: dict[str, str] = field(default_factory=dict)
    """The new names of the values so far."""
    holders: tuple[Step, ...] = ()
    site: Site | None = None
    arguments: Mapping[str, onnx.AttributeProto] | None = None
    """The attributes of the function call."""


class Inlining:
    """The steps of a model.

    Args:
        proto: The model. It is changed: its graph comes to hold a node for each step.
        attribution: The origins of its nodes.
    """

    def __init__(self, proto: onnx.ModelProto, attribution: Attribution) -> None:
        """Inline the functions; :meth:`enter_branches` inlines branches."""
        self.proto = proto
        self._attribution = attribution
        self._functions = {_identity(function): function for function in proto.functions}
        self._fitting = {identity for identity, function in self._functions.items() if self._fits(function)}
        self._siblings: dict[object, list[Site]] = {}
        self._taken = {value for node in proto.graph.node for value in (*node.input, *node.output)}
        self.steps = list(self._steps(list(proto.graph.node), _Scope()))
        if self._functions:
            self._write()
        if len(self._fitting) == len(self._functions) and not any(
            any(subgraphs_proto(step.node)) for step in self.steps
        ):
            del proto.functions[:]

    def enter_branches(self, run: Run) -> None:
        """Inline the branches that are taken, and those inside them.

        torch's own export examples need it (`cond_branch_class_method`): their modules run in branches of `torch.cond`.
        """
        entered: set[Step] = set()
        while pending := [step for step in self.steps if _branches(step.node) and step not in entered]:
            conditions = {step: f"{_name(step.node, step.key)}//condition" for step in pending}
            self._write(onnx.helper.make_node("Identity", [s.node.input[0]], [name]) for s, name in conditions.items())
            answers = run(list(conditions.values()))
            steps: list[Step] = []
            for step in self.steps:
                if step in conditions:
                    steps += self._branch(step, taken=bool(answers[conditions[step]].all()))
                    entered.add(steps[-1])
                else:
                    steps.append(step)
            self.steps = steps
            self._write()

    def _write(self, further: Iterable[onnx.NodeProto] = ()) -> None:
        """Make the graph hold the steps and further nodes."""
        del self.proto.graph.node[:]
        self.proto.graph.node.extend([*(step.node for step in self.steps), *further])

    def _steps(self, nodes: Iterable[onnx.NodeProto], scope: _Scope) -> Iterator[Step]:
        for position, node in topological_order(list(nodes), _inputs, lambda node: filter(None, node.output)):
            key = scope.prefix + node_key(node.output, position)
            copy = self._copied(node, scope) if scope.label else node
            if _called(node) in self._fitting:
                yield from self._function(key, copy, scope)
            else:
                yield Step(key, copy, scope.holders, scope.site, inside=self._keys_inside(key, copy))

    def _copied(self, node: onnx.NodeProto, scope: _Scope) -> onnx.NodeProto:
        for value in node.output:
            if value and value not in scope.names:
                scope.names[value] = self._unused(scope.label + value)
        copy = renamed(node, scope.names, scope.arguments)
        copy.name = ""  # no two nodes may have one name
        return copy

    def _unused(self, name: str) -> str:
        while name in self._taken:
            name += "'"
        self._taken.add(name)
        return name

    def _fits(self, function: onnx.FunctionProto) -> bool:
        """Whether a function is written for the operator versions of the model; add those that the model lacks."""
        versions = {opset.domain: opset.version for opset in self.proto.opset_import}
        if any(versions.get(opset.domain, opset.version) != opset.version for opset in function.opset_import):
            return False
        self.proto.opset_import.extend(opset for opset in function.opset_import if opset.domain not in versions)
        return True

    def _function(self, key: str, call: onnx.NodeProto, scope: _Scope) -> Iterator[Step]:
        """Yield the steps of the function that a node calls."""
        function = self._functions[_called(call)]
        origins = self._attribution.nodes.get(key, ())
        siblings = self._siblings.setdefault((_called(call), scope.site, scope.holders, frozenset(origins)), [])
        site = Site(origins, scope.site, siblings)
        siblings.append(site)
        names = dict.fromkeys(function.input, "") | dict(zip(function.input, call.input, strict=False))
        passed = []
        for inner, outer in zip(function.output, call.output, strict=False):
            if inner in names:
                passed.append((names[inner], outer))
            elif outer:
                names[inner] = outer
        arguments = {attribute.name: attribute for attribute in (*function.attribute_proto, *call.attribute)}
        label = f"{_name(call, key)}/{function.name}/"
        prefix = function_prefix(*_called(call))
        yield from self._steps(function.node, _Scope(prefix, label, names, scope.holders, site, arguments))
        for value, output in passed:
            yield Step(key, onnx.helper.make_node("Identity", [value], [output]), scope.holders, scope.site)

    def _keys_inside(self, key: str, node: onnx.NodeProto) -> tuple[str, ...]:
        """Return the keys of the nodes inside a node that is not entered."""
        prefixes = [function_prefix(*_called(node))] if _called(node) in self._functions else []
        if not _branches(node):
            prefixes += [f"{key}/{place}/" for place, _ in subgraphs_proto(node)]
        if not prefixes:
            return ()
        return tuple(inner for inner in self._attribution.nodes if inner.startswith(tuple(prefixes)))

    def _branch(self, step: Step, *, taken: bool) -> Iterator[Step]:
        """Yield the steps of the branch that an `If` ran, and its own step last."""
        attribute = "then_branch" if taken else "else_branch"
        body = dict(subgraphs_proto(step.node))[attribute]
        label = f"{_name(step.node, step.key)}/{attribute}/"
        names = {}
        for tensor in body.initializer:
            names[tensor.name] = self._unused(label + tensor.name)
            self.proto.graph.initializer.append(tensor)
            self.proto.graph.initializer[-1].name = names[tensor.name]
        scope = _Scope(f"{step.key}/{attribute}/", label, names, (*step.holders, step), step.site)
        yield from self._steps(body.node, scope)
        yield replace(step, returned=tuple(names.get(value.name, value.name) for value in body.output))


def _branches(node: onnx.NodeProto) -> bool:
    return node.op_type == "If" and node.domain in {"", "ai.onnx"}


def _identity(function: onnx.FunctionProto) -> _FunctionId:
    return function.domain, function.name, function.overload


def _called(node: onnx.NodeProto) -> _FunctionId:
    return node.domain, node.op_type, node.overload


def _inputs(node: onnx.NodeProto) -> Iterator[str]:
    yield from node.input
    yield from captured(node)


def _name(node: onnx.NodeProto, key: str) -> str:
    return next(filter(None, node.output), key)
