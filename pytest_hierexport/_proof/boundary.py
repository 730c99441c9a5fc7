"""A graph as the proof sees it: who makes a value, who reads it, and which calls own each node."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from pytest_hierexport._calls.attribution import Attribution, Evidence, Origin
from pytest_hierexport._calls.hierarchy import ROOT
from pytest_hierexport._onnx.operators import reads_elements
from pytest_hierexport._proof.bodies import captured
from pytest_hierexport._proof.steps import Body, Step

if TYPE_CHECKING:
    import onnx

__all__ = ["WHOLE", "Graph", "Node", "Owner", "Turn"]


class Turn(NamedTuple):
    """A call in one iteration of each loop that makes it; for a call outside of loops, the call."""

    call: str
    iterations: tuple[tuple[str, int], ...] = ()


WHOLE = Turn(ROOT)


class Owner(NamedTuple):
    """An origin of a node with the turns that it lies in: its call's own, and those of all calls above it."""

    origin: Origin
    turns: frozenset[Turn]


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the unrolled graph; what its bodies read and give back is read by the node."""

    key: str
    operator: str
    inputs: tuple[str, ...]
    elements: tuple[str, ...]
    """The inputs whose elements it reads, not their shape or type alone."""
    outputs: tuple[str, ...]
    owners: tuple[Owner, ...]
    turns: frozenset[Turn]
    """What any of the owners lies in."""


class Graph:
    """The unrolled graph of a model with the owners of its nodes.

    Args:
        proto: The model.
        steps: Its nodes, functions and bodies entered.
        attribution: The origins of its nodes, by node key.
    """

    def __init__(self, proto: onnx.ModelProto, steps: Sequence[Step], attribution: Attribution) -> None:
        """Index the graph."""
        self.hierarchy = attribution.hierarchy
        self._inner: dict[Turn, Turn] = {}
        self._attribution = attribution
        self._turns: dict[tuple[str, tuple[Body, ...]], frozenset[Turn]] = {}
        self._holders: dict[Step, frozenset[str]] = {}
        self.inputs = [value.name for value in proto.graph.input]
        self.outputs = frozenset(value.name for value in proto.graph.output)
        self.initializers = {tensor.name: tensor for tensor in proto.graph.initializer}
        self.nodes = [self._node(step) for step in steps]
        self.maker = {value: i for i, node in enumerate(self.nodes) for value in node.outputs}

    def _node(self, step: Step) -> Node:
        origins = step.origins(self._attribution)
        owners = tuple(Owner(origin, self._lineage(origin.call, step.bodies)) for origin in origins)
        node = step.node
        inner = tuple(filter(None, (*captured(node), *step.returned)))
        read = (value for i, value in enumerate(node.input) if reads_elements(node.domain, node.op_type, i))
        elements = tuple(filter(None, read))
        return Node(
            step.key,
            node.op_type,
            tuple(dict.fromkeys((*filter(None, node.input), *inner))),
            tuple(dict.fromkeys((*elements, *inner))),
            tuple(filter(None, node.output)),
            owners,
            frozenset().union(*(owner.turns for owner in owners)),
        )

    def _lineage(self, call: str, bodies: tuple[Body, ...]) -> frozenset[Turn]:
        """Return the turns of a call and of those above it, for a node in these bodies."""
        key = call, bodies
        if key not in self._turns:
            self._turns[key] = frozenset(self._walk_up(call, bodies))
        return self._turns[key]

    def _walk_up(self, call: str, bodies: tuple[Body, ...]) -> Iterator[Turn]:
        below: Turn | None = None
        for name in self.hierarchy.lineage(call):
            around = [body for body in bodies if name not in self._callers(body.holder)]
            turn = Turn(name, tuple((body.name, body.iteration) for body in around if body.iteration is not None))
            if below is not None:
                self._inner.setdefault(below, turn)
            below = turn if around else None
            yield turn

    def _callers(self, holder: Step) -> frozenset[str]:
        """Return the calls that run a branch or a loop themselves, and those above them."""
        if holder not in self._holders:
            self._holders[holder] = self._above(holder.origins(self._attribution))
        return self._holders[holder]

    def _above(self, origins: Iterable[Origin]) -> frozenset[str]:
        """Return the calls of origins, those above them and the root."""
        return frozenset((ROOT, *(name for origin in origins for name in self.hierarchy.lineage(origin.call))))

    @cached_property
    def in_bodies(self) -> frozenset[str]:
        """The calls that branches and loops make, entered or not."""
        found = {turn.call for turn in self._inner}
        for key, origins in self._attribution.nodes.items():
            for holder in _holders(key):
                callers = self._above(self._attribution.nodes.get(holder, ()))
                found |= self._above(origins) - callers
        return frozenset(found)

    @cached_property
    def above(self) -> Mapping[Turn, Turn]:
        """The turn above every turn but the root's, in execution order among those of one call."""
        calls = (call for name, call in self.hierarchy.items() if name not in self.in_bodies)
        return {Turn(call.name): Turn(call.parent) for call in calls if call.parent is not None} | self._inner

    @cached_property
    def readers(self) -> dict[str, list[int]]:
        """The nodes that read each value."""
        readers: dict[str, list[int]] = defaultdict(list)
        for i, node in enumerate(self.nodes):
            for value in node.inputs:
                readers[value].append(i)
        return dict(readers)

    @cached_property
    def members(self) -> dict[Turn, list[int]]:
        """The nodes that have an origin in each turn, or below it."""
        members: dict[Turn, list[int]] = defaultdict(list)
        for i, node in enumerate(self.nodes):
            for turn in node.turns:
                members[turn].append(i)
        return dict(members)

    @cached_property
    def by_elements(self) -> frozenset[str]:
        """The values that depend on the elements of a graph input, not on its shape alone."""
        found = {value for value in self.inputs if value not in self.initializers}
        for node in self.nodes:
            if not found.isdisjoint(node.elements):
                found.update(node.outputs)
        return frozenset(found)

    @cached_property
    def constants(self) -> frozenset[str]:
        """The values that stand in the file: initializers and what `Constant` nodes hold."""
        made = (value for node in self.nodes if node.operator == "Constant" for value in node.outputs)
        return frozenset((*self.initializers, *made))

    def outside(self, node: Node, turn: Turn) -> Iterator[Owner]:
        """Yield the node's owners that do not lie in a turn."""
        return (owner for owner in node.owners if turn not in owner.turns)

    def fused_with(self, node: Node, turn: Turn) -> Iterator[Owner]:
        """Yield the owners outside a turn that a fusion made own the node together with it."""
        fused = [owner for owner in node.owners if owner.origin.evidence is Evidence.FUSED]
        if any(turn in owner.turns for owner in fused):
            yield from (owner for owner in fused if turn not in owner.turns)


def _holders(key: str) -> Iterator[str]:
    """Yield the keys of the nodes that hold the subgraphs in which a node stands, the outermost first."""
    start = key.rfind("//") + 2 if "//" in key else 0
    at = key.find("/", start)
    while at >= 0:
        yield key[:at]
        at = key.find("/", key.index("/", at + 1) + 1)
