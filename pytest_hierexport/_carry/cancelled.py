"""Gives the producer of a value the origins of operations that cancelled out between it and its new consumers.

Example. `layer` transposes its result, and `head`, which called it, transposes it back. The optimizer drops both (an
inverse pair): a consumer in `head` now takes a value that `layer` computed but never returned.

    before                    call       after                  origins
    y = MatMul(x, w)          layer      y = MatMul(x, w)       layer, head (both fused)
    t = Transpose(y)          layer
    u = Transpose(t)          head
    z = Relu(u)               head       z = Relu(y)            head
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from functools import cached_property

from pytest_hierexport._calls.attribution import Evidence
from pytest_hierexport._carry.flat import Node, Value
from pytest_hierexport._carry.match import Match, OriginsOf, weakened
from pytest_hierexport._carry.slices import between

__all__ = ["attribute_cancelled"]


def attribute_cancelled(match: Match, origins: OriginsOf) -> None:
    """Add the origins of cancelled operations to the nodes that give their value now."""
    _Cancelled(match, origins).attribute()


class _Cancelled:
    def __init__(self, match: Match, origins: OriginsOf) -> None:
        self.match, self.origins, self.hierarchy = match, origins, match.known.hierarchy

    def attribute(self) -> None:
        match = self.match
        for value, source in match.numbering.aliases.items():
            last = match.before.producer.get(value)
            # What a node that survived computes did not cancel.
            if last is not None and not match.survivors.get(last) and match.before.consumers.get(value):
                self._attribute(value, source, {origin.call for origin in match.known.nodes[last]})

    def _attribute(self, value: Value, source: Value, last: AbstractSet[str]) -> None:
        """Add the origins of the operations from `source` to `value`; `last` are the calls of the last one.

        What one call does and undoes by itself concerns no other call: the operations count where a call outside the
        last one took part, or one below it that lives on without the value.
        """
        nodes = between(source, value, self.match.before, self.match.numbering)
        cancelled = [origin for node in nodes for origin in self.match.known.nodes[node]]
        calls = {origin.call for origin in cancelled}
        outside = {call for call in calls if not self._is_below(call, last)}
        if not outside and not self._lives_on_without(value, calls - last, source):
            return
        for node in self._producers_now(source):
            owners = {origin.call for origin in self.origins[node]}
            covered = any(self._is_below(call, last) for call in owners) if outside else not owners.isdisjoint(last)
            if not covered:
                self.origins[node] = weakened(Evidence.FUSED, [*self.origins[node], *cancelled])

    def _is_below(self, call: str, calls: AbstractSet[str]) -> bool:
        return not calls.isdisjoint(self.hierarchy.lineage(call))

    def _producers_now(self, value: Value) -> list[Node]:
        """Return the nodes after that give a value before: the one of its name, else all that give an equal value."""
        match = self.match
        named = match.after.named.get(value.name) if value.name else None
        equal = match.numbering.by_number_after.get(match.numbering.before[value], [])
        values = equal if named is None else [named]
        return [match.after.producer[each] for each in values if each in match.after.producer]

    def _lives_on_without(self, value: Value, calls: AbstractSet[str], source: Value) -> bool:
        """Whether no node gives the value by its name, and a call that computed its source lives on by other values.

        A call of which nothing else is left dissolved with the cancelled operations. grounding-dino needs this: its
        encoder transposes what its layers return beside their attention weights.
        """
        producer = self.match.before.producer.get(source)
        if producer is None or value.name in self.match.after.named:
            return False
        number, alive = self.match.numbering.before[source], self.match.numbering.alive
        gave = (self._given.get(call, set()) for call in calls & self._calls_of(producer))
        return any(number not in numbers and not numbers.isdisjoint(alive) for numbers in gave)

    @cached_property
    def _given(self) -> Mapping[str, set[int]]:
        """The numbers of the varying values that each call computed for others, or for the model to return."""
        given: dict[str, set[int]] = {}
        for node in self.match.before.nodes:
            calls = self._calls_of(node)
            for value in node.outputs if calls else ():
                consumers = [self._calls_of(consumer) for consumer in self.match.before.consumers.get(value, ())]
                for call in calls.difference(calls.intersection(*consumers or [set()])) if value.varying else ():
                    given.setdefault(call, set()).add(self.match.numbering.before[value])
        return given

    def _calls_of(self, node: Node) -> set[str]:
        """Return the calls that a node before ran in, and all above them."""
        return {call for origin in self.match.known.nodes[node] for call in self.hierarchy.lineage(origin.call)}
