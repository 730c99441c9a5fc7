"""A model's nodes in the order in which they run, its functions, branches and loops entered.

A function's body stands in place of each call of it. A node that holds a branch or a loop stays where it is; the
bodies that ran are copied before it, one copy for each iteration, and read what the original read. So every value
inside a body has a name of its own and can be fetched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import onnx

from pytest_hierexport._calls.attribution import Attribution
from pytest_hierexport._onnx.graph import function_prefix, node_key, subgraphs_proto
from pytest_hierexport._onnx.order import topological_order
from pytest_hierexport._proof.bodies import body_of, captured, renamed
from pytest_hierexport._proof.control import Control, Question, control
from pytest_hierexport._proof.steps import Body, Site, Step
from pytest_hierexport._proof.values import Array

__all__ = ["Unrolling"]

ITERATIONS = 64
"""How many iterations of one loop are entered at most."""
STEPS = 20_000
"""How many steps bodies may add before each further loop is entered for one iteration only."""

_FunctionId = tuple[str, str, str]
Run = Callable[[Sequence[str]], Mapping[str, Array]]
"""Runs the model as it stands and returns the named values."""


@dataclass(frozen=True)
class _Place:
    """Where nodes are copied to."""

    prefix: str = ""
    """What stands before the key of each."""
    label: str = ""
    """What stands before the name of every value; empty where nodes are not copied at all."""
    names: dict[str, str] = field(default_factory=dict)
    """The new names of the values made so far."""
    bodies: tuple[Body, ...] = ()
    site: Site | None = None
    given: Mapping[str, onnx.AttributeProto] | None = None
    """The attributes of the function call."""


class Unrolling:
    """The steps of a model.

    Args:
        proto: The model. It is changed: its graph comes to hold a node for each step.
        attribution: The origins of its nodes.
    """

    def __init__(self, proto: onnx.ModelProto, attribution: Attribution) -> None:
        """Enter the functions; :meth:`follow` enters branches and loops."""
        self.proto = proto
        self.cut = False
        """Whether a loop was left before it ended."""
        self._attribution = attribution
        self._opset = next((opset.version for opset in proto.opset_import if opset.domain in {"", "ai.onnx"}), 1)
        self._functions = {_identity(function): function for function in proto.functions}
        self._fitting = {identity for identity, function in self._functions.items() if self._fits(function)}
        self._alike: dict[object, list[Site]] = {}
        self._followed: set[Step] = set()
        self._taken = {value for node in proto.graph.node for value in (*node.input, *node.output)}
        self._added = 0
        self.steps = list(self._enter(list(proto.graph.node), _Place()))
        if self._functions:
            self._write()
        holders = (step for step in self.steps if any(subgraphs_proto(step.node)))
        if len(self._fitting) == len(self._functions) and not any(holders):
            del proto.functions[:]

    def follow(self, run: Run) -> None:
        """Enter the branches that are taken and the iterations of loops, those inside them included."""
        while pending := {step: found for step in self.steps if (found := self._closed(step))}:
            questions = {step: found.question() for step, found in pending.items()}
            self._write(questions)
            answers = run([question.value for question in questions.values()])
            steps: list[Step] = []
            for step in self.steps:
                if step in pending:
                    steps += self._open(step, pending[step], answers[questions[step].value])
                else:
                    steps.append(step)
            self.steps = steps
            self._write()

    def _fits(self, function: onnx.FunctionProto) -> bool:
        """Whether a function is written for the operator versions of the model; add those that the model lacks."""
        versions = {opset.domain: opset.version for opset in self.proto.opset_import}
        if any(versions.get(opset.domain, opset.version) != opset.version for opset in function.opset_import):
            return False
        self.proto.opset_import.extend(opset for opset in function.opset_import if opset.domain not in versions)
        return True

    def _write(self, questions: Mapping[Step, Question] | None = None) -> None:
        """Make the graph hold the steps, and what answers the questions about some of them."""
        asked = questions or {}
        del self.proto.graph.node[:]
        for step in self.steps:
            question = asked.get(step)
            self.proto.graph.node.append(step.node if question is None else question.instead or step.node)
        self.proto.graph.node.extend(node for question in asked.values() for node in question.extra)

    def _enter(self, nodes: Iterable[onnx.NodeProto], place: _Place) -> Iterator[Step]:
        for position, node in topological_order(list(nodes), _read, lambda node: filter(None, node.output)):
            key = place.prefix + node_key(node.output, position)
            copy = self._copied(node, place) if place.label else node
            if _called(node) in self._fitting:
                yield from self._inline(key, copy, place)
            else:
                yield Step(key, copy, place.bodies, place.site, joined=self._unseen(key, copy))

    def _copied(self, node: onnx.NodeProto, place: _Place) -> onnx.NodeProto:
        for value in node.output:
            if value and value not in place.names:
                place.names[value] = self._fresh(place.label + value)
        copy = renamed(node, place.names, place.given)
        copy.name = ""  # no two nodes may have one name
        return copy

    def _fresh(self, name: str) -> str:
        while name in self._taken:
            name += "'"
        self._taken.add(name)
        return name

    # functions

    def _inline(self, key: str, call: onnx.NodeProto, place: _Place) -> Iterator[Step]:
        function = self._functions[_called(call)]
        origins = self._attribution.nodes.get(key, ())
        alike = self._alike.setdefault((_called(call), place.site, place.bodies, frozenset(origins)), [])
        site = Site(origins, place.site, alike)
        alike.append(site)
        names = dict.fromkeys(function.input, "") | dict(zip(function.input, call.input, strict=False))
        passed = []
        for inner, outer in zip(function.output, call.output, strict=False):
            if inner in names:
                passed.append((names[inner], outer))
            elif outer:
                names[inner] = outer
        given = {attribute.name: attribute for attribute in (*function.attribute_proto, *call.attribute)}
        label = f"{_name(call, key)}/{function.name}/"
        prefix = function_prefix(*_called(call))
        yield from self._enter(function.node, _Place(prefix, label, names, place.bodies, site, given))
        for value, output in passed:
            yield Step(key, onnx.helper.make_node("Identity", [value], [output]), place.bodies, place.site)

    # what cannot be entered

    def _unseen(self, key: str, node: onnx.NodeProto) -> tuple[str, ...]:
        """Return the keys of the nodes inside a node that is not entered."""
        prefixes = [function_prefix(*_called(node))] if _called(node) in self._functions else []
        if control(node, self._opset, key) is None:
            prefixes += [f"{key}/{place}/" for place, _ in subgraphs_proto(node)]
        if not prefixes:
            return ()
        return tuple(inner for inner in self._attribution.nodes if inner.startswith(tuple(prefixes)))

    # branches and loops

    def _closed(self, step: Step) -> Control | None:
        if step in self._followed:
            return None
        return control(step.node, self._opset, _name(step.node, step.key))

    def _open(self, step: Step, found: Control, answer: Array) -> Iterator[Step]:
        """Yield the steps of the bodies that a step ran, and the step, which reads what they give."""
        attribute, times = found.body(answer), found.times(answer)
        body = body_of(step.node, attribute)
        stem = f"{found.name}/{attribute}"
        constants = self._initializers(body, f"{stem}/")
        returned: list[str] = []
        for time in range(1 if times is None else self._bounded(times, len(body.node))):
            iteration = None if times is None else time
            label = f"{stem}/" if times is None else f"{stem}[{time}]/"
            names = dict(constants)
            for value, feed in zip(body.input, found.feeds(label, time, returned), strict=True):
                names[value.name] = feed.value
                yield from (Step(step.key, maker, step.bodies, step.site) for maker in feed.makers)
            bodies = (*step.bodies, Body(step, stem, iteration))
            place = _Place(f"{step.key}/{attribute}/", label, names, bodies, step.site)
            yield from self._enter(body.node, place)
            returned = [names.get(value.name, value.name) for value in body.output]
        whole = replace(step, returned=tuple(returned))
        self._followed.add(whole)
        yield whole

    def _bounded(self, times: int, nodes: int) -> int:
        """Return how many iterations to enter."""
        followed = min(times, ITERATIONS, max(1, (STEPS - self._added) // max(1, nodes)))
        self._added += followed * nodes
        self.cut = self.cut or followed < times
        return followed

    def _initializers(self, body: onnx.GraphProto, label: str) -> dict[str, str]:
        """Put the initializers of a body into the main graph; return their names there."""
        names = {}
        for tensor in body.initializer:
            names[tensor.name] = self._fresh(label + tensor.name)
            self.proto.graph.initializer.append(tensor)
            self.proto.graph.initializer[-1].name = names[tensor.name]
        return names


def _identity(function: onnx.FunctionProto) -> _FunctionId:
    return function.domain, function.name, function.overload


def _called(node: onnx.NodeProto) -> _FunctionId:
    return node.domain, node.op_type, node.overload


def _read(node: onnx.NodeProto) -> Iterator[str]:
    yield from node.input
    yield from captured(node)


def _name(node: onnx.NodeProto, key: str) -> str:
    return next(filter(None, node.output), key)
